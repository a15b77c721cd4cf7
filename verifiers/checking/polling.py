"""The order in which consumers received records: what excuses a jump, and what it skipped."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.checking.details import columns
from verifiers.scanning.block_digests import BLOCK_BITS
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, struct

TURNS_SCHEMA = struct(
    process=INT, topic=TEXT, partition=INT, op=LONG, offset=LONG, value=LONG, time_ns=LONG,
    prev_op=LONG, prev_offset=LONG, prev_value=LONG, prev_ns=LONG, mode=TEXT, internal=BOOL,
    due=LONG, skipped=LONG, kind=TEXT,
)  # fmt: skip
"""The frame `turns` as checkers are given it (`judged`)."""

RESETS = ("start", "assign", "subscribe", "seek", "crash")
"""Events after which a consumer may go on anywhere; if a seek names an offset, only there."""


def judged(turns: DataFrame, values: DataFrame, log: DataFrame, events: DataFrame) -> DataFrame:
    """Return the turns that nothing excuses, and that went back or skipped known records.

    Args:
        turns: where consumers were given something other than the next offset.
        values: what is known of records that may not be in order.
        log: which offsets hold a record.
        events: what else happened to the consumers.

    Returns:
        The same columns, and

        - due: the offset that was to follow: the one that was sought last between the two records,
          or else the one after the earlier record;
        - skipped: how many known records lie from there to before the later record: of the final
          log if that has both records where they were read;
        - kind: "lost" if the final read lacks one of the two there, or did not get to it.
    """
    placed = _placed(turns, values)
    within = _untouched(placed.where("internal"), events)
    between = _unprepared(placed.where(~F.col("internal")), events)
    found = between.unionByName(within.withColumn("due", F.col("prev_offset") + 1))
    back = found.where(F.col("offset") < F.col("due")).withColumn("skipped", F.lit(0).cast("long"))
    forward = _passed_over(found.where(F.col("offset") > F.col("due")), log)
    return back.unionByName(forward).drop("lasting")


def _placed(turns: DataFrame, values: DataFrame) -> DataFrame:
    """Return turns with `lasting`, whether the final log has both records there, and `kind`."""
    for which in ("", "prev_"):
        here = values.select(
            *("topic", F.col("value").alias(f"{which}value"), F.lit(True).alias("is_suspicious")),
            *("deleted", "final_first", "final_last"),
        )
        is_found = F.col(f"{which}offset").between(F.col("final_first"), F.col("final_last"))
        in_order = F.col("is_suspicious").isNull() & F.col(f"{which}value").isNotNull()
        lasts = F.coalesce(is_found, in_order)
        turns = turns.join(here, ["topic", f"{which}value"], "left").select(
            *turns.columns,
            lasts.alias(f"{which}lasts"),
            (F.coalesce(~F.col("deleted"), F.lit(False)) & ~lasts).alias(f"{which}gone"),
        )
    return turns.withColumns(
        {
            "lasting": F.col("lasts") & F.col("prev_lasts"),
            "kind": F.when(F.col("gone") | F.col("prev_gone"), "lost"),
        }
    ).drop("lasts", "prev_lasts", "gone", "prev_gone")


def _unprepared(turns: DataFrame, events: DataFrame) -> DataFrame:
    """Return the turns that no event between the two records excuses, with `due`.

    An event that names a topic or a partition excuses only turns there.
    """
    resets = events.where(F.col("f").isin(*RESETS)).select(
        F.col("process").alias("reset_process"),
        F.col("topic").alias("reset_topic"),
        F.col("partition").alias("reset_partition"),
        F.col("time_ns").alias("reset_ns"),
        F.when(F.col("f") == "seek", F.col("offset")).alias("sought"),
    )
    between = (
        (turns["process"] == F.col("reset_process"))
        & F.col("reset_ns").between(turns["prev_ns"], turns["time_ns"])
        & (F.col("reset_topic").isNull() | (F.col("reset_topic") == turns["topic"]))
        & (F.col("reset_partition").isNull() | (F.col("reset_partition") == turns["partition"]))
    )
    anywhere, somewhere = F.col("sought").isNull(), F.col("sought").isNotNull()
    unexcused = turns.join(resets.where(anywhere), between, "left_anti")
    last = F.max_by("sought", "reset_ns")
    return (
        unexcused.join(resets.where(somewhere), between, "left")
        .groupBy(*turns.columns)
        .agg(F.coalesce(last, F.col("prev_offset") + 1).alias("due"))
    )


def _untouched(turns: DataFrame, events: DataFrame) -> DataFrame:
    """Return the turns within polls in which no partition was assigned, revoked or lost."""
    moved = events.where((F.col("f") == "rebalance") & F.col("op").isNotNull())
    return turns.join(moved.select("process", "op").distinct(), ["process", "op"], "left_anti")


def _passed_over(turns: DataFrame, log: DataFrame) -> DataFrame:
    """Return those of the turns forward, with `due`, that skipped known records, with `skipped`.

    Offsets without a record, such as transaction markers, are not skipped.
    """
    size = 1 << BLOCK_BITS
    blocks = F.sequence(
        F.shiftright(F.col("due"), BLOCK_BITS),
        F.shiftright(F.col("offset") - 1, BLOCK_BITS),
    )
    gaps = turns.select("*", F.explode(blocks).alias("block"))
    # All bits from `due` to before `offset`: two unsigned shifts of all ones, which, unlike
    # differences of powers of two, hold for bit 63 as well.
    known = F.expr(
        "bit_count(if(lasting, coalesce(final_bits, 0L), bits)"
        f" & shiftleft(-1L, cast(greatest(due - block * {size}, 0) as int))"
        f" & shiftrightunsigned(-1L, cast({size} - least(offset - block * {size}, {size}) as int)))"
    )
    return (
        gaps.join(
            log.select("topic", "partition", "block", "bits", "final_bits"),
            ["topic", "partition", "block"],
        )
        .groupBy(*turns.columns)
        .agg(F.sum(known).alias("skipped"))
        .where(F.col("skipped") > 0)
    )


def poll_details() -> dict[str, Column]:
    """Return, of a row of `turns`, both records, the polls that gave them, what was skipped."""
    before = {f"after_{name}": f"prev_{name}" for name in ("offset", "value", "ns")}
    skipped = F.when(F.col("skipped") > 0, F.col("skipped"))
    return columns(poll="op", after_poll="prev_op", **before) | {"skipped": skipped}
