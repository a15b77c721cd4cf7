"""Partition states: from when to when a partition certainly had one leader and one ISR.

Under KRaft every change stands in the metadata log, with the time at which the controller appended
it, by the clock of its machine, which samples.jsonl lets us place on ours (`Clock`). Under
ZooKeeper timeline.jsonl has the version of each state that was seen: between two answers of one
version nothing changed. Where neither is there, as in folders of earlier runs, nothing is known
for sure, and there are no states.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from operator import attrgetter, itemgetter
from pathlib import Path

from harness.core.grouping import by_key
from harness.core.run_dir import RunDir, write_atomically
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import Line
from verifiers.timeline.clock import Clock
from verifiers.timeline.metadata_log import MetadataLog, furthest, read_metadata_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One committed state of a partition.

    Attributes:
        leader: node id; None if nobody leads.
        isr: node ids.
        replicas: node ids, the preferred leader first; empty where they are not known.
        elr: the eligible leader replicas (KIP-966).
        leader_epoch: of its leader.
        after_ns: it cannot have begun before, on our clock.
        from_ns: it had begun by then, appended if not yet committed.
        to_ns: it still held then.
        joins_next: whether another state follows, and the next state is that: none was missed.
    """

    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...]
    leader_epoch: int
    after_ns: int
    from_ns: int
    to_ns: int
    joins_next: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The known leaders and ISRs of a run, and its samples.

    Attributes:
        states: of each partition, in the order of time; those of whose time nothing is known are
            left out.
        samples: the lines of samples.jsonl.
        lines: the lines of timeline.jsonl.
        log: what the metadata log tells; None under ZooKeeper, or where it was not kept.
        clock: of the brokers' machine.
        logs: every node's copy of the metadata log, by its service.
    """

    states: Mapping[TopicPartition, Sequence[PartitionState]]
    samples: Sequence[Line]
    lines: Sequence[Line]
    log: MetadataLog | None
    clock: Clock
    logs: Mapping[str, MetadataLog] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where the states come from: metadata-log, znodes, or polled where there are none."""
        if not self.states:
            return "polled"
        return "znodes" if self.log is None else "metadata-log"


def read_timeline(path: Path) -> Timeline:
    """Return the leaders, ISRs and high watermarks that a run folder holds.

    Raises:
        HistoryUnreadable: a line is no JSON.
    """
    folder = RunDir.open(path)
    samples, lines = list(folder.lines("samples.jsonl")), list(folder.lines("timeline.jsonl"))
    clock = Clock.read(samples)
    logs = read_metadata_logs(path / "cluster")
    log = furthest(logs)
    states = _by_versions(lines) if log is None else _by_log(log, clock)
    return Timeline(states=states, samples=samples, lines=lines, log=log, clock=clock, logs=logs)


def write_states(timeline: Timeline, topics: Sequence[str], path: Path) -> None:
    """Write the states of some topics to `spells.jsonl` in a run folder, if there are any."""
    target = path / "spells.jsonl"
    rows = [
        {"topic": tp[0], "partition": tp[1], **asdict(state)}
        for tp, states in sorted(timeline.states.items())
        if tp[0] in topics
        for state in states
    ]
    if rows:
        write_atomically(target, "".join(json.dumps(row) + "\n" for row in rows))
    else:
        target.unlink(missing_ok=True)


def _by_log(log: MetadataLog, clock: Clock) -> dict[TopicPartition, list[PartitionState]]:
    last = clock.span_ns(log.last_ms)
    found: dict[TopicPartition, list[PartitionState]] = {}
    for tp, changes in by_key(log.changes, attrgetter("topic", "partition")).items():
        began = [span_ns for change in changes if (span_ns := clock.span_ns(change.at_ms))]
        if last is None or len(began) < len(changes):
            # The brokers' clock was set: these changes have no time on our clock.
            continue
        ends = [*(after_ns for after_ns, _ in began[1:]), last[0]]
        found[tp] = [
            PartitionState(
                leader=change.leader,
                isr=change.isr,
                replicas=change.replicas,
                elr=change.elr,
                leader_epoch=change.leader_epoch,
                after_ns=after_ns,
                from_ns=from_ns,
                to_ns=to_ns,
                joins_next=change is not changes[-1],
            )
            for change, (after_ns, from_ns), to_ns in zip(changes, began, ends, strict=True)
        ]
    return found


def _by_versions(lines: Iterable[Line]) -> dict[TopicPartition, list[PartitionState]]:
    versions = (line for line in lines if line.get("version") is not None)
    found: dict[TopicPartition, list[PartitionState]] = {}
    for tp, lines_of_partition in by_key(versions, itemgetter("topic", "partition")).items():
        for line, following in pairwise(lines_of_partition):
            found.setdefault(tp, []).append(_state(found.get(tp), line, following))
    return found


def _state(earlier: Sequence[PartitionState] | None, line: Line, following: Line) -> PartitionState:
    """Return the state that a line of timeline.jsonl names, up to the next line.

    The last line of a partition repeats its last state.
    """
    return PartitionState(
        leader=line["leader"],
        isr=tuple(line["isr"]),
        replicas=tuple(line.get("replicas", ())),
        elr=(),
        leader_epoch=int(line.get("leader_epoch") or 0),
        after_ns=earlier[-1].to_ns if earlier else 0,
        from_ns=int(line["time_ns"]),
        to_ns=int(following.get("held_ns") or line["asked_ns"]),
        joins_next=following["version"] == line["version"] + 1,
    )
