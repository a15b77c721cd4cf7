"""The watch: heals what nobody healed in time, so that a killed harness leaves nothing broken."""

import signal
import threading
import time

from fault_agent import AgentError, attach, network
from fault_agent.leases import Action, Healed, Leases
from fault_agent.processes import is_living, jvm_of, process, send, start_jvm

_PULSE_S = 0.1
_RETRY_S = 1.0


def undo(action: Action) -> str | None:
    """Take one action back; idempotent.

    Returns:
        A note if there was nothing to do, else None.

    Raises:
        AgentError: it could not be done, and trying again may help.
    """
    if not is_living(action.container_pid, action.container_ticks):
        return "the container is gone"
    if action.kind == "start":
        return _start(action)
    if action.kind == "mend":
        return network.take_away(action.container_pid, action.chain)
    target = process(action.pid)
    if target is None or target.start_ticks != action.start_ticks:
        return "the process is gone"
    if action.kind == "continue":
        send(target, "SIGCONT")
        return None
    if action.kind == "gc_stop":
        attach.load(target, attach.STORM_JAR, "stop")
        return None
    raise AgentError(f"Nobody knows how to undo {action.kind!r}.")


def _start(action: Action) -> str | None:
    running = jvm_of(action.container_pid)
    if running and (running.pid, running.start_ticks) == (action.pid, action.start_ticks):
        # It was told to end and takes its time: starting now would be lost on the supervisor.
        raise AgentError(f"The JVM {running.pid} has not ended yet.")
    if start_jvm(action.container_pid) is None:
        raise AgentError(f"No JVM came up below process {action.container_pid}.")
    return "it was already running" if running else None


def heal_lease(leases: Leases, name: str, *, starts: bool = True) -> list[Healed]:
    """Take everything of a lease back; `starts` false leaves JVMs that are down alone."""
    return leases.take_back(name, lambda action: starts or action.kind != "start", undo)


def leave_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on."""
    leave = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave.set())
    return leave


def watch(leases: Leases, leave: threading.Event) -> None:
    """Heal expired leases until told to leave, then heal all but the starts.

    Args:
        leases: to be watched.
        leave: ends the watch.
    """
    troubles: dict[str, tuple[float, str]] = {}
    while not leave.wait(_PULSE_S):
        for lease in leases.all():
            tried_at, trouble = troubles.get(lease.id, (0.0, ""))
            if time.monotonic_ns() < lease.deadline_ns or time.monotonic() < tried_at + _RETRY_S:
                continue
            healed = heal_lease(leases, lease.id)
            now = " ".join(entry.error for entry in healed if entry.error)
            # An error that repeats every second is worth one line.
            leases.record([entry for entry in healed if not entry.error or now != trouble])
            troubles[lease.id] = (time.monotonic(), now)
    for lease in leases.all():
        leases.record(heal_lease(leases, lease.id, starts=False))
