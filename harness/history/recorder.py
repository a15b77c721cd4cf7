"""Recorders: how a client's history gets onto the disk within a second, and costs it little."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from harness.core.errors import KafkaChaosError
from harness.history.format import RAW_SCHEMAS, Table, pack_frame

FLUSH_S = 0.5
"""After so many seconds everything recorded is handed to the operating system, unless told else."""
FLUSH_ROWS = 16_384
"""So many rows are flushed early: a longer stop would let librdkafka's queues run dry."""


_LEAST_RESERVED = 64
_MOST_RESERVED = 65_536

Role = Literal["producer", "consumer", "reader"]


class Delivered(Protocol):
    """A record as a client library shows it; only what recording needs."""

    def topic(self) -> str | None:
        """Return the topic's name."""
        ...

    def partition(self) -> int | None:
        """Return the partition's number."""
        ...

    def offset(self) -> int | None:
        """Return the offset, or None if there is none."""
        ...

    def value(self) -> bytes | None:
        """Return the record's value."""
        ...


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
    """A raw file being written: frames, events, and when to flush.

    Not for use by several threads: a client does all its work, callbacks included, in one.
    """

    def __init__(self, path: Path, identity: Identity, *, flush_s: float) -> None:
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
        }
        self._schemas = {
            table: schema.with_metadata({**metadata, "table": table})
            for table, schema in RAW_SCHEMAS.items()
        }
        self._events: list[tuple[object, ...]] = []
        self._frames: list[bytes] = []
        self._due_ns = 0
        self._flush_ns = int(flush_s * 1e9)

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
        self._events.append((op, f, topic, partition, offset, time.monotonic_ns(), detail))

    def flush(self, *, early: bool = False) -> None:
        """Hand everything recorded so far to the operating system: it survives our own death.

        Args:
            early: it is not time yet, much has gathered; what is better left for then may be left.
        """
        if self._events:
            self._frame("event", self._batch("event", list(zip(*self._events, strict=True))))
            self._events.clear()
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

    def _gathered(self) -> int:
        return len(self._events)

    def _end(self, bound: int) -> None:
        now = time.monotonic_ns()
        self.event("close")
        self.flush()
        self._frame("mark", self._batch("mark", [["close"], [bound], [now]]))
        self.flush()
        os.close(self._file)

    def _batch(self, table: Table, columns: Sequence[Sequence[object]]) -> pa.RecordBatch:
        schema = self._schemas[table]
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _frame(self, table: Table, batch: pa.RecordBatch) -> None:
        self._frames.append(pack_frame(self._schemas[table], batch))
