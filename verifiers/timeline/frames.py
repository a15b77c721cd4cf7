"""The timeline frames that checkers may ask for, by name: SCHEMAS has them all.

All are small: a row a second and partition at most. What is said of a whole cluster has an empty
topic (verifiers/run_folder/member.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType

from harness.core.run_dir import RunDir
from harness.core.version import numbers
from verifiers.replicas.copied import Replica, epoch_starts
from verifiers.run_folder.clients import client_settings, read_clients
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.group import GroupRecord
from verifiers.run_folder.journal import damage_named
from verifiers.run_folder.member import Member
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import BOOL, DOUBLE, INT, LONG, TEXT, struct
from verifiers.timeline.elections import read_elections
from verifiers.timeline.explanations import clients_of, explanations
from verifiers.timeline.metrics import measured
from verifiers.timeline.partition_states import Timeline, read_timeline, write_states
from verifiers.timeline.processes import read_processes
from verifiers.timeline.recovery import recoveries, recovery_in
from verifiers.timeline.refusals import read_refusals
from verifiers.timeline.transactions import read_transactions
from verifiers.timeline.windows import EpochStarts, ceilings, demands, high_watermarks, shortages

SCHEMAS = {
    # The high watermarks that leaders reported, one row per sample: the partition's high watermark
    # at some moment between the two times.
    "watermarks": struct(
        topic=TEXT, partition=INT, leader_epoch=INT, asked_ns=LONG, answered_ns=LONG, offset=LONG
    ),
    # The offsets below which all reads must lie: one row per stretch of time, in which nobody may
    # have been given a record of that leader epoch, which began at the offset `epoch_start`, at
    # `high_watermark` or beyond.
    "ceilings": struct(
        topic=TEXT, partition=INT, leader_epoch=INT, epoch_start=LONG, from_ns=LONG, to_ns=LONG,
        high_watermark=LONG, asked_ns=LONG,
    ),
    # One row per stretch of time, in which the leader knew its ISR to be too small. `producers` are
    # the processes that are known to have sent with acks=all, whatever the contract of the run:
    # scripts of claims send with others too.
    "shortages": struct(
        topic=TEXT, partition=INT, from_ns=LONG, to_ns=LONG, leader=INT, isr=TEXT,
        producers=ArrayType(INT),
    ),
    # One row per topic and stretch of time in which all its partitions must be writable within the
    # bound.
    "demands": struct(topic=TEXT, from_ns=LONG, to_ns=LONG, bound_ns=LONG),
    # Whether the cluster was whole again after the last healing. One row that says that the end was
    # waited for, of a null `kind`, and one per thing that was missing when the wait ended:
    # `missing` is the broker that was not in the ISR or not registered, and `caught_up_ns` for how
    # long its replica had held all that the leader held (null: it did not).
    "recoveries": struct(
        topic=TEXT, partition=INT, kind=TEXT, missing=INT, leader=INT, isr=TEXT, caught_up_ns=LONG,
        from_ns=LONG, to_ns=LONG, bound_ns=LONG,
    ),
    # One row per node, of a null `kind`, and one per process of it that ended under load though no
    # fault of the journal explains it. `status` is the exit status, 128 more than a signal's
    # number; `said` the last complaint in its log.
    "processes": struct(
        topic=TEXT, node=INT, service=TEXT, kind=TEXT, status=INT, from_ns=LONG, to_ns=LONG,
        said=TEXT,
    ),
    # One row per broker that told when the run began, and later, how many batches with a wrong
    # checksum it had refused (cluster/refusals.jsonl): how many there were since, and when it told
    # of the last one. Kind `damaged` where a fault may have changed bytes.
    "refusals": struct(topic=TEXT, node=INT, kind=TEXT, at_ns=LONG, batches=LONG),
    # One row per claim of a node to be the active controller in an epoch, as its own log tells, or
    # as a copy of the metadata log does; by the teller's clock.
    "elections": struct(topic=TEXT, epoch=INT, node=INT, told_by=TEXT, at_utc=TEXT),
    # One row per topic of a run all of whose transaction coordinators' logs were copied, from
    # `asked_ns` on and before the replicas.
    "coordinators": struct(topic=TEXT, asked_ns=LONG),
    # What these coordinators knew at the end, one row per transactional id and topic: its state,
    # which of the topic's partitions are part of its transaction, and until when that must be over
    # (null: there is none, or no clock tells).
    "transactional_ids": struct(
        topic=TEXT, producer_id=LONG, producer_epoch=INT, transactional_id=TEXT, state=TEXT,
        partitions=ArrayType(INT), due_ns=LONG,
    ),
    # One row per event that can have lost acknowledged records (situations/loss_causes.py): those
    # that were acknowledged from `since_ns` on and invoked by `until_ns`, at offset `cut_to` or
    # above if that is known; `cut_end` is where a log that a fault has cut ended before. Partition
    # -1 stands for all of the topic, and `words` are null where nobody knows what happened to it.
    # `takes_a_copy` says that a fault destroyed what one replica held, `leads_no_more` that its
    # broker certainly led no more, so that nobody cut anything off for it, `destroys` that faults
    # had then destroyed every copy that an acknowledgement with acks=all stands for, `is_reset`
    # that a follower took its leader's end for its own without asking for epochs, `is_last_known`
    # that a leader was neither in the ISR nor eligible (KIP-966), `is_lead` that another broker
    # became the leader, whose log went on at `cut_to`, `is_of_coordinator` that it is not records
    # that may be lost by it, but how their transactions were decided.
    "loss_causes": struct(
        topic=TEXT, partition=INT, at_ns=LONG, since_ns=LONG, until_ns=LONG, cut_to=LONG,
        cut_end=LONG, words=TEXT, takes_a_copy=BOOL, leads_no_more=BOOL, destroys=BOOL,
        is_reset=BOOL, is_last_known=BOOL, is_lead=BOOL, is_of_coordinator=BOOL,
    ),
    # One row per topic under test, with the times at which faults took a copy of what groups had
    # committed, in some partition of the offsets topic.
    "taken_commits": struct(topic=TEXT, taken_ns=ArrayType(LONG)),
    # How far the group whose members come and go got after the last healing: one row per partition
    # of its topic; columns as `GroupEnd` has them. `partition` is null if nobody asked; `members`
    # and `strangers` are in words, null if there are none.
    "group_ends": struct(
        topic=TEXT, partition=INT, group=TEXT, committed=LONG, end=LONG, time_ns=LONG,
        still_s=DOUBLE, bound_s=DOUBLE, why=TEXT, members=TEXT, strangers=TEXT, state=TEXT,
    ),
    # One row per client and family of errors that clients should not be given, with the stretches
    # of time in which faults explain it: the times at which they begin, and those at which they
    # end.
    "explanations": struct(
        process=INT, family=TEXT, begins_ns=ArrayType(LONG), ends_ns=ArrayType(LONG)
    ),
    # What each client was told, and how it ended: one row per client, in the columns of
    # `ClientRecord`; `copy_taken_ns` and `all_taken_ns` say since when faults had taken a copy, and
    # every copy, of what transaction coordinators had noted.
    "clients": struct(
        process=INT, role=TEXT, txn_timeout_s=DOUBLE, exit_code=INT, asked_to_stop=BOOL,
        killed=BOOL, ended_ns=LONG, copy_taken_ns=LONG, all_taken_ns=LONG,
    ),
}  # fmt: skip
"""The columns of each frame; a comment above them says what a row is."""

MONOTONE_SINCE = (2, 2)
"""Since then leaders tell no high watermark that they may have to take back (KIP-207)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRows:
    """The timeline of one run: the rows of its frames, and its part of the verdict.

    Attributes:
        rows: by name of the frame.
        document: the timeline's part of verdict.json.
        timeline: the timeline itself.
    """

    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    document: Mapping[str, Any]
    timeline: Timeline


def read_rows(run: RunInput, replicas: Sequence[Replica]) -> TimelineRows:
    """Return the timeline of a run, and write `spells.jsonl` into its folder.

    Args:
        run: what its folder holds besides the history.
        replicas: those that were copied, for where leader epochs begin.

    Raises:
        HistoryUnreadable: a file of it is damaged.
    """
    timeline = read_timeline(run.path)
    write_states(timeline, [str(topic["name"]) for topic in run.meta.get("topics", [])], run.path)
    rows = _rows(timeline, run, epoch_starts(replicas))
    folder = RunDir.open(run.path)
    document = {
        "source": timeline.source,
        "samples": len(timeline.samples),
        "judged_s": {name: _seconds(rows[name]) for name in ("ceilings", "shortages", "demands")},
        "recovery": recovery_in(run.meta),
        **measured(timeline, folder.lines("faults.jsonl"), run.meta),
    }
    return TimelineRows(rows=rows, document=document, timeline=timeline)


def together(seen: Iterable[tuple[Member, TimelineRows]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of all members, under their names among all members."""
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in SCHEMAS}
    for member, timeline in seen:
        for name, own in timeline.rows.items():
            rows[name] += [_among_others(row, member) for row in own]
    return rows


def _among_others(row: Mapping[str, Any], member: Member) -> dict[str, Any]:
    known = dict(row)
    for name in ("topic", "group"):
        if name in row:
            known[name] = member.named(row[name])
    if "process" in row:
        known["process"] = member.numbered(row["process"])
    if "producers" in row:
        known["producers"] = [member.numbered(process) for process in row["producers"]]
    return known


def frames_of(
    spark: SparkSession, rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, DataFrame]:
    """Return the frames of these rows; columns that a row does not have are null in it."""
    return {
        name: frame_of(spark, [tuple(map(row.get, schema.names)) for row in rows[name]], schema)
        for name, schema in SCHEMAS.items()
    }


def unbound(run: RunInput) -> str | None:
    """Return why no high watermark of a run bounds what was read earlier; None if they do."""
    if any(fault.destroys_data for fault in run.faults):
        return "a leader whose data was destroyed may come back with less than it has shown"
    if run.contract.unclean_election:
        return "whoever was deposed by an unclean election may show what its successor has not"
    return None


def _rows(
    timeline: Timeline, run: RunInput, starts: EpochStarts
) -> dict[str, Sequence[Mapping[str, Any]]]:
    known = numbers(run.kafka)
    is_monotone = not known or known >= MONOTONE_SINCE
    producers = asking_all(run.path)
    bound_s = run.meta.get("available_within_s")
    load_ns = load(run.meta)
    faults = list(RunDir.open(run.path).lines("faults.jsonl"))
    spans = demands(faults, run.meta, load_ns) if bound_s and load_ns else []
    return {
        "watermarks": list(high_watermarks(timeline)) if is_monotone else [],
        "ceilings": ceilings(timeline, starts) if is_monotone and not unbound(run) else [],
        "shortages": [
            {**shortage, "producers": producers}
            for shortage in (shortages(timeline, _least_isr(run)) if producers else ())
        ],
        "demands": [
            {
                "topic": str(topic["name"]),
                "from_ns": begin,
                "to_ns": end,
                "bound_ns": round(float(bound_s or 0) * 1e9),
            }
            for topic in run.meta.get("topics", [])
            for begin, end in spans
        ],
        "group_ends": list(_group_ends(run.group)) if run.group else [],
        "clients": [asdict(client) for client in read_clients(run.path)],
        "explanations": list(explanations(faults, clients_of(run.path))),
        **_rows_of_cluster(timeline, run),
    }


def _rows_of_cluster(timeline: Timeline, run: RunInput) -> dict[str, Sequence[Mapping[str, Any]]]:
    cure = "restore its run.json and what lies in cluster/, or run again"
    with damage_named(f"{run.path} does not say how its cluster ended", cure):
        coordinators, transactional_ids = read_transactions(run, timeline.clock)
        return {
            "recoveries": recoveries(run.meta, timeline.samples),
            "processes": read_processes(run, timeline.clock),
            "refusals": read_refusals(run),
            "elections": read_elections(run.path / "cluster", timeline),
            "coordinators": coordinators,
            "transactional_ids": transactional_ids,
        }


def _group_ends(group: GroupRecord) -> Iterator[Mapping[str, Any]]:
    for end in group.ends:
        yield {
            **asdict(end),
            "group": group.name,
            "members": " ".join(map(str, end.members)) or None,
            "strangers": " ".join(end.strangers) or None,
        }


def _least_isr(run: RunInput) -> int:
    """Return the lowest min.insync.replicas that may have been in force."""
    changed = [
        int(line["settings"]["min.insync.replicas"])
        for line in RunDir.open(run.path).lines("settings.jsonl")
        if "min.insync.replicas" in line["settings"]
    ]
    return min([run.contract.min_isr, *changed])


def asking_all(path: Path) -> list[int]:
    """Return the processes whose own settings have acks=all.

    Raises:
        HistoryUnreadable: the settings of a client cannot be read.
    """
    return [
        process
        for process, settings in client_settings(RunDir.open(path)).items()
        if isinstance(config := settings.get("config"), dict)
        and str(config.get("acks")) in ("all", "-1")
    ]


def load(meta: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return when the workload ran under the plan; None if the run ended before."""
    phases = {str(phase["name"]): phase for phase in meta.get("phases", [])}
    begin = phases.get("steady", {}).get("to_ns")
    end = phases.get("faults", {}).get("to_ns")
    return (int(begin), int(end)) if begin and end and begin < end else None


def _seconds(rows: Sequence[Mapping[str, Any]]) -> float:
    # A demand on all topics at the same time counts once.
    spans = {
        (row["topic"] if "partition" in row else "", row.get("partition"),
         int(row["from_ns"]), int(row["to_ns"]))
        for row in rows
    }  # fmt: skip
    return round(sum(end - begin for *_, begin, end in spans) / 1e9, 3)
