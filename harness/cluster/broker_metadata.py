"""What one broker's own metadata says: asked of that broker alone, many times a second.

librdkafka asks whichever broker it likes, and has a broker that is gone cost a time-out. Where a
fault has to follow an election by milliseconds, each broker is asked over a connection of its own.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.cluster.broker_socket import Address, BrokerSocket
from harness.core.view import Partition, PartitionState

_METADATA = 3
_WITH_EPOCHS, _PLAIN = 7, 1
"""Versions of the request; the second is the oldest that Kafka 4 and 0.10.2 both know."""
_FIRST_WITH_EPOCHS = (2, 1)


class BrokerMetadata:
    """A connection to one broker, made when it is asked, and kept until an answer fails to come.

    Args:
        address: where the broker listens for clients; None, it is not known, never answers.
        version: of Kafka, as numbers.
        timeout_s: for the connection, and for each answer.
        security: librdkafka's security settings; empty: none are needed.
    """

    def __init__(
        self,
        address: Address | None,
        version: tuple[int, ...],
        *,
        timeout_s: float,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._address = address
        self._security = security or {}
        self._api = _WITH_EPOCHS if version >= _FIRST_WITH_EPOCHS else _PLAIN
        self._timeout_s = timeout_s
        self._socket: BrokerSocket | None = None

    def partitions(self) -> dict[Partition, PartitionState] | None:
        """Return the state of every partition as the broker knows it; None if it does not answer.

        Source: KIP-4 for version 1, KIP-320 for version 7 of the Metadata request, which tells the
        epochs of leaders too.
        """
        try:
            return _partitions(self._answer(), self._api)
        except OSError:
            self.close()
            return None
        except (struct.error, UnicodeDecodeError, IndexError):
            # Half an answer of a broker that died in the middle of it.
            self.close()
            return None

    def close(self) -> None:
        """End the connection; the next question makes another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(self) -> bytes:
        if self._address is None:
            raise ConnectionRefusedError("The broker publishes no port that is known.")
        if self._socket is None:
            self._socket = BrokerSocket(self._address, self._security, timeout_s=self._timeout_s)
        everything = struct.pack(">i", -1)
        topics = everything + b"\0" if self._api == _WITH_EPOCHS else everything
        return self._socket.ask(_METADATA, self._api, topics)


@dataclass(slots=True)
class _Reader:
    """Reads the values of an answer one after the other."""

    data: bytes
    at: int = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self.data, self.at)
        self.at += struct.calcsize(f">{code}")
        return int(value)

    def text(self) -> str:
        length = max(0, self.number("h"))
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def each(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in range(self.number("i"))]

    def ids(self) -> tuple[int, ...]:
        return tuple(self.each(lambda: self.number("i")))


def _partitions(answer: bytes, api: int) -> dict[Partition, PartitionState]:
    reader = _Reader(answer)
    if api == _WITH_EPOCHS:
        reader.number("i")  # throttle time
    reader.each(lambda: (reader.number("i"), reader.text(), reader.number("i"), reader.text()))
    if api == _WITH_EPOCHS:
        reader.text()  # cluster id
    reader.number("i")  # controller; under KRaft any broker
    topics: list[Mapping[Partition, PartitionState]] = reader.each(lambda: _topic(reader, api))
    return {place: state for topic in topics for place, state in topic.items()}


def _topic(reader: _Reader, api: int) -> dict[Partition, PartitionState]:
    reader.number("h")  # error
    name = reader.text()
    reader.number("b")  # internal
    states: list[tuple[int, PartitionState]] = reader.each(lambda: _partition(reader, api))
    return {(name, number): state for number, state in states}


def _partition(reader: _Reader, api: int) -> tuple[int, PartitionState]:
    reader.number("h")  # error
    number, leader = reader.number("i"), reader.number("i")
    epoch = reader.number("i") if api == _WITH_EPOCHS else None
    replicas, isr = reader.ids(), reader.ids()
    if api == _WITH_EPOCHS:
        reader.ids()  # offline replicas
    return number, PartitionState(
        leader=None if leader < 0 else leader, isr=isr, replicas=replicas, leader_epoch=epoch
    )
