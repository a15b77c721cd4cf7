"""Attaching to a running HotSpot JVM in another container, to load our Java agents into it.

It speaks HotSpot's own attach protocol: `jcmd` would do the same, after starting a JVM of its own
for half a second.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from fault_agent import AgentError
from fault_agent.processes import PROC, Process, pid_inside, send, wait_for

STORM_JAR = Path("/opt/kafka-chaos/gcstorm.jar")
MBEANS_JAR = Path("/opt/kafka-chaos/mbeans.jar")
_TMP_INSIDE = "/tmp"  # noqa: S108  # where a JVM's user can always read
LISTENER_S = 10.0
# On a crowded machine full collections take seconds each, and a JVM that does nothing else takes a
# command between two of them.
COMMAND_S = 25.0


def load(target: Process, jar: Path, argument: str) -> str:
    """Load one of our Java agents into a JVM, and return what the JVM said.

    Args:
        target: the JVM.
        jar: the agent.
        argument: of the storm `<milliseconds>:<nodes>`, or `stop`; of the MBeans' the path of a
            file of object names.

    Raises:
        AgentError: the JVM does not listen (it is frozen, or no HotSpot), or refused.
    """
    inside = _put_jar(target, jar)
    said = command(target, "load", "instrument", "false", f"{inside}={argument}")
    code = said.rpartition(":")[2].strip()
    if code != "0":
        raise AgentError(f"The JVM {target.pid} did not load the agent: {said or code}.")
    return said


def mbeans(target: Process, names: Sequence[str]) -> list[tuple[str, str, float]]:
    """Return what a JVM's own MBeans say: object name, attribute and number of each.

    Args:
        target: the JVM.
        names: object names, which may be patterns; one that nothing matches has no rows.

    Raises:
        AgentError: the JVM does not listen (it is frozen, or no HotSpot), or a name is none.
    """
    # As the JVM's user sees it: two who ask at once have a file each.
    inside = f"{_TMP_INSIDE}/kafka-chaos-mbeans-{os.getpid()}"
    question = PROC / str(target.pid) / f"root{inside}"
    answer = question.with_name(f"{question.name}.out")
    question.write_text("".join(f"{name}\n" for name in names))
    question.chmod(0o644)
    # The JVM's user may be no root, and then may not make a file beside one of root's: it may fill
    # one that is there.
    answer.touch()
    answer.chmod(0o666)
    try:
        load(target, MBEANS_JAR, inside)
        rows = [line.split("\t") for line in answer.read_text().splitlines()]
        for name, error, _ in rows:
            if name == "!":
                raise AgentError(f"The JVM {target.pid} says of the object names: {error}.")
        return [(name, attribute, float(number)) for name, attribute, number in rows]
    finally:
        question.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)


def command(target: Process, *words: str) -> str:
    """Give a JVM one command of the attach protocol and return its answer.

    Raises:
        AgentError: the JVM does not listen, or the command failed.
    """
    path = _listening_socket(target)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(COMMAND_S)
        try:
            connection.connect(path)
            # Protocol version, then the command and always three arguments.
            padded = [*words, "", "", ""][:4]
            connection.sendall(b"".join(word.encode() + b"\0" for word in ["1", *padded]))
            answer = b""
            while part := connection.recv(65536):
                answer += part
        except OSError as error:
            raise AgentError(f"The JVM {target.pid} broke off the attachment: {error}.") from error
    status, _, said = answer.decode(errors="replace").partition("\n")
    if status != "0":
        raise AgentError(f"The JVM {target.pid} refused {words[0]}: {said.strip() or status}.")
    return said.strip()


def _listening_socket(target: Process) -> str:
    inside = pid_inside(target.pid)
    folder = PROC / str(target.pid) / "root/tmp"
    path = folder / f".java_pid{inside}"
    if not path.exists():
        # With this file in place SIGQUIT means "listen" and not "dump your threads".
        trigger = folder / f".attach_pid{inside}"
        trigger.touch()
        try:
            send(target, "SIGQUIT")
            wait_for(path.exists, limit_s=LISTENER_S, what=f"the JVM {target.pid} to listen")
        finally:
            trigger.unlink(missing_ok=True)
    return str(path)


def _put_jar(target: Process, jar: Path) -> str:
    wanted = jar.read_bytes()
    inside = f"{_TMP_INSIDE}/kafka-chaos-{jar.name}"
    path = PROC / str(target.pid) / f"root{inside}"
    if path.exists() and path.read_bytes() == wanted:
        return inside
    # A JVM may have the old file mapped: it keeps the old one, the name goes to the new one.
    half = path.with_suffix(f".{os.getpid()}")
    half.write_bytes(wanted)
    half.chmod(0o644)
    half.rename(path)
    return inside
