"""The process of a client in any language: requests and answers as JSON lines over a pipe.

Source: docs/client-protocol.md.
"""

import base64
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from harness.core.client_library import CLIENT_COMMAND

HELLO_S = 60.0
"""The longest that a client may take for what is done at once, its start included."""
_BURIED_S = 5.0

_NAMES = {
    "sasl.username": None,
    "sasl.password": None,
    "socket.timeout.ms": None,
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "topic.metadata.refresh.fast.interval.ms": None,
    "fetch.error.backoff.ms": None,
    "queued.max.messages.kbytes": None,
    "enable.auto.offset.store": None,
    "enable.partition.eof": None,
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "broker.address.family": None,
    "log_level": None,
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": None,
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": None,
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's settings that Kafka calls otherwise; None: it has none, or takes it elsewhere."""
_STRATEGY = "partition.assignment.strategy"
_ASSIGNORS = {
    name: f"org.apache.kafka.clients.consumer.{kind}Assignor"
    for name, kind in (
        ("range", "Range"),
        ("roundrobin", "RoundRobin"),
        ("cooperative-sticky", "CooperativeSticky"),
    )
}
_LOGIN = 'org.apache.kafka.common.security.{}LoginModule required username="{}" password="{}";'


def kafka_config(config: Mapping[str, Any]) -> dict[str, str]:
    """Return librdkafka's settings in Kafka's own names, as texts; callbacks are left out."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if callable(value):
            continue
        named = _NAMES.get(name, name)
        if named is not None:
            found[named] = _written(value)
    found |= _stores(config)
    if user := config.get("sasl.username"):
        mechanism = str(config.get("sasl.mechanism", "PLAIN"))
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        found["sasl.jaas.config"] = _LOGIN.format(module, user, config.get("sasl.password", ""))
    if (assignor := found.get(_STRATEGY, "")) in _ASSIGNORS:
        found[_STRATEGY] = _ASSIGNORS[assignor]
    if found.get("auto.offset.reset") == "error":
        found["auto.offset.reset"] = "none"
    return found


def _stores(config: Mapping[str, Any]) -> dict[str, str]:
    """Return of which types a client's stores are, and its own certificate, as Kafka has them.

    Source: KIP-651, PEM in the place of stores, in files or as it is.
    """
    found: dict[str, str] = {}
    if "ssl.ca.location" in config or "ssl.ca.pem" in config:
        found["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.location" in config:
        found["ssl.keystore.type"] = "PKCS12"
    for name, store in (
        ("ssl.certificate", "ssl.keystore.certificate.chain"),
        ("ssl.key", "ssl.keystore.key"),
    ):
        if path := config.get(f"{name}.location"):
            found[store] = Path(path).read_text(encoding="utf-8")
        if path or f"{name}.pem" in config:
            found["ssl.keystore.type"] = "PEM"
    if config.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # Java has whole milliseconds where librdkafka has fractions.
    return str(round(value)) if isinstance(value, float) else str(value)


class Message:
    """A record as confluent-kafka shows it: one that was sent, or read, or an error."""

    __slots__ = ("_error", "_headers", "_key", "_offset", "_partition", "_topic", "_value")

    def __init__(  # noqa: PLR0913 (what a record has)
        self,
        topic: str,
        partition: int,
        *,
        offset: int | None = None,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._headers, self._error = key, value, headers, error

    def topic(self) -> str:
        """Return the topic."""
        return self._topic

    def partition(self) -> int:
        """Return the partition, -1 as long as nobody knows."""
        return self._partition

    def offset(self) -> int | None:
        """Return the offset, None as long as nobody knows."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value."""
        return self._value

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Return the headers."""
        return self._headers

    def error(self) -> KafkaError | None:
        """Return what stands in the place of a record; None for a record."""
        return self._error


def error_of(told: Mapping[str, Any]) -> KafkaError:
    """Return an error as confluent-kafka has it; what nobody else knows is the client's `_FAIL`."""
    name = str(told.get("name", ""))
    # librdkafka has Kafka's own numbers, and names of its own for what happens in a client.
    code = told.get("code", getattr(KafkaError, name, None))
    return KafkaError(
        KafkaError._FAIL if code is None else code,
        f"{name}: {told.get('message', '')}",
        fatal=bool(told.get("fatal")),
        retriable=bool(told.get("retriable")),
        txn_requires_abort=bool(told.get("abortable")),
    )


class Pipe:
    """The process of one client, and what goes to and fro.

    Attributes:
        hello: what it said of itself.
    """

    def __init__(self, kind: str, config: Mapping[str, Any]) -> None:
        """Start the process and open the client.

        Raises:
            KafkaException: it could not be opened.
        """
        self._process = subprocess.Popen(  # noqa: S603 (the command that is under test)
            json.loads(os.environ[CLIENT_COMMAND]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        # A call that waits is made in one thread while another one asks for reports.
        self._lock = threading.RLock()
        self._out: list[bytes] = []
        self._ids = 0
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self.completed: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.dead: KafkaError | None = None
        assert self._process.stdin is not None  # noqa: S101 (follows from PIPE)
        self._in = self._process.stdin
        self._listener = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._listener.start()
        self.hello = self.call(
            {
                "op": "open",
                "kind": kind,
                "config": kafka_config(config),
                "positions": bool(config.get("enable.partition.eof")),
            },
            HELLO_S,
        )

    def post(self, request: dict[str, Any]) -> int:
        """Let the client do something whose answer comes among `completed`; return its number."""
        with self._lock:
            self._ids += 1
            self._out.append(json.dumps({"id": self._ids, **request}).encode() + b"\n")
            return self._ids

    def call(
        self,
        request: dict[str, Any],
        timeout_s: float,
        events: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Let the client do something and return its answer.

        Args:
            request: what.
            timeout_s: how long to wait.
            events: called with what it tells before the answer; it goes on when that returns.

        Raises:
            KafkaException: it failed, the client is dead, or there was no answer in time.
        """
        with self._lock:
            number = self.post(request)
            waiting = self._answers[number] = queue.SimpleQueue()
            self.flush()
        end = time.monotonic() + timeout_s
        try:
            while True:
                try:
                    answer = waiting.get(timeout=max(0.0, end - time.monotonic()))
                except queue.Empty:
                    late = KafkaError(
                        KafkaError._TIMED_OUT, "no answer of the client in time", retriable=True
                    )
                    raise KafkaException(late) from None
                if "event" in answer:
                    if events is not None:
                        events(answer)
                    self._say({"op": "resume", "id": number})
                    continue
                if "error" in answer:
                    raise KafkaException(error_of(answer["error"]))
                return answer
        finally:
            self._answers.pop(number, None)

    def flush(self) -> None:
        """Hand over what was posted."""
        with self._lock:
            if self._out and self.dead is None:
                lines, self._out = b"".join(self._out), []
                self._write(lines)

    def close(self, timeout_s: float) -> None:
        """End the client, waiting at most so long."""
        with suppress(KafkaException):
            self.call({"op": "close"}, timeout_s)
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._listener.join(_BURIED_S)
        with suppress(OSError):
            self._in.close()

    def _say(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            self._write(json.dumps(line).encode() + b"\n")

    def _write(self, lines: bytes) -> None:
        try:
            self._in.write(lines)
            self._in.flush()
        except (OSError, ValueError):
            # ValueError: it was closed. Who listens finds out why.
            return

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 (follows from PIPE)
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
                waiting = self._answers.get(answer.get("id"))
            except (ValueError, AttributeError):
                sys.stderr.write(f"the client said {line[:200]!r}\n")
                continue
            (self.completed if waiting is None else waiting).put(answer)
        self._process.stdout.close()
        code = self._process.wait()
        self.dead = KafkaError(
            KafkaError._FATAL, f"the client's process ended with {code}", fatal=True
        )
        for waiting in list(self._answers.values()):
            waiting.put({"error": {"name": "_FATAL", "message": str(code), "fatal": True}})


def to_text(content: bytes | str | None) -> str | None:
    """Return a key or a value as a line has it, in base64."""
    if content is None:
        return None
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def to_bytes(text: str | None) -> bytes | None:
    """Return the key or the value that a line has in base64."""
    return None if text is None else base64.b64decode(text)
