"""The monitor: watches who leads and who is in sync while a run goes on."""

import time
from collections.abc import Mapping, Sequence

from harness.cluster.metadata import MetadataSource
from harness.core.run_dir import Journal
from harness.core.view import PartitionState
from harness.run.watcher import Watcher

_EVERY_S = 0.25


class Monitor:
    """Writes a line to timeline.jsonl whenever the metadata shows another leader or ISR.

    The times are those at which we saw the change: up to a quarter of a second late, more while
    no broker answers. Where the source counts changes, a line also says how long the state before
    it is known to have held, and the last state of each partition is told again at the end.

    Attributes:
        watcher: starts and stops it.

    Args:
        source: who is asked; not shared with others, as a question that hangs here must not hold
            up a fault's.
        topics: whose partitions are watched.
        journal: timeline.jsonl.
    """

    def __init__(self, source: MetadataSource, topics: Sequence[str], journal: Journal) -> None:
        self._source = source
        self._topics = frozenset(topics)
        self._journal = journal
        self.watcher = Watcher("monitor", self._look, every_s=_EVERY_S, at_end=self._tell_last)
        self._known: dict[tuple[str, int], PartitionState] = {}
        # When a question was asked that still showed the known state.
        self._held_ns: dict[tuple[str, int], int] = {}

    @property
    def states(self) -> Mapping[tuple[str, int], PartitionState]:
        """What was seen last, by topic and partition."""
        return dict(self._known)

    def _tell_last(self) -> None:
        for key, state in self._known.items():
            if state.version is not None:
                self._write(key, state, asked_ns=self._held_ns[key])

    def _look(self) -> None:
        asked_ns = time.monotonic_ns()
        for key, state in self._source.partitions(timeout_s=1.0).items():
            if key[0] not in self._topics:
                continue
            known = self._known.get(key)
            if known is None or _signs(known) != _signs(state):
                self._write(key, state, asked_ns=asked_ns)
                self._known[key] = state
            self._held_ns[key] = asked_ns

    def _write(self, key: tuple[str, int], state: PartitionState, *, asked_ns: int) -> None:
        counted = {
            "asked_ns": asked_ns,
            "held_ns": self._held_ns.get(key),
            "leader_epoch": state.leader_epoch,
            "version": state.version,
        }
        self._journal.append(
            {
                "time_ns": time.monotonic_ns(),
                "topic": key[0],
                "partition": key[1],
                "leader": state.leader,
                "isr": sorted(state.isr),
                "replicas": list(state.replicas),
                **({} if state.version is None else counted),
            }
        )


def _signs(state: PartitionState) -> tuple[object, ...]:
    """Return what tells a state from another."""
    return (state.leader, frozenset(state.isr), state.leader_epoch, state.version)
