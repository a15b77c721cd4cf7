"""Op histories in the frames that checkers know of runs, with the allowances of Jepsen's checker.

A key is a topic, `run/key` by its history and name, and the histories are told apart by that. A
place in the log is a dense index, so that empty offsets are no records. What differs from a run
folder, by definition:

- what OK ops polled is the final read, and polls of other ops prove what lies where;
- an op of unknown outcome happened if an OK op read one of its values; its sends are ok then;
- how far a key was read is the highest of the values that OK ops read, each at its lowest place: a
  value below that which nobody read is lost. What nobody read is unseen, lost or not;
- the steps of a process lead from its last OK op (for sends, also from an INFO op), unless it gave
  up the key in between; within an op, keys that its rebalance-log names are excused.

`process` is the number of the history wherever a checker joins by it: numbers of processes need
not fit into a column of a run folder. The facts that an example tells are in `facts`.

Source: jepsen.tests.kafka.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from verifiers.checking.details import columns
from verifiers.checking.polling import TURNS_SCHEMA
from verifiers.ops.kept import Kept
from verifiers.ops.neighbours import remembered
from verifiers.ops.reading import OpHistories
from verifiers.ops.schema import NAMED_ANOMALY_SCHEMA
from verifiers.ops.versions import Versions
from verifiers.replicas.locations import LOCATION_SCHEMA
from verifiers.run_folder.schema import ABORTED_READS_SCHEMA
from verifiers.scanning.offsets import SLOTS_SCHEMA
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, in_columns, struct
from verifiers.timeline.frames import SCHEMAS as TIMELINE_SCHEMAS

MOST_SKIPPED = 8
"""So many of the skipped values are named."""

FRAMES = frozenset(
    {
        "ops", "mops", "values", "slots", "txns", "txn_reads", "turns", "producing", "interleaved",
        "transactors", "aborted_reads", "located", "loss_causes",
    }
)  # fmt: skip
"""The frames that op histories have: all but the first two as of run folders, and interleaved:
neighbours among the sends of an op with values of other ops between them."""

_SEPARATOR = "/"
_FACTS = MapType(TEXT, TEXT)
_SLOTS = StructType([*SLOTS_SCHEMA.fields, *struct(facts=_FACTS).fields])
_VALUES = struct(
    topic=TEXT,
    value=LONG,
    **dict.fromkeys(("process", "partition"), INT),
    **dict.fromkeys(("offset", "invoke_ns", "complete_ns"), LONG),
    type=TEXT,
    **dict.fromkeys(("polls", "finals"), LONG),
    **dict.fromkeys(("poll_first", "poll_last", "final_first", "final_last"), LONG),
    **dict.fromkeys(("poll_partition", "final_partition", "final_partition_high"), INT),
    polled_ns=LONG,
    reader=INT,
    **dict.fromkeys(("first", "last"), LONG),
    partitions=INT,
    sends=LONG,
    **dict.fromkeys(("searched", "deleted", "unsought"), BOOL),
    facts=_FACTS,
)
_READS = struct(
    process=INT, txn=LONG, sent_by=INT, sent_in=LONG, topic=TEXT, partition=INT, offset=LONG,
    value=LONG, time_ns=LONG,
)  # fmt: skip
_OF_STEPS = struct(
    position=LONG, prev_position=LONG, complete_ns=LONG, facts=_FACTS, step=TEXT,
    type=TEXT, delta=LONG,
)  # fmt: skip
_STEPS = StructType([*TURNS_SCHEMA.fields, *_OF_STEPS.fields])


def frames_of(
    histories: OpHistories, shared: Versions, suspicious: DataFrame, kept: Kept
) -> Mapping[str, DataFrame]:
    """Return the frames by the names that checkers ask for.

    Args:
        histories: as they were read.
        shared: what is known of the values of the keys that are looked at.
        suspicious: the steps out of order, and the reads that must not be (neighbours.py).
        kept: holds those that are persisted.

    Returns:
        FRAMES. In transactors, aborted_reads, located and loss_causes there is nothing.
    """
    ops, spark = histories.ops, histories.ops.sparkSession
    values = kept.keep(values_of_topics(shared.values, shared.committed))
    steps = remembered(suspicious.where(F.col("delta") != 1), ops)
    told = kept.keep(_told(_undisturbed(steps, ops), shared.log))
    is_back, is_send = F.col("delta") < 1, F.col("step") == "send"
    in_effect = F.col("internal") | F.col("type").isin("ok", "info")
    return {
        "ops": ops,
        "mops": histories.mops,
        "values": values,
        "slots": _slots(shared.log, shared.values),
        "txns": ops.select(F.col("run").alias("process"), F.col("op").alias("txn"), "type"),
        "txn_reads": _own_reads(suspicious),
        "turns": told.where(~is_send),
        "producing": told.where(is_send & is_back & in_effect),
        "interleaved": told.where(is_send & F.col("internal") & ~is_back),
        "transactors": frame_of(spark, [], struct(process=INT)),
        "aborted_reads": frame_of(spark, [], ABORTED_READS_SCHEMA),
        **no_brokers(spark),
    }


def no_brokers(spark: SparkSession) -> Mapping[str, DataFrame]:
    """Return the frames of what brokers tell of lost records, which is nothing here."""
    return {
        "located": frame_of(spark, [], LOCATION_SCHEMA),
        "loss_causes": frame_of(spark, [], TIMELINE_SCHEMAS["loss_causes"]),
    }


def as_op_anomalies(anomaly: str, found: DataFrame) -> DataFrame:
    """Return what a checker found, in the columns of NAMED_ANOMALY_SCHEMA.

    The op is the one that the detail names, as `op`, or as the number of a transaction.
    """
    separator = F.locate(_SEPARATOR, "topic")
    op = F.coalesce(F.col("detail")["op"], F.col("detail")["txn"])
    facts = F.map_filter("detail", lambda name, _: ~name.isin("op", "txn"))
    given = {
        "anomaly": F.lit(anomaly),
        "run": F.coalesce(F.substr("topic", F.lit(1), separator - 1).cast("int"), "process"),
        "key": F.substr("topic", separator + 1),
        **columns("value", "kind"),
        "op": op,
        "detail": F.to_json(facts),
    }
    return in_columns(found, NAMED_ANOMALY_SCHEMA, given)


def _topic() -> Column:
    return F.concat("run", F.lit(_SEPARATOR), "key")


def _facts(**facts: Column | str) -> Column:
    """Return the facts of an example by name, as texts; lists as JSON."""
    pairs: list[Column] = []
    for name, fact in facts.items():
        column = F.col(fact) if isinstance(fact, str) else fact
        pairs += [F.lit(name.replace("_", "-")), column.cast("string")]
    return F.create_map(*pairs)


def values_of_topics(values: DataFrame, committed: DataFrame) -> DataFrame:
    """Return what is known of values and of ops that happened (versions.py) as runs know it."""
    read = values.where(F.col("reader").isNotNull() & F.col("first").isNotNull())
    bounds = read.groupBy("run", "key").agg(
        F.max("first").alias("bound"),
        F.max_by("reader", F.struct("first", -F.col("reader"))).alias("max_read_op"),
    )
    proven = committed.select("run", F.col("op").alias("writer"), F.lit(True).alias("proven"))
    known = values.join(bounds, ["run", "key"], "left").join(proven, ["run", "writer"], "left")
    outcome = F.col("writer_type")
    happened = (outcome == "ok") | ((outcome == "info") & F.col("proven"))
    unread = F.col("reader").isNull()
    is_below = F.coalesce(F.col("latest") <= F.col("bound"), F.lit(False))
    several = F.col("places") > 1
    # Of what a failed op wrote, whoever read it is to blame.
    shown_by = F.when(outcome == "fail", F.coalesce("reader", "writer"))
    facts = _facts(
        op=F.coalesce(shown_by, F.col("writer"), F.col("reader")),
        index="first",
        writer="writer",
        writer_type="writer_type",
        reader="reader",
        max_read_index=F.when(unread & is_below, F.col("bound")),
        max_read_op=F.when(unread & is_below, F.col("max_read_op")),
        count=F.when(several, F.col("places")),
        offsets=F.when(several, F.to_json(F.array("lowest_offset", "highest_offset"))),
    )
    given = {
        **columns("value", "first", "sends", last="latest"),
        **columns(final_first="first", final_last="latest"),
        "topic": _topic(),
        "type": F.when(happened, "ok").otherwise(outcome),
        "finals": F.when(unread, 0).otherwise(1),
        "partitions": F.lit(1),
        "searched": is_below,
        "deleted": F.lit(False),
        "unsought": F.col("acked") & unread,
        "facts": facts,
    }
    return in_columns(known, _VALUES, given)


def _slots(log: DataFrame, values: DataFrame) -> DataFrame:
    """Return the offsets with several values (SLOTS_SCHEMA).

    Read of these are those that an OK op polled at any offset: a value that was acknowledged and
    then lost is not among them.
    """
    read = values.select("run", "key", "value", F.col("reader").isNotNull().alias("was_read"))
    crowded = log.where(F.col("lowest") != F.col("highest")).join(read, ["run", "key", "value"])
    given_out = F.when(F.col("was_read"), F.col("value"))
    rows = crowded.groupBy("run", "key", "offset", "index").agg(
        F.sort_array(F.collect_set("value")).alias("values"),
        F.min(given_out).alias("read_low"),
        F.max(given_out).alias("read_high"),
    )
    given = {
        "facts": _facts(offset="offset", index="index", values=F.to_json("values")),
        "topic": _topic(),
        "low": F.element_at("values", 1),
        "high": F.element_at("values", -1),
        **columns("offset", "read_low", "read_high"),
    }
    return in_columns(rows, _SLOTS, given)


def _own_reads(suspicious: DataFrame) -> DataFrame:
    is_own = (F.col("kind") == "poll") & (F.col("writer") == F.col("op"))
    own = suspicious.where(is_own).select("run", "key", "value", "op").distinct()
    given = columns("value", process="run", txn="op", sent_by="run", sent_in="op")
    return in_columns(own, _READS, {**given, "topic": _topic()})


def _undisturbed(steps: DataFrame, ops: DataFrame) -> DataFrame:
    """Return the steps but those within ops that polled keys which were rebalanced meanwhile."""
    moved = ops.where(F.col("rebalanced").isNotNull()).select(
        F.col("run").alias("moved_run"),
        F.col("op").alias("moved_op"),
        F.explode("rebalanced").alias("moved_key"),
    )
    here = (
        F.col("internal")
        & (F.col("kind") == "poll")
        & (F.col("run") == F.col("moved_run"))
        & (F.col("op") == F.col("moved_op"))
        & (F.col("key") == F.col("moved_key"))
    )
    return steps.join(moved, here, "left_anti")


def _told(steps: DataFrame, log: DataFrame) -> DataFrame:
    """Return steps as turns and pairs of sends: both names of each column are filled."""
    before = F.col("place") - F.col("delta")
    is_skip = F.col("delta") > 1
    facts = _facts(
        op="op",
        values=F.to_json(F.array("before", "value")),
        delta="delta",
        ops=F.to_json(F.array("before_op", "op")),
        process="process",
        mop="mop",
        skipped=F.to_json("passed"),
    )
    given = {
        **columns("op", "value", "internal", "type", "delta", step="kind"),
        **columns(offset="place", position="place", prev_op="before_op", prev_value="before"),
        "topic": _topic(),
        "prev_offset": before,
        "prev_position": before,
        "due": before + 1,
        "skipped": F.when(is_skip, F.col("delta") - 1).otherwise(0),
        # The oracle knows it of sends: the log that a lost record was acknowledged in was cut off.
        "kind": F.when((F.col("kind") == "send") & F.col("unread"), "lost"),
        "facts": facts,
    }
    rows = _with_skipped(steps.where(is_skip), log).unionByName(
        steps.where(~is_skip), allowMissingColumns=True
    )
    return in_columns(rows, _STEPS, given)


def _with_skipped(rows: DataFrame, log: DataFrame) -> DataFrame:
    before = F.col("place") - F.col("delta")
    last = F.least(F.col("place") - 1, before + MOST_SKIPPED)
    wanted = rows.withColumn("between", F.explode(F.sequence(before + 1, last)))
    order = log.where(F.col("value") == F.col("lowest")).select(
        "run", "key", F.col("index").alias("between"), F.col("value").alias("passed_value")
    )
    return (
        wanted.join(order, ["run", "key", "between"])
        .groupBy(*rows.columns)
        .agg(F.sort_array(F.collect_list(F.struct("between", "passed_value"))).alias("pairs"))
        .withColumn("passed", F.col("pairs.passed_value"))
        .drop("pairs")
    )
