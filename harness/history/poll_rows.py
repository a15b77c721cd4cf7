"""What polls gave, gathered until it is written: rows are made of messages many at a time."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from harness.history.recorder import Delivered

Decode = Callable[[bytes | None, str], tuple[int | None, str | None]]
"""Takes a record's bytes and topic; returns its value in the run, and what is wrong with it."""


class PollRows:
    """Records that polls gave and that are not written yet.

    Attributes:
        polled_of: records taken so far by (topic, partition).
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._polls: list[tuple[int, int, int | None, Sequence[Delivered]]] = []
        self._rows = 0
        self.polled_of: Counter[tuple[str, int]] = Counter()

    def __len__(self) -> int:
        return self._rows

    def add(self, op: int, messages: Sequence[Delivered], *, txn: int | None = None) -> None:
        """Take what one poll returned, none of it an error, as given now.

        Args:
            op: the poll's number, from 0.
            messages: its records in the order in which they were given out.
            txn: the transaction it was made in, if it was in one.
        """
        if messages:
            self._polls.append((op, time.monotonic_ns(), txn, messages))
            self._rows += len(messages)

    def take(self) -> list[Sequence[object]]:
        """Return the columns of all that was gathered, as `RAW_SCHEMAS["poll"]` has them.

        There must be at least one record.
        """
        ops: list[int] = []
        positions: list[int] = []
        times: list[int] = []
        txns: list[int | None] = []
        messages: list[Delivered] = []
        for op, time_ns, txn, polled in self._polls:
            count = len(polled)
            ops += [op] * count
            times += [time_ns] * count
            txns += [txn] * count
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
        self.polled_of.update(zip(topics, partitions, strict=True))
        return [ops, positions, topics, partitions, offsets, values, times, problems, txns]
