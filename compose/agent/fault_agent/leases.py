"""Leases: what is broken, until when, and how it is taken back.

A lease is a file. Whoever breaks something writes it first; the watch, the first process of the
agent's container, takes back what has expired. Several verbs may work on one lease at once, so
every change is made under a lock on it.

Beside it lie the answers to what was asked under it, by the number of the request: an answer that
is lost on its way to the harness is asked for again, and nothing may be done twice for that.
"""

import fcntl
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fault_agent import AgentError
from fault_agent.parallel import in_parallel
from fault_agent.processes import wait_for

FOLDER = Path("/run/kafka-chaos")
LOCK_S = 20.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,16}")
_REQUEST = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to take back.

    Attributes:
        kind: "continue", "start", "mend" or "gc_stop".
        container_pid: first process of the container.
        container_ticks: its start time.
        pid: the JVM that was hit; 0 for "mend".
        start_ticks: its start time.
        chain: the iptables chain, for "mend".
    """

    kind: str
    container_pid: int
    container_ticks: int
    pid: int = 0
    start_ticks: int = 0
    chain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease in force.

    Attributes:
        id: the fault's.
        deadline_ns: on the monotonic clock.
        actions: what is to be taken back when it ends.
    """

    id: str
    deadline_ns: int
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What taking one action back came to: a note, or an error."""

    lease: str
    action: str
    note: str | None = None
    error: str | None = None


def lease_id(value: object) -> str:
    """Return the id in a lease argument: the bare id, or an object that has one.

    Raises:
        AgentError: it is no id.
    """
    if isinstance(value, Mapping):
        value = value.get("id")
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise AgentError(f"{value!r} is no lease id: 1 to 16 letters, digits, '-' and '_'.")
    return value


class Leases:
    """The leases in a folder.

    Args:
        folder: where they are kept; made if need be.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        (folder / "leases").mkdir(parents=True, exist_ok=True)
        (folder / "locks").mkdir(exist_ok=True)
        (folder / "answers").mkdir(exist_ok=True)

    def add(self, lease: object, actions: tuple[Action, ...]) -> None:
        """Put actions on a lease, opening it if it is new; call it before anything is broken.

        Args:
            lease: `{"id": …, "limit_s": …}`; the limit counts only for a new lease.
            actions: what is to be taken back.

        Raises:
            AgentError: the argument is no lease, or its limit no positive number.
        """
        name = lease_id(lease)
        limit_s = lease.get("limit_s") if isinstance(lease, Mapping) else None
        with self._locked(name):
            known = self.get(name)
            if known is None:
                if not isinstance(limit_s, int | float) or limit_s <= 0:
                    raise AgentError(f"The lease {name} has no limit_s above 0: {limit_s!r}.")
                # What an earlier lease of this id was asked, nobody will ask again.
                shutil.rmtree(self._folder / "answers" / name, ignore_errors=True)
                known = Lease(id=name, deadline_ns=time.monotonic_ns() + int(limit_s * 1e9))
            added = tuple(action for action in actions if action not in known.actions)
            self._store(replace(known, actions=known.actions + added))

    def get(self, name: str) -> Lease | None:
        """Return a lease, or None if it is not in force."""
        try:
            document: dict[str, Any] = json.loads(self._path(name).read_text())
        except FileNotFoundError:
            return None
        actions = tuple(Action(**action) for action in document["actions"])
        return Lease(id=name, deadline_ns=document["deadline_ns"], actions=actions)

    def all(self) -> list[Lease]:
        """Return every lease in force."""
        names = sorted(path.stem for path in (self._folder / "leases").glob("*.json"))
        return [lease for name in names if (lease := self.get(name)) is not None]

    def take_back(
        self, name: str, wanted: Callable[[Action], bool], undo: Callable[[Action], str | None]
    ) -> list[Healed]:
        """Take the wanted actions of a lease back, and end it when none is left.

        Args:
            name: the lease; one that is not in force has nothing to take back.
            wanted: which actions.
            undo: does it and returns a note or None; raises AgentError if it could not, and the
                action then stays on the lease.
        """
        with self._locked(name):
            lease = self.get(name)
            if lease is None:
                return []
            taken = [action for action in lease.actions if wanted(action)]
            left = [action for action in lease.actions if action not in taken]

            def attempt(action: Action) -> Healed:
                what = f"{action.kind} {action.chain or action.pid} of {action.container_pid}"
                try:
                    return Healed(lease=name, action=what, note=undo(action))
                except (AgentError, OSError) as error:
                    left.append(action)
                    return Healed(lease=name, action=what, error=str(error))

            done = in_parallel([partial(attempt, action) for action in taken])
            if left:
                self._store(replace(lease, actions=tuple(left)))
            else:
                self._path(name).unlink(missing_ok=True)
        return done

    def kept_answer(self, name: str, request: object) -> dict[str, Any] | None:
        """Return the answer that a request under this lease was given, or None if it is new."""
        try:
            answer: dict[str, Any] = json.loads(self._answer(name, request).read_text())
        except FileNotFoundError:
            return None
        return answer

    def keep_answer(self, name: str, request: object, answer: Mapping[str, Any]) -> None:
        """Keep the answer to a request, until a new lease of this id is opened."""
        path = self._answer(name, request)
        path.parent.mkdir(exist_ok=True)
        _write(path, json.dumps(answer))

    def _answer(self, name: str, request: object) -> Path:
        if not isinstance(request, str) or not _REQUEST.fullmatch(request):
            raise AgentError(f"{request!r} is no number of a request.")
        return self._folder / "answers" / name / f"{request}.json"

    def record(self, healed: list[Healed]) -> None:
        """Append what was healed without being asked to `healed.jsonl`."""
        with (self._folder / "healed.jsonl").open("a") as file:
            for entry in healed:
                file.write(json.dumps({"at_ns": time.monotonic_ns()} | asdict(entry)) + "\n")

    def _path(self, name: str) -> Path:
        return self._folder / "leases" / f"{name}.json"

    def _store(self, lease: Lease) -> None:
        _write(self._path(lease.id), json.dumps(asdict(lease)))

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with (self._folder / "locks" / name).open("w") as file:
            wait_for(lambda: _try_lock(file.fileno()), limit_s=LOCK_S, what=f"lease {name}")
            yield


def _write(path: Path, text: str) -> None:
    # Renaming is atomic: a reader sees the old file or the new one, never half of one.
    half = path.with_suffix(".half")
    half.write_text(text)
    half.rename(path)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
