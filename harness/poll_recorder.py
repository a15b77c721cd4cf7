"""The history of a consumer, or of a reader."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from harness.history_format import Table
from harness.recorder import FLUSH_S, Delivered, Identity, Recorder


class PollRecorder(Recorder):
    """The history of a consumer, or of a reader, whose rows are the final read.

    Attributes:
        polled_of: records polled so far by (topic, partition).
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        decode: Callable[[bytes | None, str], tuple[int | None, str | None]],
        flush_s: float = FLUSH_S,
    ) -> None:
        """Begin a consumer's history.

        Args:
            path: a file that does not exist yet.
            identity: who writes it; a reader's records go to the final read.
            decode: takes a record's value and topic, returns its value in the run and its problem.
            flush_s: the longest that anything stays in memory only, seconds.

        Raises:
            KafkaChaosError: the file exists, or cannot be made.
        """
        super().__init__(path, identity, flush_s=flush_s)
        self._table: Table = "final" if identity.role == "reader" else "poll"
        self._decode = decode
        self._polls: list[tuple[int, int, Sequence[Delivered]]] = []
        self._rows = 0
        self.polled_of: Counter[tuple[str, int]] = Counter()
        self.event("start")
        self.flush()

    def polled(self, op: int, messages: Sequence[Delivered]) -> None:
        """Record what one poll returned, none of it an error.

        Args:
            op: the poll's number, from 0.
            messages: its records in the order in which they were given out.
        """
        if messages:
            self._polls.append((op, time.monotonic_ns(), messages))
            self._rows += len(messages)

    def flush(self, *, early: bool = False) -> None:
        """Hand everything to the operating system."""
        if self._polls:
            self._flush_polls()
        super().flush(early=early)

    def close(self) -> None:
        """End the history."""
        self._end(0)

    def _gathered(self) -> int:
        return self._rows

    def _flush_polls(self) -> None:
        ops: list[int] = []
        positions: list[int] = []
        times: list[int] = []
        messages: list[Delivered] = []
        for op, time_ns, polled in self._polls:
            count = len(polled)
            ops += [op] * count
            times += [time_ns] * count
            positions += range(count)
            messages += polled
        self._polls.clear()
        self._rows = 0
        topics = [message.topic() or "" for message in messages]
        partitions = [message.partition() or 0 for message in messages]
        payloads: Iterable[bytes | None] = [message.value() for message in messages]
        decoded = list(map(self._decode, payloads, topics))
        offsets = [message.offset() for message in messages]
        values, problems = zip(*decoded, strict=True)
        columns: list[Sequence[object]] = [
            ops,
            positions,
            topics,
            partitions,
            offsets,
            values,
            times,
            problems,
        ]
        self._frame(self._table, self._batch(self._table, columns))
        self.polled_of.update(zip(topics, partitions, strict=True))
