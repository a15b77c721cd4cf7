"""Client processes: started, watched, stopped."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.core.client_library import CLIENT_COMMAND, ClientLibrary, ClientRuntime
from harness.core.errors import ClusterBroken, EnvironmentBroken, WaitTimeout
from harness.core.run_dir import RunDir, write_atomically
from harness.core.wait import wait_until
from harness.core.workload import ClientSpec

log = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]
_LOADED_S = 120.0
"""The longest that a client may take to say which library it runs, seconds."""


class ClientProcess:
    """One client of the workload, in a process of its own.

    The client writes its history by itself and reports counts once a second. We hold its standard
    input: a line `stop` asks it to end, and the end of the input tells it that we are gone, so a
    client never outlives its harness.

    Args:
        spec: which client.
        settings: all that it is told.
        run_dir: the run it belongs to.
        runtime: what it needs to run another library than ours.

    Attributes:
        library: the versions of confluent-kafka and librdkafka that it says it has loaded; empty
            until it has said so, and where it runs none.
    """

    def __init__(
        self,
        spec: ClientSpec,
        settings: dict[str, Any],
        run_dir: RunDir,
        *,
        runtime: ClientRuntime | None = None,
    ) -> None:
        self.spec = spec
        self.library: dict[str, str] = {}
        self.counts: dict[str, Any] = {}
        self._orders = 0
        self._replies: dict[int, dict[str, Any]] = {}
        name = f"process-{spec.process}"
        self.log_file = run_dir.path / "clients" / f"{name}.log"
        settings_file = run_dir.path / "clients" / f"{name}.json"
        write_atomically(settings_file, json.dumps(settings, indent=2) + "\n")
        self._runtime = runtime or ClientRuntime()
        stand_in = ["workloads.foreign_client"] if self._runtime.command else []
        with self.log_file.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                [sys.executable, "-m", *stand_in, spec.module, str(settings_file)],
                cwd=_ROOT,
                env=_environment(self._runtime),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # A session of its own: Ctrl-C on the terminal is for the harness to handle.
                start_new_session=True,
            )
        self.was_asked_to_stop = False
        self.was_killed = False
        self.ended_ns: int | None = None
        assert self._process.stdout  # noqa: S101 (follows from PIPE above)
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), daemon=True, name=name
        )
        self._listener.start()

    def _listen(self, lines: IO[bytes]) -> None:
        for line in lines:
            try:
                counts = json.loads(line)
            except json.JSONDecodeError:
                log.warning("%s said %r", self.log_file.stem, line)
                continue
            if "library" in counts:
                self.library = counts["library"]
            elif "reply" in counts:
                self._replies[counts.pop("reply")] = counts
            else:
                self.counts = {**self.counts, **counts}
        # A process closes its output when it ends.
        self.ended_ns = time.monotonic_ns()

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended: 0 or more by itself, -n by signal n; None while it is alive."""
        return self._process.poll()

    def ending(self) -> dict[str, Any]:
        """Return how it ended, a line of clients.jsonl."""
        return {
            "event": "ended",
            "time_ns": self.ended_ns,
            "process": self.spec.process,
            "role": self.spec.role,
            "exit_code": self.exit_code,
            "asked_to_stop": self.was_asked_to_stop,
            "killed": self.was_killed,
            "library": self.library,
        }

    def require_library(self, wanted: ClientLibrary) -> None:
        """Wait until the client says which library it runs, and accept only the one wanted.

        A verdict would be about another client otherwise.

        Raises:
            EnvironmentBroken: it runs another one, or ended before it said so.
            WaitTimeout: it does not say so.
        """
        wait_until(
            lambda: self.library or self.ended_ns is not None,
            timeout_s=_LOADED_S,
            what=f"client {self.spec.process} to say which library it runs",
            interval_s=0.02,
        )
        who = f"Client {self.spec.process} ({self.spec.role})"
        if not self.library:
            raise EnvironmentBroken(
                f"{who} ended before it said which library it runs, and {wanted} was asked for: "
                f"see clients/{self.log_file.name}."
            )
        if self._runtime.command:
            told = self.library.get("java", wanted.version)
            if wanted.kind == "java" and told != wanted.version:
                raise EnvironmentBroken(f"{who} runs {self.library}, and {wanted} was asked for.")
            return
        loaded = self.library["confluent-kafka"]
        if wanted.kind == "librdkafka" and loaded != wanted.version:
            raise EnvironmentBroken(
                f"{who} runs confluent-kafka {loaded}, and {wanted} was asked for: look for what "
                "puts another one on Python's path, such as a sitecustomize.py."
            )

    def failure(self) -> str | None:
        """Return a sentence if the client ended otherwise than it was asked to, else None."""
        code = self._process.poll()
        if (
            code is None
            or self.was_killed
            or (code == 0 and (self.was_asked_to_stop or self.spec.role == "reader"))
        ):
            return None
        return (
            f"Client {self.spec.process} ({self.spec.role}) ended by itself with exit code {code}: "
            f"see clients/{self.log_file.name}."
        )

    def order(self, what: Mapping[str, Any]) -> int:
        """Give the client an order, one JSON line, and return its number; returns at once.

        Raises:
            ClusterBroken: the client has ended.
        """
        self._orders += 1
        if not self._tell(json.dumps({**what, "order": self._orders})):
            raise ClusterBroken(
                f"Client {self.spec.process} has ended, see clients/{self.log_file.name}: "
                f"it cannot {what.get('do')}."
            )
        return self._orders

    def _tell(self, line: str) -> bool:
        """Write a line to the client; return False if it has ended."""
        assert self._process.stdin  # noqa: S101 (follows from PIPE)
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            # ValueError: its end was waited for, and the pipe closed.
            return False
        return True

    def reply(self, order: int) -> dict[str, Any] | None:
        """Return what the client has answered to an order, or None as long as it has not."""
        return self._replies.get(order)

    def ask_to_stop(self) -> None:
        """Ask the client to finish what it began and to end; returns at once."""
        self.was_asked_to_stop = True
        self._tell("stop")

    def hurry(self) -> None:
        """Have the client end as one that nobody listens to any more: without further waiting."""
        assert self._process.stdin  # noqa: S101 (follows from PIPE)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def await_end(self, *, timeout_s: float) -> bool:
        """Wait for the client to end; return whether it did."""
        try:
            wait_until(
                lambda: not self.is_running,
                timeout_s=timeout_s,
                what=f"client {self.spec.process}",
            )
        except WaitTimeout:
            return False
        self._release()
        return True

    def kill(self) -> None:
        """SIGKILL the client; its history stays readable, what was pending is INFO."""
        self.was_killed = True
        self._process.kill()
        self._process.wait(timeout=10)
        self._release()

    def _release(self) -> None:
        """Hear what the ended process still said, and close its pipes."""
        self._listener.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _environment(runtime: ClientRuntime) -> dict[str, str]:
    """Return the variables of a client that runs another library."""
    variables = dict(os.environ)
    if runtime.packages is not None:
        others = [variables["PYTHONPATH"]] if variables.get("PYTHONPATH") else []
        variables["PYTHONPATH"] = os.pathsep.join([str(runtime.packages), *others])
    if runtime.command:
        variables[CLIENT_COMMAND] = json.dumps(runtime.command)
    return variables


def stop_all(
    clients: Sequence[ClientProcess], *, timeout_s: float, patience_s: float | None = None
) -> list[str]:
    """Stop clients together; return a sentence for each that had to be killed or had failed.

    Args:
        clients: those to be stopped.
        timeout_s: after which each is killed.
        patience_s: after which none is to wait any more for what it has under way, whose outcome
            stays unknown; None: as long as it likes.
    """
    failures = [failure for client in clients if (failure := client.failure())]
    for client in clients:
        client.ask_to_stop()
    if patience_s is not None:
        last_s = time.monotonic() + patience_s
        for client in clients:
            if not client.await_end(timeout_s=max(0.0, last_s - time.monotonic())):
                client.hurry()
    for client in clients:
        if not client.await_end(timeout_s=timeout_s):
            client.kill()
            failures.append(
                f"Client {client.spec.process} ({client.spec.role}) did not end within "
                f"{timeout_s:g} s and was killed: what it had under way is indeterminate."
            )
        elif (failure := client.failure()) and failure not in failures:
            failures.append(failure)
    return failures
