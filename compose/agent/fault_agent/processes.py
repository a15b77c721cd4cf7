"""Processes as the kernel shows them: the JVM of a container, and signals to it."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fault_agent import AgentError

PROC = Path("/proc")
"""The host's: the agent runs in the host's pid namespace."""

_TOOL_PACKAGES = ("kafka.tools.", "kafka.admin.", "org.apache.kafka.tools.", "kafka.docker.")
_TOOL_ENDINGS = ("KafkaDockerWrapper", "KafkaReadyCommand", "ZookeeperReadyCommand")
_PULSE_S = 0.005
DEATH_S = 45.0
"""So long may a killed process take to be gone and reaped, seconds: a busy disk holds it."""
STOP_S = 10.0
"""So long may a process take to be stopped or continued, seconds."""
START_S = 5.0
"""So long is a JVM waited for that the supervisor was told to start, seconds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, beyond confusion with a later one of the same pid.

    Attributes:
        pid: in the host's pid namespace.
        start_ticks: start time, clock ticks since boot.
        state: the kernel's letter; Z and X are dead.
        parent: pid of the parent.
        command: the kernel's short name, such as "java".
    """

    pid: int
    start_ticks: int
    state: str
    parent: int
    command: str


def parse_stat(text: str) -> Process:
    """Return the process that a line of `/proc/PID/stat` describes.

    The name stands in parentheses and may itself hold some, so the last one counts.
    """
    head, _, tail = text.rpartition(")")
    pid, _, command = head.partition(" (")
    fields = tail.split()
    return Process(
        pid=int(pid),
        state=fields[0],
        parent=int(fields[1]),
        start_ticks=int(fields[19]),
        command=command,
    )


def process(pid: int) -> Process | None:
    """Return the process of that pid, or None if there is none."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_living(pid: int, start_ticks: int) -> bool:
    """Tell whether that very process still exists; one that is dead but not reaped does."""
    seen = process(pid)
    return seen is not None and seen.start_ticks == start_ticks


def jvm_of(container_pid: int) -> Process | None:
    """Return the broker's JVM below a container's first process, or None.

    The JVM nearest to the first process counts; Kafka's own tools do not. They format a disk
    before the broker starts, and a health check that is slow leaves them to the first process.
    """
    children: dict[int, list[Process]] = {}
    for entry in os.listdir(PROC):
        if entry.isdecimal() and (seen := process(int(entry))) is not None:
            children.setdefault(seen.parent, []).append(seen)
    level = children.get(container_pid, [])
    while level:
        for candidate in level:
            if candidate.command == "java" and _is_broker(candidate):
                return candidate
        level = [child for parent in level for child in children.get(parent.pid, [])]
    return None


def _is_broker(candidate: Process) -> bool:
    # A dead process that nobody has reaped yet has no command line any more.
    words = command_line(candidate.pid)
    return bool(words) and not any(
        word.startswith(_TOOL_PACKAGES) or word.endswith(_TOOL_ENDINGS) for word in words
    )


def command_line(pid: int) -> list[str]:
    """Return the words that a process was started with; none if it is gone."""
    try:
        line = (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [word.decode(errors="replace") for word in line.rstrip(b"\0").split(b"\0") if word]


def open_files(pid: int) -> list[str]:
    """Return the paths that a process holds open, as it sees them, sorted; none if it is gone."""
    folder = PROC / str(pid) / "fd"
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for entry in folder.iterdir():
            # A file may be closed between the listing and the look at it.
            with suppress(FileNotFoundError, ProcessLookupError):
                found.add(os.readlink(entry))
    return sorted(path for path in found if path.startswith("/"))


def pid_inside(pid: int) -> int:
    """Return the pid that a process has in its own container.

    Raises:
        AgentError: the process is gone, or the kernel does not tell.
    """
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        raise AgentError(f"The process {pid} is gone.") from None
    for line in lines:
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise AgentError(f"The kernel does not tell the pid of process {pid} in its container.")


def send(target: Process, name: str) -> int:
    """Send a signal, wait until the kernel shows its effect, and return when that was seen.

    Args:
        target: who gets it; a later process of the same pid never does.
        name: SIGKILL (effect: the process is gone and reaped, waited for at most 45 s), SIGSTOP
            (state T, 10 s), SIGCONT (no longer T, 10 s), or another, which is not waited for.

    Returns:
        `time.monotonic_ns()` when the effect was seen.

    Raises:
        AgentError: the process is gone, or the effect did not come.
    """
    try:
        number = signal.Signals[name]
    except KeyError:
        raise AgentError(f"There is no signal {name!r}.") from None
    try:
        # A pid descriptor stays with its process: no check can come too late.
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        raise AgentError(f"The process {target.pid} is gone.") from None
    try:
        if not is_living(target.pid, target.start_ticks):
            raise AgentError(f"The process {target.pid} is gone; its pid belongs to another.")
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    if name == "SIGKILL":
        wait_for(
            lambda: not is_living(target.pid, target.start_ticks),
            limit_s=DEATH_S,
            what=f"the end of process {target.pid}",
        )
    elif name in ("SIGSTOP", "SIGCONT"):
        wait_for(
            lambda: _is_stopped(target) == (name == "SIGSTOP"),
            limit_s=STOP_S,
            what=f"the effect of {name} on process {target.pid}",
        )
    return time.monotonic_ns()


def _is_stopped(target: Process) -> bool:
    seen = process(target.pid)
    return seen is not None and seen.start_ticks == target.start_ticks and seen.state in "Tt"


def tell_supervisor(container_pid: int, wish: str) -> None:
    """Write a wish to the supervisor of a container.

    Raises:
        AgentError: the container is gone, or its first process is no supervisor of ours.
    """
    fifo = PROC / str(container_pid) / "root/run/kafka-chaos/wishes"
    try:
        # The supervisor holds the FIFO open; if nobody does, this fails at once and never waits.
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        raise AgentError(
            f"The first process {container_pid} of the container takes no wishes "
            f"({error.strerror}): the container is gone or has no supervisor."
        ) from error
    try:
        os.write(descriptor, f"{wish}\n".encode())
    finally:
        os.close(descriptor)


def wish_of(container_pid: int) -> str | None:
    """Return the wish that the supervisor follows, or None if there is no supervisor."""
    try:
        return (PROC / str(container_pid) / "root/run/kafka-chaos/wish").read_text().strip()
    except OSError:
        return None


def start_jvm(container_pid: int, *, limit_s: float = START_S) -> Process | None:
    """Have the supervisor start the JVM unless one runs.

    The wish is repeated: it is lost on a supervisor whose JVM is just dying.

    Returns:
        The JVM, or None if it was not seen within the limit: a disk is being formatted.
    """
    deadline = time.monotonic() + limit_s
    while True:
        if (seen := jvm_of(container_pid)) is not None:
            return seen
        if time.monotonic() >= deadline:
            return None
        tell_supervisor(container_pid, "up")
        with suppress(AgentError):
            wait_for(lambda: jvm_of(container_pid), limit_s=0.25, what="the JVM", pulse_s=0.02)


def wait_for(
    condition: Callable[[], T], *, limit_s: float, what: str, pulse_s: float = _PULSE_S
) -> T:
    """Return the first truthy value of the condition.

    Raises:
        AgentError: the limit passed.
    """
    deadline = time.monotonic() + limit_s
    while True:
        if seen := condition():
            return seen
        if time.monotonic() >= deadline:
            raise AgentError(f"Waited {limit_s:g} s for {what}.")
        # The harness's own wait is not at hand in this container.
        time.sleep(pulse_s)  # noqa: TID251 (see above)
