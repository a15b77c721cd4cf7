"""The comparison of replicas: the frames for checkers, and the replicas' part of the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from verifiers.frames.records import lost
from verifiers.replicas.batches import BATCH_SCHEMA, Summary, batches_of, known_bounds, summarise
from verifiers.replicas.copied import Copied
from verifiers.replicas.differences import DIFFERENCE_SCHEMA, are_alike, by_partition, differences
from verifiers.replicas.flaws import DAMAGE_SCHEMA, damaged, of_keys
from verifiers.replicas.locations import LOCATION_SCHEMA, locate
from verifiers.run_folder.member import MEMBER, Member, homes_of, number_of
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, LONG, TEXT, struct
from verifiers.spark.plans import keep

EPOCH_SCHEMA = struct(
    broker=INT, topic=TEXT, partition=INT, leader_epoch=INT, since=LONG, until=LONG, log_start=LONG
)
"""One row per entry of a leader-epoch checkpoint: the epoch's offsets, from `since` to before
`until`; below `log_start` it says nothing any more.
"""

UNMARKED_SCHEMA = struct(
    topic=TEXT, partition=INT, broker=INT, producer_id=LONG, producer_epoch=INT, offset=LONG,
    last_offset=LONG, batches=LONG,
)  # fmt: skip
"""One row per producer and partition whose leader holds batches of a transaction, with no marker of
that producer behind them: from `offset` to `last_offset`.
"""

SUSPECTS = {
    "differences": DIFFERENCE_SCHEMA,
    "disordered": BATCH_SCHEMA,
    "damaged": DAMAGE_SCHEMA,
    "disjoint": BATCH_SCHEMA,
    "unmarked": UNMARKED_SCHEMA,
}
"""The frames that are empty where all replicas are in order.

differences: the batches in which replicas differ. disordered: those of replicas whose epochs have
to be checked. damaged: those that are not as their leader appended them. disjoint: those of all
replicas of the partitions in which one has a hole or an overlap. unmarked: the transactions that no
marker ends.
"""

_REPLICA = ("broker", "topic", "partition")
_MOST_CUTS = 32
_MOST_EPOCHS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The compared replicas of one or several runs.

    Attributes:
        homes: where their segments lie (`homes_of`).
        copied: what lay on the disks, by member, as the member calls it.
        replicas: of all members, as they go among each other.
        summaries: each replica's batches, summed up; empty if there are none.
        batches: of all replicas (BATCH_SCHEMA).
        suspects: by the names of SUSPECTS, what is known to be suspicious; only what is.
        kept: frames that occupy memory until they are unpersisted.
    """

    homes: Mapping[str, str]
    copied: Mapping[int, Copied]
    replicas: Copied
    summaries: tuple[Summary, ...]
    batches: DataFrame
    suspects: Mapping[str, DataFrame]
    kept: tuple[DataFrame, ...] = ()

    @property
    def empty(self) -> frozenset[str]:
        """The names of the suspects that there are none of."""
        return frozenset(SUSPECTS) - set(self.suspects)

    def frames(self, spark: SparkSession, values: DataFrame | None) -> Mapping[str, DataFrame]:
        """Return the frames by the names that checkers ask for; without values none is located."""
        located = (
            locate(spark, lost(values), self.batches, self.replicas, self.homes)
            if self.replicas.replicas and values is not None
            else frame_of(spark, [], LOCATION_SCHEMA)
        )
        entries = [
            (*summary.replica.key, epoch, since, until, summary.start)
            for summary in self.summaries
            for epoch, since, until in summary.replica.epoch_offsets
        ]
        epochs = frame_of(spark, entries, EPOCH_SCHEMA)
        none = {name: frame_of(spark, [], SUSPECTS[name]) for name in self.empty}
        return {**none, **self.suspects, "epochs": epochs, "located": located}

    def verdict_on(self, member: Member) -> "ReplicaVerdict":
        """Return the replicas' part of a member's verdict, without the located records."""
        copied = self.copied[member.number]
        own = [
            replace(each, replica=replace(each.replica, topic=member.own(each.replica.topic)))
            for each in self.summaries
            if number_of(each.replica.topic) == member.number
        ]
        brokers: dict[str, dict[str, Any]] = {}
        for summary in own:
            replica = summary.replica
            brokers.setdefault(str(replica.broker), {})[replica.name] = {
                "leo": summary.end,
                "high_watermark": replica.high_watermark,
                "recovery_point": replica.recovery_point,
                "log_start": summary.start,
                "batches": summary.batches,
                "size_bytes": summary.size_bytes,
                "epochs": [list(entry) for entry in (replica.epochs or ())[-_MOST_EPOCHS:]],
                "in_sync": replica.in_sync,
                "leader": replica.leads,
                "problem": summary.problem,
            }
        ours = copied.by_partition()
        reasons = (*copied.reasons, *_damaged(own), *_short(own))
        document = {
            "compared": not reasons,
            "brokers": brokers,
            "cuts": sum(cut.topic_partition in ours for cut in copied.cuts),
            "located": {},
        }
        return ReplicaVerdict(document=document, reasons=reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaVerdict:
    """The replicas' part of verdict.json, and sentences why they were not compared in full."""

    document: Mapping[str, Any]
    reasons: tuple[str, ...]


def compare(spark: SparkSession, copied: Mapping[Member, Copied], *, target: str) -> Comparison:
    """Compare replicas, by one pass over all headers if they agree.

    The headers are kept in the folder of the name `target`; what that held is replaced.
    """
    homes = homes_of(copied)
    replicas = _together(copied)
    batches = batches_of(spark, replicas.replicas, homes, target)
    ends = {
        (member.named(end.topic), end.partition): end.high
        for member in copied
        for end in member.run.ends
    }
    bounds = known_bounds(replicas, ends)
    summaries = summarise(batches, replicas, bounds) if bounds else ()
    kept: tuple[DataFrame, ...] = ()
    suspects: dict[str, DataFrame] = {}
    unlike = [logs for logs in by_partition(summaries) if not are_alike(logs)]
    if unlike:
        differing = keep(differences(spark, batches, unlike, homes))
        kept = (differing,)
        if differing.limit(1).collect():
            suspects["differences"] = differing
    if disordered := [each.replica.key for each in summaries if each.disordered]:
        suspects["disordered"] = of_keys(batches, _REPLICA, disordered)
    if broken := {each.replica.topic_partition for each in summaries if each.broken}:
        whole = batches.where(F.col("problem").isNull())
        suspects["disjoint"] = of_keys(whole, _REPLICA[1:], broken)
    changed = damaged(spark, batches, summaries)
    if changed is not None:
        suspects["damaged"] = changed
    leaders = [s.replica.key for s in summaries if s.replica.leads and s.transactional]
    if leaders:
        suspects["unmarked"] = _without_marker(of_keys(batches, _REPLICA, leaders))
    return Comparison(
        homes=homes,
        copied={member.number: replicas_of_run for member, replicas_of_run in copied.items()},
        replicas=replicas,
        summaries=summaries,
        batches=batches,
        suspects=suspects,
        kept=kept,
    )


def _without_marker(batches: DataFrame) -> DataFrame:
    """Return the transactions among these batches that no marker ends (UNMARKED_SCHEMA).

    A marker ends whatever its producer has open in the partition, under whichever epoch: the
    coordinator may raise that before it aborts (KIP-360, KIP-890).
    """
    producer = Window.partitionBy("broker", "topic", "partition", "producer_id")
    marked = F.max(F.when(F.col("is_control"), F.col("last_offset"))).over(producer)
    open_batches = (
        batches.where(F.col("is_transactional") & F.col("problem").isNull())
        .withColumn("marked", marked)
        .where(~F.col("is_control"))
        .where(F.col("marked").isNull() | (F.col("base_offset") > F.col("marked")))
    )
    return open_batches.groupBy("topic", "partition", "broker", "producer_id").agg(
        F.max("producer_epoch").cast("int").alias("producer_epoch"),
        F.min("base_offset").alias("offset"),
        F.max("last_offset").alias("last_offset"),
        F.count("*").alias("batches"),
    )


def _together(copied: Mapping[Member, Copied]) -> Copied:
    """Return the replicas and truncations of all members, under their names among all members."""

    def named(segment: Path, member: Member) -> Path:
        return Path(member.named(str(segment.relative_to(member.run.path))))

    return Copied(
        replicas=tuple(
            replace(
                replica,
                topic=member.named(replica.topic),
                segments=tuple(named(segment, member) for segment in replica.segments),
            )
            for member, replicas_of_run in copied.items()
            for replica in replicas_of_run.replicas
        ),
        cuts=tuple(
            replace(cut, topic=member.named(cut.topic))
            for member, replicas_of_run in copied.items()
            for cut in replicas_of_run.cuts
        ),
    )


def _damaged(summaries: Sequence[Summary]) -> list[str]:
    """Return, in sentences, which logs in the ISR cannot be read to their end.

    The log of a broker that is down may end in half a batch, which the broker cuts when it starts.
    """
    return [
        f"The log of {summary.replica.name} on broker {summary.replica.broker} cannot be read to "
        f"its end: {summary.problem}."
        for summary in summaries
        if summary.problem and summary.replica.in_sync is not False
    ]


def _short(summaries: Sequence[Summary]) -> list[str]:
    """Return, in sentences, which logs that others are compared with end below the watermark."""
    return [
        f"The log of {log.replica.name} that was copied from broker {log.replica.broker} ends at "
        f"{log.end}, below the high watermark of {log.bound}."
        for log, *_ in by_partition(summaries)
        if log.end < log.bound
    ]


def located_in(found: DataFrame) -> dict[int, dict[str, Any]]:
    """Return, by member, on which disks lost records still lie, by all anomalies of all members.

    Returns:
        `lost`, of which `held` still lie on a disk, `gone` on none, and `unplaced` have no offset
        that is known; `causes`: what lost them, in words, and how many; `stretches`: which of them
        were cut by whom, where and when.
    """
    names = ("held_by", "lacking", "cut_by", "cut_to", "cut_at_utc", "cut_epoch", "lost_by")
    details = [F.col("detail")[name].alias(name) for name in names]
    rows = (
        found.where(F.col("anomaly") == "lost-write")
        .groupBy(MEMBER, "topic", "partition", *details)
        .agg(
            F.count("*").alias("count"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        .orderBy("topic", "partition", "first")
        .collect()
    )
    by_member: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        facts = row.asDict()
        by_member.setdefault(facts.pop(MEMBER), []).append(facts)
    return {number: _located(rows) for number, rows in by_member.items()}


def _located(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    cuts = [row for row in rows if row["lacking"] is not None or row["held_by"]]
    lost = sum(row["count"] for row in rows)
    placed = sum(row["count"] for row in cuts)
    held = sum(row["count"] for row in cuts if row["held_by"])
    causes: Counter[str] = Counter()
    for row in rows:
        if row["lost_by"] is not None:
            causes[row["lost_by"]] += row["count"]
    return {
        "causes": dict(causes),
        "lost": lost,
        "held": held,
        "gone": placed - held,
        "unplaced": lost - placed,
        "stretches": cuts[:_MOST_CUTS],
    }
