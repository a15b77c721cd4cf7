"""The monitor: watches who leads and who is in sync while a run goes on."""

import threading
import time
from collections.abc import Sequence

from harness.core.wait import pause
from harness.metadata import MetadataSource, PartitionState
from harness.run_dir import Journal

_EVERY_S = 0.25


class Monitor:
    """Writes a line to timeline.jsonl whenever the metadata shows another leader or ISR.

    The times are those at which we saw the change: up to a quarter of a second late, more while
    no broker answers.

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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="monitor")

    def start(self) -> None:
        """Begin to watch, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; the last question may still take its time-out."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _watch(self) -> None:
        known: dict[tuple[str, int], tuple[int | None, frozenset[int]]] = {}
        while not pause(_EVERY_S, self._stop):
            for key, state in self._source.partitions(timeout_s=1.0).items():
                seen = (state.leader, frozenset(state.isr))
                if key[0] in self._topics and known.get(key) != seen:
                    known[key] = seen
                    self._write(key, state)

    def _write(self, key: tuple[str, int], state: PartitionState) -> None:
        self._journal.append(
            {
                "time_ns": time.monotonic_ns(),
                "topic": key[0],
                "partition": key[1],
                "leader": state.leader,
                "isr": sorted(state.isr),
            }
        )
