"""The connection over which the fault agent is asked: many questions, one program."""

import contextlib
import itertools
import json
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

from docker.api.client import APIClient
from docker.utils.socket import frames_iter_no_tty

log = logging.getLogger(__name__)

_STDOUT = 1
_COMMAND = ("agent.py", "serve")


class AgentChannel:
    """Asks the agent's `serve`, which is started when it is first asked, and again if it has ended.

    A `docker exec` for each question takes 0.2 to 1 s on a busy machine, and most of that in
    processor time; here it takes some milliseconds. Any thread may ask, and many at a time.

    Args:
        engine: the engine's client.
        container: id of the agent's container.
    """

    def __init__(self, engine: APIClient, container: str) -> None:
        self._engine = engine
        self._container = container
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    def ask(self, verb: str, argument: str, *, timeout_s: float) -> dict[str, Any]:
        """Return the answer to a verb.

        Args:
            verb: as compose/agent/README.md has them.
            argument: one JSON document, in one line.
            timeout_s: for the answer.

        Raises:
            ConnectionError: the connection ended; what was asked may have been done, or not.
            TimeoutError: no answer came in time.
            DockerException, RequestException: the engine does not start the program.
        """
        with self._lock:
            if self._connection is None or self._connection.has_ended:
                self._connection = _Connection(self._engine, self._container)
            connection = self._connection
        return connection.ask(f"{verb} {argument}").result(timeout=timeout_s)

    def close(self) -> None:
        """End the program; who waits for an answer gets a ConnectionError."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


class _Connection:
    """One program that serves, and a thread that hands its answers to those who wait."""

    def __init__(self, engine: APIClient, container: str) -> None:
        execution = engine.exec_create(container, list(_COMMAND), stdin=True)["Id"]
        self._stream: Any = engine.exec_start(execution, socket=True)
        # What it is depends on how the engine is reached; the library reads from any of them.
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        self._socket.settimeout(None)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self.has_ended = False
        threading.Thread(target=self._read, name="agent-answers", daemon=True).start()

    def ask(self, request: str) -> Future[dict[str, Any]]:
        """Send a request, and return its answer to come."""
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            try:
                if self.has_ended:
                    raise ConnectionError("The agent's answers have ended.")
                self._socket.sendall(f"{number} {request}\n".encode())
            except OSError as error:
                self._waiting.pop(number).set_exception(ConnectionError(str(error)))
        return answer

    def close(self) -> None:
        """Close the connection, whose other end sees its input end."""
        self.has_ended = True
        # The reader has the socket open as well, and a mere close would leave it waiting.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        line = b""
        try:
            parts = cast("Iterator[tuple[int, bytes]]", frames_iter_no_tty(self._stream))
            for source, part in parts:
                if source != _STDOUT:
                    log.warning("the agent says: %s", part.decode(errors="replace").strip())
                    continue
                *lines, line = (line + part).split(b"\n")
                for complete in lines:
                    self._hand_out(complete)
        except (OSError, ValueError) as error:
            log.warning("the agent's answers ended: %s", error)
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self.has_ended = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for answer in waiting:
            answer.set_exception(ConnectionError("The agent's answers have ended."))
        # Both faces of one descriptor.
        self._stream.close()
        self._socket.close()

    def _hand_out(self, line: bytes) -> None:
        number, _, text = line.partition(b" ")
        answer: dict[str, Any] = json.loads(text)
        with self._lock:
            waiting = self._waiting.pop(int(number), None)
        if waiting is not None:
            waiting.set_result(answer)
