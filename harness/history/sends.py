"""The history of a producer, recorded at a small part of what sending costs."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.core.op import OpType, value_of
from harness.history.format import SEND_TYPES
from harness.history.pending import Int64s, UnderWay
from harness.history.recorder import FLUSH_S, Decode, Delivered, Identity, Recorder

_LEAST_RESERVED = 64
_MOST_RESERVED = 65_536


class SendRecorder(Recorder):
    """The history of a producer.

    The hot path is bare lists, so that recording costs little of the throughput:

    - before a few sends: `pending.add(values, time.monotonic_ns())`;
    - in the delivery callback of a record that was acknowledged: `acked.append(message)` and
      `acked_ns.append(time.monotonic_ns())`; columns are taken from the messages at the flush;
    - of one that was not: `completed(...)`.

    Attributes:
        pending: values under way, and when each was invoked.
        acked: messages acknowledged since the last flush.
        acked_ns: when, one for one.
        counts: completions flushed so far, by type.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        values_of: Callable[[Sequence[Delivered]], Int64s],
        decode: Decode | None = None,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Begin a producer's history as `Recorder` does; `values_of` reads acknowledged records."""
        self._values_of = values_of
        self.acked: list[Delivered] = []
        self.acked_ns: list[int] = []
        self.counts: Counter[OpType] = Counter()
        self._others: list[tuple[object, ...]] = []
        self._columns: list[tuple[npt.NDArray[np.int32], Int64s, Int64s, Int64s]] = []
        self._offsets: list[int | None] = []
        self._first = value_of(identity.process, 0)
        self.pending = UnderWay(self._first)
        self._reserved = 0
        self._reserved_ns = 0
        self._block = _LEAST_RESERVED
        self._invoked_below = self._first
        super().__init__(path, identity, decode=decode, flush_s=flush_s)

    @property
    def under_way(self) -> int:
        """How many sends have no outcome yet."""
        return len(self.pending) - len(self.acked)

    def progress(self) -> dict[str, Any]:
        """Return how far the client is: also completed sends by type, and those `pending`."""
        return {
            **super().progress(),
            **{kind.value: self.counts[kind] for kind in SEND_TYPES},
            "pending": self.under_way,
        }

    def reserve(self) -> range:
        """Reserve the next values, on disk before anyone can use them, and return them.

        A block lasts about a second at the present speed, so that of a killed producer only about
        as many values are left in doubt as it could have sent unseen.
        """
        now = time.monotonic_ns()
        lasted_ns = now - self._reserved_ns
        if self._reserved and lasted_ns < 500_000_000:
            self._block = min(self._block * 2, _MOST_RESERVED)
        elif lasted_ns > 2_000_000_000:
            self._block = max(self._block // 2, _LEAST_RESERVED)
        block = range(self._first + self._reserved, self._first + self._reserved + self._block)
        self._reserved += self._block
        self._reserved_ns = now
        self._add("mark", "reserve", self._reserved, now)
        self.flush(early=True)
        return block

    def completed(
        self,
        value: int,
        kind: OpType,
        *,
        partition: int | None = None,
        offset: int | None = None,
        error: str | None = None,
        txn: int | None = None,
    ) -> None:
        """Record a completion that is not a plain acknowledgement.

        Args:
            value: the record's value; it must be pending.
            kind: OK, FAIL or INFO.
            partition: where it was sent, if that was decided.
            offset: where it lies, if known.
            error: the client's words.
            txn: the transaction it belongs to, if it does to one.
        """
        invoke_ns = int(self.pending.remove(np.array([value], dtype=np.int64))[0])
        place = SEND_TYPES.index(kind)
        row = (place, partition, offset, value, invoke_ns, time.monotonic_ns(), error, txn)
        self._others.append(row)
        self.counts[kind] += 1

    def abandon(self, *, error: str) -> None:
        """Complete all that is under way as INFO, because nothing more will be heard of it.

        Args:
            error: why not.
        """
        # First what was acknowledged: until it is flushed it counts as pending too.
        self.flush()
        for value in self.pending.since(self._first)[0].tolist():
            self.completed(value, OpType.INFO, error=error)

    def close(self, *, used: int = 0) -> None:
        """End the history: what is still pending becomes INFO, and nothing else is in doubt."""
        self.abandon(error="still pending when the client closed")
        super().close(used=used)

    def _gathered(self) -> int:
        self._gather()
        return super()._gathered() + len(self._offsets) + len(self._others)

    def _pack(self, *, early: bool) -> None:
        super()._pack(early=early)
        parts = [part for part in (self._take_acked(), self._take_others()) if part is not None]
        if len(parts) == 2:
            # Two lists, each in its order; a history is in the order in which things ended.
            both = pa.concat_batches(parts)
            parts = [both.take(pc.sort_indices(both.column("complete_ns")))]
        for part in parts:
            self._frame(part)
        if not early:
            # An early flush leaves this out: most of it will have completed by the next one.
            self._take_pending()

    def _gather(self) -> None:
        """Take what matters out of the acknowledged messages, and let go of them.

        Often and in small portions: while they are few they are still in the processor's cache.
        """
        messages = self.acked
        if not messages:
            return
        values = self._values_of(messages)
        # The unbound methods save the look-up for every message.
        kind = type(messages[0])
        self._columns.append(
            (
                np.array(list(map(kind.partition, messages)), dtype=np.int32),
                values,
                self.pending.remove(values),
                np.array(self.acked_ns, dtype=np.int64),
            )
        )
        # Offsets stay a list: those that are not known are None.
        self._offsets += map(kind.offset, messages)
        # The lists stay the same objects, for hot loops hold their bound methods.
        messages.clear()
        self.acked_ns.clear()

    def _take_acked(self) -> pa.RecordBatch | None:
        self._gather()
        if not self._columns:
            return None
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        place, values, invoked, ended = (pa.array(column) for column in columns)
        count = len(values)
        self.counts[OpType.OK] += count
        offsets = pa.array(self._offsets, pa.int64())
        kinds = pa.repeat(pa.scalar(0, pa.int8()), count)
        errors, txns = pa.nulls(count, pa.string()), pa.nulls(count, pa.int64())
        self._columns.clear()
        self._offsets.clear()
        return pa.RecordBatch.from_arrays(
            [kinds, place, offsets, values, invoked, ended, errors, txns],
            schema=self._schemas["send"],
        )

    def _take_others(self) -> pa.RecordBatch | None:
        if not self._others:
            return None
        batch = self._batch("send", list(zip(*self._others, strict=True)))
        self._others.clear()
        return batch

    def _take_pending(self) -> None:
        """Write what is under way and was not written yet: an invocation is never lost."""
        values, invoked = self.pending.since(self._invoked_below)
        if len(values):
            self._invoked_below = int(values[-1]) + 1
            # Whatever is under way in a transaction belongs to the one that is open.
            txns = pa.repeat(pa.scalar(self._open_txn, pa.int64()), len(values))
            columns = [pa.array(values), pa.array(invoked), txns]
            self._frame(pa.RecordBatch.from_arrays(columns, schema=self._schemas["invoke"]))
