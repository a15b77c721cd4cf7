"""The events of a run in which situations are recognised, all on our monotonic clock.

They come from the journal of faults, the committed states of partitions, the controllers' log of
metadata, the brokers' own logs, and the events of clients and group members. What a run did not
record is missing here, and no situation is recognised by guessing.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.core.cluster import voters
from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.core.grouping import by_key
from harness.core.run_dir import RunDir
from verifiers.replicas.cuts import Cut
from verifiers.run_folder.broker_logs import broker_logs, logged_ms
from verifiers.run_folder.folder import RunInput, TopicPartition, partition_name
from verifiers.run_folder.journal import FaultSpan, fault_spans
from verifiers.run_folder.large_files import LargeFiles
from verifiers.scanning.sends import Sends, SendsWanted
from verifiers.spark import storage
from verifiers.timeline.metadata_log import NodeChange
from verifiers.timeline.partition_states import PartitionState, Timeline

_LOG_LINES = {
    # LogLoader since 2.8, Log before; LogManager where the whole folder is recovered.
    "recovered": re.compile(rb"Recovering unflushed segment|no clean shutdown file was found"),
    "refused": re.compile(rb"NotEnoughReplicasException"),
    "transaction timed out": re.compile(rb"ompleted rollback of .*transaction.* due to timeout"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition that lost its leader, or was given another one.

    Attributes:
        partition: topic and number.
        after_ns: the change was not made before.
        at_ns: the change had been made by then.
        before: the state until then.
        after: the state from then on.
    """

    partition: TopicPartition
    after_ns: int
    at_ns: int
    before: PartitionState
    after: PartitionState

    @property
    def where(self) -> str:
        """The partition, as Kafka writes it."""
        return partition_name(self.partition)


def _change(
    partition: TopicPartition, before: PartitionState, after: PartitionState
) -> LeaderChange:
    return LeaderChange(
        partition=partition, after_ns=before.to_ns, at_ns=after.from_ns, before=before, after=after
    )


@dataclass(kw_only=True)
class RunEvents:
    """The events of one run.

    Attributes:
        run: what its folder tells beside the history.
        timeline: its committed states and samples.
        truncations: of its logs, as faults and the brokers' logs tell of them.
        sends: what the history tells of sends, once somebody has looked for what is wanted.
    """

    run: RunInput
    timeline: Timeline
    truncations: Sequence[Cut] = ()
    sends: Sends = field(default_factory=Sends)

    @property
    def tested(self) -> frozenset[str]:
        """The names of the topics under test."""
        return frozenset(str(topic["name"]) for topic in self.run.meta.get("topics", []))

    @property
    def controllers(self) -> frozenset[int]:
        """The ids of the nodes that vote for the controller; empty under ZooKeeper."""
        cluster = self.run.meta.get("cluster", {})
        if cluster.get("metadata") == "zookeeper":
            return frozenset()
        return frozenset(
            voters(
                brokers=int(cluster.get("brokers", 0)),
                controllers=int(cluster.get("controllers") or 0),
            )
        )

    # -- faults ------------------------------------------------------------------------------------

    @cached_property
    def faults(self) -> tuple[FaultSpan, ...]:
        """The faults that were injected and had victims, in the order of their decisions.

        One that was never healed ends with the run.
        """
        last_ns = max((states[-1].to_ns for states in self.timeline.states.values()), default=0)
        ended_ns = int(self.run.meta.get("ended_ns") or last_ns)
        spans = fault_spans(RunDir(self.run.path).lines("faults.jsonl"), unhealed_ns=ended_ns)
        return tuple(span for span in spans if span.injected and span.victims)

    def fault_on(
        self, node_id: int | None, at_ns: int, *, aftermath_ns: int = 0
    ) -> FaultSpan | None:
        """Return the latest fault of a node that was in force at a time, or healed just before.

        Args:
            node_id: the node.
            at_ns: the time.
            aftermath_ns: how long ago the fault may have been healed.
        """
        hits = [
            fault
            for fault in self.faults
            if node_id in fault.victims and fault.decided_ns <= at_ns <= fault.end_ns + aftermath_ns
        ]
        return hits[-1] if hits else None

    # -- partitions --------------------------------------------------------------------------------

    def states(
        self, *, of: Iterable[str] | None = None
    ) -> Iterator[tuple[TopicPartition, Sequence[PartitionState]]]:
        """Yield the committed states of each partition of some topics, those under test by default.

        States from before the clients were started are left out.
        """
        topics = self.tested if of is None else frozenset(of)
        for partition, states in self.timeline.states.items():
            if partition[0] in topics:
                yield partition, [state for state in states if state.to_ns >= self.run.origin_ns]

    @cached_property
    def leader_changes(self) -> tuple[LeaderChange, ...]:
        """The changes of leaders, in order, those of Kafka's internal topics among them."""
        topics = self.tested | {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
        changes = [
            _change(partition, before, after)
            for partition, states in self.states(of=topics)
            for before, after in pairwise(states)
            if before.leader is not None and after.leader != before.leader
        ]
        return tuple(sorted(changes, key=lambda change: change.at_ns))

    @cached_property
    def unclean_elections(self) -> tuple[LeaderChange, ...]:
        """The elections, by partition and time, of who was neither in the ISR nor eligible.

        Of every topic, internal ones too. Without eligible leader replicas (KIP-966) a partition
        without a leader keeps its last ISR.
        """
        topics = {topic for topic, _ in self.timeline.states}
        return tuple(
            _change(partition, before, after)
            for partition, states in self.states(of=topics)
            for before, after in pairwise(states)
            if after.leader not in (None, *before.isr, *before.elr)
        )

    @property
    def last_known_leaders(self) -> list[LeaderChange]:
        """The unclean elections where there was no ISR: those of a last known leader (KIP-966)."""
        return [change for change in self.unclean_elections if not change.before.isr]

    @property
    def tested_leader_changes(self) -> list[LeaderChange]:
        """The changes of leaders of the topics under test, in order."""
        return [change for change in self.leader_changes if change.partition[0] in self.tested]

    @property
    def losses(self) -> list[LeaderChange]:
        """The changes in which a partition under test lost a leader that a fault had hit."""
        return self.losses_of(self.tested)

    def losses_of(self, topics: Collection[str]) -> list[LeaderChange]:
        """Return the changes in which a partition of some topics lost a leader to a fault."""
        changes = [change for change in self.leader_changes if change.partition[0] in topics]
        return [change for change in changes if self.cause_of(change)]

    def cause_of(self, change: LeaderChange) -> FaultSpan | None:
        """Return the fault that cost a partition its leader, or None if none did."""
        return self.fault_on(change.before.leader, change.after_ns, aftermath_ns=_SESSION_NS)

    # -- nodes -------------------------------------------------------------------------------------

    @cached_property
    def registrations(self) -> Sequence[tuple[int, NodeChange]]:
        """New states of brokers' registrations, and when at the latest; none under ZooKeeper."""
        return self._timed(self.timeline.log.registrations if self.timeline.log else ())

    @cached_property
    def elected_controllers(self) -> Sequence[tuple[int, NodeChange]]:
        """Who became the active controller, and when at the latest; none under ZooKeeper."""
        return self._timed(self.timeline.log.controllers if self.timeline.log else ())

    def _timed(self, changes: Iterable[NodeChange]) -> list[tuple[int, NodeChange]]:
        latest_ns = self.timeline.clock.latest_ns
        timed = ((latest_ns(change.at_ms), change) for change in changes)
        return [(at_ns, change) for at_ns, change in timed if at_ns is not None]

    # -- brokers' own logs -------------------------------------------------------------------------

    @cached_property
    def cuts(self) -> tuple[tuple[int, Cut], ...]:
        """The truncations by faults, and those of logs under test since the clients were started.

        Each has its time, at the latest, on our clock.
        """
        placed = [
            (self._placed(cut.at_ms) if cut.at_ns is None else cut.at_ns, cut)
            for cut in self.truncations
            if cut.cause or cut.topic in self.tested
        ]
        known = [(at_ns, cut) for at_ns, cut in placed if at_ns is not None]
        return tuple(sorted(known, key=itemgetter(0)))

    @cached_property
    def broker_lines(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """When, at the latest, which broker logged a line of each kind (`_LOG_LINES`), in order."""
        found: dict[str, list[tuple[int, int]]] = {kind: [] for kind in _LOG_LINES}
        for broker, file in broker_logs(RunDir(self.run.path)):
            with file.open("rb") as content:
                dated = b""
                for line in content:
                    # An exception stands on lines of its own, below the one that has the time.
                    dated = line if line.startswith(b"[") else dated
                    kinds = [kind for kind, form in _LOG_LINES.items() if form.search(line)]
                    if not kinds:
                        continue
                    at_ns = self._placed(logged_ms(dated.decode(errors="replace")))
                    if at_ns is not None:
                        found[kinds[0]].append((at_ns, broker))
        return {kind: sorted(lines) for kind, lines in found.items()}

    def _placed(self, at_ms: int | None) -> int | None:
        """Return a time of a broker's log on our clock, None if it lies outside of the run."""
        at_ns = None if at_ms is None else self.timeline.clock.latest_ns(at_ms)
        return at_ns if at_ns is not None and at_ns >= self.run.origin_ns else None

    # -- clients -----------------------------------------------------------------------------------

    @cached_property
    def client_events(self) -> list[dict[str, Any]]:
        """The events of clients that tell of situations, as docs/run-folder.md has them."""
        wanted = pa.array(["rebalance", "fenced", "takeover"])
        tables = [storage.read_parquet(file) for file in self._files("event")]
        rows = [row for t in tables for row in t.filter(pc.is_in(t["f"], wanted)).to_pylist()]
        return sorted(rows, key=lambda row: row["time_ns"])

    @property
    def lost_partitions(self) -> list[dict[str, Any]]:
        """The events in which a member that was cut off past its session lost a partition."""
        return [e for e in self.client_events if (e["f"], e["detail"]) == ("rebalance", "lost")]

    @property
    def sends_wanted(self) -> SendsWanted:
        """What has to be known of sends: how many were in flight at changes, and under faults."""
        changes = by_key(self.tested_leader_changes, attrgetter("partition"))
        moments = {tp: [change.after_ns for change in of_one] for tp, of_one in changes.items()}
        spans = {fault.id: (fault.decided_ns, fault.end_ns) for fault in self.faults}
        return SendsWanted(moments=moments, faults=spans)

    def committed_by(self, send: Mapping[str, Any]) -> int | None:
        """Return when the high watermark was first seen above a send's offset, None if never."""
        samples = self._watermarks.get((send["topic"], send["partition"]), ())
        above = (sample for sample in samples if int(sample["offset"]) > send["offset"])
        return next((int(sample["answered_ns"]) for sample in above), None)

    @cached_property
    def _watermarks(self) -> Mapping[TopicPartition, Sequence[Mapping[str, Any]]]:
        sampled = (s for s in self.timeline.samples if s.get("sample") == "high-watermark")
        return by_key(sampled, itemgetter("topic", "partition"))

    @cached_property
    def transactions(self) -> list[dict[str, Any]]:
        """The transactions whose commit was tried: process, number and times."""
        tables = [storage.read_parquet(file) for file in self._files("txn")]
        return [row for t in tables for row in t.filter(t["committing"]).to_pylist()]

    @cached_property
    def moves(self) -> list[dict[str, Any]]:
        """The lines of members.jsonl."""
        return list(RunDir(self.run.path).lines("members.jsonl"))

    def _files(self, dataset: str) -> list[str]:
        large = LargeFiles.of(self.run.path)
        files = large.within(self.run.path / "history" / dataset, ".parquet")
        return [large.name(file) for file in files]


def after_silence(told: Iterable[tuple[int, int]], silence_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the times, and who told, before which the teller was silent for longer than that.

    Args:
        told: when, and who, in order.
        silence_ns: how long.
    """
    last: dict[int, int] = {}
    for at_ns, teller in told:
        if at_ns - last.get(teller, 0) > silence_ns:
            yield at_ns, teller
        last[teller] = at_ns


_SESSION_NS = 30_000_000_000
"""How long after its healing a fault may still cost its victim the leadership: old sessions end."""
