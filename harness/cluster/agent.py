"""The fault agent's client: how the harness reaches into the containers."""

import base64
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, cast
from uuid import uuid4

from docker.models.containers import Container
from tenacity import (
    before_sleep_log,
    retry,
    retry_if_exception_type,
    stop_after_attempt,
)

from harness.cluster.agent_channel import AgentChannel
from harness.core.cluster import Lease
from harness.core.errors import ClusterBroken
from harness.core.wait import wait_until
from harness.machine.engine import ENGINE_ERRORS

log = logging.getLogger(__name__)

Protocol = Literal["kafka", "zookeeper"]
"""What a listener speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """What a node's JVM was started with.

    Attributes:
        pid_inside: its pid in its own container.
        words: its command line.
        jars: paths of the jars that it holds open, as it sees them.
    """

    pid_inside: int
    words: Sequence[str]
    jars: Sequence[str]


class Agent:
    """Speaks to the agent container of one cluster.

    Args:
        container: the agent's container. Verbs and answers: compose/agent/README.md.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self._engine = container.client.api  # type: ignore[union-attr]  # set for listed containers
        self._channel = AgentChannel(self._engine, str(container.id))

    @property
    def name(self) -> str:
        """Name of the agent's container."""
        return str(self._container.name)

    def jvm(self, container_pid: int) -> Jvm | None:
        """Return what the JVM below a container's first process was started with, or None."""
        answer = self.ask("jvm", container_pid=container_pid)
        facts = {name: answer[name] for name in ("pid_inside", "words", "jars")}
        return None if facts["pid_inside"] is None else Jvm(**facts)

    def read(self, container_pid: int, path: str, *, offset: int = 0) -> bytes:
        """Return the bytes of a container's file from `offset` on; none if it does not exist."""
        content = bytearray()
        while True:
            part = self.ask(
                "read", container_pid=container_pid, path=path,
                offset=offset + len(content), limit=_CHUNK_BYTES,
            )  # fmt: skip
            data = base64.b64decode(part["base64"])
            content += data
            if len(data) < _CHUNK_BYTES:
                return bytes(content)

    def size(self, container_pid: int, path: str) -> int:
        """Return the size of a container's file in bytes; 0 if there is none."""
        return int(self.ask("read", container_pid=container_pid, path=path, limit=1)["size"])

    def mbeans(self, container_pid: int, names: Sequence[str]) -> dict[tuple[str, str], float]:
        """Return what a JVM's own MBeans say, by object name and attribute.

        Raises:
            ClusterBroken: there is no JVM, it does not answer, or a name is malformed.
        """
        answer = self.ask("mbeans", container_pid=container_pid, names=list(names))
        return {(row["name"], row["attribute"]): float(row["value"]) for row in answer["values"]}

    def heal_all(self) -> list[str]:
        """Heal everything that is under a lease; return what was done."""
        healed = self.ask("heal")["healed"]
        return [f"lease {e['lease']}: {e['action']} {e['note'] or ''}".strip() for e in healed]

    def ask(
        self,
        verb: str,
        /,
        *,
        lease: Lease | None = None,
        **arguments: Any,  # noqa: ANN401 (JSON)
    ) -> dict[str, Any]:
        """Have the agent carry out a verb, and return its answer.

        Where the engine loses the connection, it is asked for again. The agent keeps the answers
        to what is asked under a lease, by the number of the request, so that nothing is done twice
        and the first answer is the one returned.

        Args:
            verb: as compose/agent/README.md has them.
            lease: what the verb breaks is broken under it.
            arguments: of the verb, JSON values.

        Raises:
            ClusterBroken: the agent could not do it, or does not answer.
        """
        if lease is not None:
            arguments["lease"] = {"id": lease.fault_id, "limit_s": lease.limit_s}
            arguments["request"] = uuid4().hex
        try:
            answer = self._answer(verb, json.dumps(arguments))
        except (*ENGINE_ERRORS, OSError) as error:
            raise ClusterBroken(
                f"The fault agent {self.name} does not answer ({error})."
            ) from error
        if "error" in answer:
            raise ClusterBroken(f"The fault agent could not {verb}: {answer['error']}")
        log.debug("agent %s %s → %s", verb, arguments, answer)
        return answer

    @retry(
        retry=retry_if_exception_type(ConnectionError),
        stop=stop_after_attempt(3),
        before_sleep=before_sleep_log(log, logging.WARNING),
        reraise=True,
    )
    def _answer(self, verb: str, argument: str) -> dict[str, Any]:
        return self._channel.ask(verb, argument, timeout_s=_ANSWER_S)

    def close(self) -> None:
        """End the connection; whoever asks again gets a new one."""
        self._channel.close()

    def stream(
        self, command: Sequence[str], *, may_end_in: Collection[int] = (0,)
    ) -> Iterator[bytes]:
        """Yield what a program in the agent's container writes to stdout, as it writes it.

        A busy engine may end the output early: whoever reads it must know its end.

        Args:
            command: program and arguments.
            may_end_in: exit codes that are no failure.

        Raises:
            ClusterBroken: the program failed, or the engine does not answer.
        """
        err, is_garbled = b"", False
        try:
            execution = self._engine.exec_create(self._container.id, list(command))["Id"]
            parts = self._engine.exec_start(execution, demux=True, stream=True)
            # The library leaves the connection of a stream to the garbage collector, and what it
            # has for ending one closes the socket's face only.
            with closing(parts._response):  # type: ignore[union-attr]  # it has, in every version
                try:
                    for out, more in parts:
                        err += more or b""
                        if out:
                            yield out
                except ValueError as error:
                    # A busy engine has been seen to garble the frames: what follows is lost, as
                    # where it ends the output early.
                    log.warning("the engine garbled the output of %s: %s", command[0], error)
                    is_garbled = True
            exit_code = self._exit_code(execution, command[0])
        except ENGINE_ERRORS as error:
            raise ClusterBroken(
                f"The fault agent {self.name} does not answer ({error})."
            ) from error
        if is_garbled or (exit_code == _NOT_ATTACHED and not err):
            log.warning("the engine ended the output of %s early", command[0])
        elif exit_code not in may_end_in:
            raise ClusterBroken(
                f"{command[0]} ended in {exit_code} in {self.name}: "
                f"{err.decode(errors='replace').strip()[-500:]}"
            )

    def _exit_code(self, execution: str, what: str) -> int:
        """Return how a command ended."""

        def state_at_end() -> dict[str, Any] | None:
            # The output may end before the engine has seen the command end.
            state = cast("dict[str, Any]", self._engine.exec_inspect(execution))
            return None if state["Running"] or state["ExitCode"] is None else state

        state = wait_until(
            state_at_end, timeout_s=_PROGRAM_S, interval_s=0.01, what=f"the agent to end {what}"
        )
        return int(state["ExitCode"])


_ANSWER_S = 120.0
"""Longer than any verb takes, whose waits are bounded (README of the agent)."""
_PROGRAM_S = 30.0
_NOT_ATTACHED = 126
"""The engine says so in place of a command's own exit code when it could not hand on its output."""
_CHUNK_BYTES = 1024 * 1024
