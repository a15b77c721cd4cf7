"""One broker's own metadata: answers of both versions, halves of answers, and none."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from harness.cluster.broker_metadata import BrokerMetadata
from harness.core.view import PartitionState

OLD, NEW = (0, 10, 2), (4, 3)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


CORRELATION = 0x6B63


def _ids(*ids: int) -> bytes:
    return struct.pack(f">i{len(ids)}i", len(ids), *ids)


def answer(version: tuple[int, ...], leader: int) -> bytes:
    """Return an answer that names one broker and one topic of one partition, led under epoch 7."""
    new = version == NEW
    partition = struct.pack(">hii", 0, 3, leader) + (struct.pack(">i", 7) if new else b"")
    partition += _ids(1, 2, 3) + _ids(2, 3) + (_ids(1) if new else b"")
    broker = struct.pack(">i", 2) + _text("host") + struct.pack(">i", 9092) + struct.pack(">h", -1)
    body = struct.pack(">i", CORRELATION)
    body += struct.pack(">i", 0) if new else b""
    body += struct.pack(">i", 1) + broker
    body += _text("cluster") if new else b""
    body += struct.pack(">i", 2)
    body += struct.pack(">ih", 1, 0) + _text("orders") + b"\0" + struct.pack(">i", 1) + partition
    return struct.pack(">i", len(body)) + body


@contextmanager
def broker(*answers: bytes) -> Iterator[int]:
    """A server that gives each request the next answer, and then ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for each in answers:
                    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    connection.recv(length, socket.MSG_WAITALL)
                    connection.sendall(each)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=10)


@pytest.mark.parametrize(("version", "epoch"), [(OLD, None), (NEW, 7)])
def test_a_broker_tells_its_partitions_again_and_again(
    version: tuple[int, ...], epoch: int | None
) -> None:
    with (
        broker(answer(version, 2), answer(version, -1)) as port,
        closing(BrokerMetadata(("127.0.0.1", port), version, timeout_s=10)) as metadata,
    ):
        first, second = metadata.partitions(), metadata.partitions()

    state = PartitionState(leader=2, isr=(2, 3), replicas=(1, 2, 3), leader_epoch=epoch)
    assert first == {("orders", 3): state}
    assert second is not None
    assert second["orders", 3].leader is None


@pytest.mark.parametrize("kept", [0, 3, 40])
def test_half_an_answer_is_none(kept: int) -> None:
    with (
        broker(answer(NEW, 2)[:kept]) as port,
        closing(BrokerMetadata(("127.0.0.1", port), NEW, timeout_s=10)) as metadata,
    ):
        assert metadata.partitions() is None


def test_nobody_there_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert BrokerMetadata(("127.0.0.1", port), NEW, timeout_s=10).partitions() is None
    assert BrokerMetadata(None, NEW, timeout_s=10).partitions() is None
