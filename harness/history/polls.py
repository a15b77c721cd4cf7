"""The history of a consumer, or of a reader."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.history.format import Table
from harness.history.poll_rows import Decode, PollRows
from harness.history.recorder import FLUSH_S, Delivered, Identity, Recorder


class PollRecorder(Recorder):
    """The history of a consumer, or of a reader, whose rows are the final read."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        decode: Decode,
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
        self._polls = PollRows(decode)
        self.event("start")
        self.flush()

    @property
    def polled_of(self) -> Counter[tuple[str, int]]:
        """Records polled and flushed so far, by (topic, partition)."""
        return self._polls.polled_of

    def polled(self, op: int, messages: Sequence[Delivered]) -> None:
        """Record what one poll returned, none of it an error.

        Args:
            op: the poll's number, from 0.
            messages: its records in the order in which they were given out.
        """
        self._polls.add(op, messages)

    def flush(self, *, early: bool = False) -> None:
        """Hand everything to the operating system."""
        if self._polls:
            self._frame(self._table, self._batch(self._table, self._polls.take()))
        super().flush(early=early)

    def close(self) -> None:
        """End the history."""
        self._end(0)

    def _gathered(self) -> int:
        return len(self._polls)
