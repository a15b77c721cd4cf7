"""Recorders: how a client's history gets onto the disk within a second, and costs it little."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from harness.core.clock import clock_name
from harness.core.errors import KafkaChaosError
from harness.core.workload import Role
from harness.history.format import RAW_SCHEMAS, Table, pack_frame

FLUSH_S = 0.5
"""After so many seconds everything recorded is handed to the operating system, unless told else."""
FLUSH_ROWS = 16_384
"""So many rows are flushed early: a longer stop would let librdkafka's queues run dry."""

Decode = Callable[[bytes | None, str], tuple[int | None, str | None]]
"""Takes a record's bytes and topic; returns its value in the run, and what is wrong with it."""


class Delivered(Protocol):
    """A record as a client library shows it; only what recording needs."""

    def topic(self) -> str | None:
        """Return the topic's name."""

    def partition(self) -> int | None:
        """Return the partition's number."""

    def offset(self) -> int | None:
        """Return the offset, or None if there is none."""

    def value(self) -> bytes | None:
        """Return the record's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose history a raw file is.

    Attributes:
        process: the client's number in the run.
        role: what kind of client.
        run_id: 16 hexadecimal digits.
        topic: for a producer, the topic it writes to.
    """

    process: int
    role: Role
    run_id: str
    topic: str = ""


class Recorder:
    """A raw file being written: a client's polls and events, and when to flush.

    A reader's polls are the final read. Not for use by several threads: a client does all its
    work, callbacks included, in one.

    Attributes:
        identity: who writes it.
        polled_count: how many records were polled and flushed so far.
        last_polled: the offset of the last of them, by (topic, partition).
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        decode: Decode | None = None,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Begin a history.

        Args:
            path: a file that does not exist yet.
            identity: who writes it.
            decode: reads the records of polls; None for a client that does not poll.
            flush_s: the longest that anything stays in memory only, seconds.

        Raises:
            KafkaChaosError: the file exists, or cannot be made.
        """
        self.identity = identity
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise KafkaChaosError(
                f"The history {path} cannot be begun ({error.strerror}): "
                "every client needs a new file in a folder that exists."
            ) from error
        metadata = {
            "process": str(identity.process),
            "role": identity.role,
            "run_id": identity.run_id,
            "topic": identity.topic,
            "clock": clock_name(),
        }
        self._schemas = {
            table: schema.with_metadata({**metadata, "table": table})
            for table, schema in RAW_SCHEMAS.items()
        }
        self.polled_count = 0
        self.last_polled: dict[tuple[str, int], int] = {}
        self._decode = decode
        self._polls: list[tuple[int, int, int | None, Sequence[Delivered]]] = []
        self._polled = 0
        self._open_txn: int | None = None
        # In this order: a transaction is begun before it ends.
        self._rows: dict[Table, list[tuple[object, ...]]] = {table: [] for table in RAW_SCHEMAS}
        self._frames: list[bytes] = []
        self._due_ns = 0
        self._flush_ns = int(flush_s * 1e9)
        self.event("start")
        self.flush()

    def event(
        self,
        f: str,
        *,
        op: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Record something that is neither a send nor a poll; the columns of `EVENT_SCHEMA`."""
        self._add("event", op, f, topic, partition, offset, time.monotonic_ns(), detail)

    def polled(self, op: int, messages: Sequence[Delivered]) -> None:
        """Record what one poll returned, within the open transaction if there is one.

        Args:
            op: the poll's number, from 0.
            messages: its records, none of them an error, in the order in which they were given out.
        """
        if messages:
            self._polls.append((op, time.monotonic_ns(), self._open_txn, messages))
            self._polled += len(messages)

    def progress(self) -> dict[str, Any]:
        """Return how far the client is, for the harness, as of the last flush.

        Returns:
            `polled`: how many records were polled; `last_polled`: the offset of the last one, by
            "topic-partition"; and what else the recorder counts.
        """
        return {
            **dict.fromkeys(("ok", "fail", "info", "pending"), 0),
            "polled": self.polled_count,
            "last_polled": {f"{topic}-{n}": at for (topic, n), at in self.last_polled.items()},
        }

    def flush(self, *, early: bool = False) -> None:
        """Hand everything recorded so far to the operating system: it survives our own death.

        Args:
            early: it is not time yet, much has gathered; what is better left for then may be left.
        """
        self._pack(early=early)
        data = b"".join(self._frames)
        self._frames.clear()
        while data:
            data = data[os.write(self._file, data) :]
        if not early:
            self._due_ns = time.monotonic_ns() + self._flush_ns

    def flush_if_due(self) -> bool:
        """Flush if it is time to, or if much has gathered; return whether it was done.

        To be called in every round of a client's loop, at least ten times a second.
        """
        gathered = self._gathered()
        early = time.monotonic_ns() < self._due_ns
        if early and gathered < FLUSH_ROWS:
            return False
        self.flush(early=early)
        return True

    def close(self, *, used: int = 0) -> None:
        """End the history.

        Args:
            used: how many values were used; those reserved beyond were never sent.
        """
        now = time.monotonic_ns()
        self.event("close")
        self.flush()
        self._add("mark", "close", used, now)
        self.flush()
        os.close(self._file)

    def _gathered(self) -> int:
        return self._polled

    def _add(self, table: Table, *row: object) -> None:
        """Keep a row of a table until the next flush."""
        self._rows[table].append(row)

    def _pack(self, *, early: bool) -> None:
        """Make frames of what was recorded; what is read first is what the rest refers to."""
        del early  # only a producer leaves something for later
        if self._polls:
            table: Table = "final" if self.identity.role == "reader" else "poll"
            self._frame(self._batch(table, self._take_polls()))
        for table, rows in self._rows.items():
            if rows:
                self._frame(self._batch(table, list(zip(*rows, strict=True))))
                rows.clear()

    def _take_polls(self) -> list[Sequence[object]]:
        """Return the columns of all that was polled: rows are made of messages many at a time."""
        assert self._decode is not None  # noqa: S101 (whoever polls has one)
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
        self._polled = 0
        topics = [message.topic() or "" for message in messages]
        partitions = [message.partition() or 0 for message in messages]
        payloads: Iterable[bytes | None] = [message.value() for message in messages]
        decoded = list(map(self._decode, payloads, topics))
        offsets = [message.offset() for message in messages]
        values, problems = zip(*decoded, strict=True)
        self.polled_count += len(messages)
        places = zip(topics, partitions, strict=True)
        # The last offset of each place stays.
        self.last_polled.update(zip(places, (offset or 0 for offset in offsets), strict=True))
        return [ops, positions, topics, partitions, offsets, values, times, problems, txns]

    def _batch(self, table: Table, columns: Sequence[Sequence[object]]) -> pa.RecordBatch:
        schema = self._schemas[table]
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _frame(self, batch: pa.RecordBatch) -> None:
        self._frames.append(pack_frame(batch))
