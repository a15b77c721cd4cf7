"""Probes: what a listener of Kafka or ZooKeeper answers, asked from a container's network."""

import ctypes
import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fault_agent import AgentError
from fault_agent.parallel import in_parallel

_CLONE_NEWNET = 0x40000000
_CORRELATION = 0x6B63
_API_VERSIONS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question.

    Attributes:
        container_pid: from inside which container's network.
        host: IP address of the listener.
        port: its TCP port.
        protocol: "kafka", or "zookeeper".
    """

    container_pid: int
    host: str
    port: int
    protocol: str = "kafka"


def probe(probes: Sequence[Probe], *, timeout_s: float) -> list[str]:
    """Ask all listeners at once.

    Returns:
        For each, in order: "answered", "silent" (connected, then nothing), "refused" (reset or
        closed) or "unreachable" (not even a refusal).

    Raises:
        AgentError: a container's network cannot be entered.
    """
    calls = [partial(_ask, one, time.monotonic() + timeout_s) for one in probes]
    return in_parallel(calls)


def request() -> bytes:
    """Return an ApiVersions request, version 0, with its length in front."""
    client = b"kafka-chaos"
    body = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION, len(client)) + client
    return struct.pack(">i", len(body)) + body


def _ask(one: Probe, deadline: float) -> str:
    _enter_network(one.container_pid)
    return ask(one.host, one.port, deadline, protocol=one.protocol)


def ask(host: str, port: int, deadline: float, *, protocol: str = "kafka") -> str:
    """Ask one listener from where the thread is; `deadline` on the monotonic clock, in seconds."""
    question = b"srvr" if protocol == "zookeeper" else request()
    try:
        connection = socket.create_connection((host, port), timeout=_left(deadline))
    except (ConnectionRefusedError, ConnectionResetError):
        return "refused"
    except OSError:
        return "unreachable"
    with connection:
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(question)
            answer = b""
            while len(answer) < 8:
                connection.settimeout(_left(deadline))
                part = connection.recv(4096)
                if not part:
                    return "refused"
                answer += part
        except TimeoutError:
            return "silent"
        except OSError:
            return "refused"
    if protocol == "zookeeper":
        return "answered" if answer.startswith(b"Zookeeper"[:8]) else "refused"
    return "answered" if struct.unpack(">i", answer[4:8])[0] == _CORRELATION else "refused"


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _enter_network(container_pid: int) -> None:
    # Of the calling thread alone; Python has os.setns only from 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(f"/proc/{container_pid}/ns/net", os.O_RDONLY)
    except OSError:
        raise AgentError(f"The container of process {container_pid} is gone.") from None
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise AgentError(f"The network of process {container_pid} is closed to us: {reason}.")
    finally:
        os.close(descriptor)
