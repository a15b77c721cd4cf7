"""The history of a client that sends and polls within transactions."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.op import OpType
from harness.history.format import SEND_TYPES
from harness.history.pending import Int64s
from harness.history.recorder import FLUSH_S, Decode, Delivered, Identity
from harness.history.sends import SendRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a delivery report said of one send, before the outcome of its transaction is known.

    Attributes:
        partition: where it was sent, if that was decided.
        offset: where it was appended, if it was and that is known.
        acked: whether it was acknowledged.
        error: the client's words if it was not.
    """

    partition: int | None = None
    offset: int | None = None
    acked: bool = False
    error: str | None = None


class TxnRecorder(SendRecorder):
    """The history of transactions, one after the other, with what was sent and polled in each.

    A send has no outcome before its transaction has one: delivery reports are kept until `end`
    completes them all. Sends that the client library refuses are completed at once, as ever.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        values_of: Callable[[Sequence[Delivered]], Int64s],
        decode: Decode,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Begin the history; arguments and errors as of `SendRecorder`."""
        self._deliveries: dict[int, Delivery] = {}
        self._next_txn = 0
        self._begun_ns = 0
        self.txns: Counter[OpType] = Counter()
        super().__init__(path, identity, values_of=values_of, decode=decode, flush_s=flush_s)

    def progress(self) -> dict[str, Any]:
        """Return how far the client is: also how its transactions ended."""
        names = ("committed", "aborted", "in_doubt")
        ended = (self.txns[kind] for kind in SEND_TYPES)
        return super().progress() | dict(zip(names, ended, strict=True))

    def begin(self) -> int:
        """Record that a transaction is begun, and return its number."""
        number = self._next_txn
        self._next_txn += 1
        self._open_txn = number
        self._begun_ns = time.monotonic_ns()
        self._add("begin", number, self._begun_ns)
        return number

    def delivered(self, value: int, report: Delivery) -> None:
        """Take note of what a delivery report said; it counts when the transaction ends."""
        self._deliveries[value] = report

    def end(self, kind: OpType, *, committing: bool, error: str | None = None) -> None:
        """End the open transaction: all its sends have its outcome.

        A send of a committed transaction whose delivery nobody confirmed is in doubt.

        Args:
            kind: OK, it was committed; FAIL, it is aborted for certain; INFO, nobody knows.
            committing: whether the commit was tried.
            error: the client's words.
        """
        txn = self._open_txn
        for value in self.pending.since(self._first)[0].tolist():
            report = self._deliveries.get(value, Delivery())
            self.completed(
                value,
                OpType.INFO if kind is OpType.OK and not report.acked else kind,
                partition=report.partition,
                offset=report.offset,
                error=report.error or error,
                txn=txn,
            )
        self._deliveries.clear()
        now = time.monotonic_ns()
        self._add("txn", txn, SEND_TYPES.index(kind), self._begun_ns, now, committing, error)
        self._open_txn = None
        self.txns[kind] += 1

    def abandon(self, *, error: str) -> None:
        """Complete all that is under way, the open transaction included, as INFO.

        Args:
            error: why nothing more will be heard of it.
        """
        if self._open_txn is not None:
            self.end(OpType.INFO, committing=True, error=error)
        super().abandon(error=error)
