"""Records that a program's own bookkeeping tells of: sent and read, judged as an op history."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, get_args

from harness.core.errors import UsageError
from harness.history.op_history import Event, key_of, pair, write_history

Outcome = Literal["ok", "fail", "info"]
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record that a producer was asked to send.

    Attributes:
        topic: where it was to be written.
        value: what tells it from all other records of its partition; any hashable value, as the
            bytes of the record or its key.
        partition: its number; None if the producer was not told.
        offset: where it was acknowledged; None if that is not known.
        outcome: "ok": acknowledged; "fail": certainly not written, as what `produce` raised for or
            an aborted transaction wrote; "info": nobody knows, as after a delivery error.
        producer: who sent it: one producer writes a partition in the order in which it sends.
    """

    topic: str
    value: Hashable
    partition: int | None = None
    offset: int | None = None
    outcome: Outcome = "ok"
    producer: str = ""

    def __post_init__(self) -> None:
        """Reject what no record can be.

        Raises:
            UsageError: naming the field and its value.
        """
        if self.outcome not in get_args(Outcome):
            raise UsageError(f"outcome={self.outcome!r} is none of {', '.join(get_args(Outcome))}.")
        _check(self, self.partition, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A record that a consumer was given.

    Attributes:
        topic, partition, offset: where it was read.
        value: what tells it from other records, as in `Sent`.
        consumer: who read it: one consumer reads a partition in order and leaves nothing out.
    """

    topic: str
    partition: int
    offset: int
    value: Hashable
    consumer: str = ""

    def __post_init__(self) -> None:
        """Reject what no record can be.

        Raises:
            UsageError: naming the field and its value.
        """
        _check(self, self.partition, self.offset)


def _check(record: Sent | Read, partition: object, offset: object) -> None:
    for name, number in (("partition", partition), ("offset", offset)):
        is_unknown = number is None and isinstance(record, Sent)
        if not is_unknown and not (isinstance(number, int) and number >= 0):
            raise UsageError(f"{name}={number!r} of a record in {record.topic!r} is no {name}.")
    try:
        hash(record.value)
    except TypeError as error:
        raise UsageError(
            f"The value {record.value!r} of a record in {record.topic!r} cannot be told from "
            "others: it must be hashable, as bytes, texts, numbers and tuples are."
        ) from error


class RecordHistory:
    """The op history of some records, which are held in memory."""

    def __init__(self, sent: Iterable[Sent], read: Iterable[Read]) -> None:
        """Number the values and the clients.

        Args:
            sent: the records of each producer in the order in which it sent them.
            read: the records of each consumer in the order in which it was given them.

        Raises:
            UsageError: something else is among them.
        """
        self._sent, self._read = tuple(sent), tuple(read)
        for kind, records in ((Sent, self._sent), (Read, self._read)):
            if strange := next((r for r in records if not isinstance(r, kind)), None):
                raise UsageError(
                    f"{strange!r} is no {kind.__name__} (kafka_chaos.{kind.__name__})."
                )
        values: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._events = tuple(self._told(values))
        self._values = list(values)

    def write(self, path: Path) -> Path:
        """Write the op history and return its path."""
        return write_history(self._events, path)

    def record_of(self, value: int) -> str:
        """Return the value of the record that a number in the history stands for, as a text."""
        text = repr(self._values[value])
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"

    def _told(self, values: defaultdict[Hashable, int]) -> Iterator[Event]:
        """Yield all sends and then all reads, for nothing tells which was made when."""
        places: dict[tuple[str, Hashable], int] = {}
        for read in self._read:
            places.setdefault((read.topic, read.value), read.partition)
        processes: defaultdict[tuple[type, str], int] = defaultdict(count().__next__)
        for sent in self._sent:
            partition = sent.partition
            if partition is None:
                partition = places.get((sent.topic, sent.value))
            key, value = key_of(sent.topic, partition), values[sent.value]
            process = processes[Sent, sent.producer]
            begin, end = pair(
                process, "send", [["send", key, value]], [["send", key, [sent.offset, value]]]
            )
            yield begin
            yield {**end, "type": sent.outcome}
        for read in self._read:
            polled = {key_of(read.topic, read.partition): [[read.offset, values[read.value]]]}
            process = processes[Read, read.consumer]
            yield from pair(process, "poll", [["poll"]], [["poll", polled]])
