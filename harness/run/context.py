"""The context of a run: its cluster, once that is up, its clients and its folder."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.cluster.pool import RunCluster
from harness.core.client_library import ClientLibrary, ClientRuntime
from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.contract import Contract
from harness.core.progress import Progress
from harness.core.run_dir import Journal, RunDir
from harness.core.workload import ClientSpec
from harness.run.client_process import ClientProcess, stop_all


class Phases:
    """The phases of a run, noted in run.json as they begin and end."""

    def __init__(self, run_dir: RunDir, progress: Progress) -> None:
        self._run_dir = run_dir
        self._progress = progress
        self._entries: list[dict[str, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Be in a phase."""
        entry: dict[str, Any] = {"name": name, "from_ns": time.monotonic_ns(), "to_ns": None}
        self._entries.append(entry)
        self._progress.phase(name)
        self._run_dir.update(phases=self._entries)
        try:
            yield
        finally:
            entry["to_ns"] = time.monotonic_ns()
            self._run_dir.update(phases=self._entries)


@dataclass(slots=True, kw_only=True)
class RunContext:
    """A cluster that is up, the clients on it, and the folder that all of it is written to.

    Attributes:
        cluster: where it happens.
        run_dir: where everything is written.
        run_id: 16 hex digits, in every record.
        seed: of the run.
        topics: the names of the topics under test.
        phase: enters a phase.
        progress: who is told.
        stop: set when the run is to end early.
        client: the library that client processes must have loaded; None: the harness's own.
        packages: the folder that holds it; None: that of the harness's own.
        ended_early: whether its plan was given up because of something that went wrong.
        reasons: why this run cannot be a pass, in sentences.
        clients: all client processes that were started.
        left_down: node ids of brokers that stay broken on purpose: nobody waits for them.
        await_working: called when the cluster is whole again, before producers are stopped; returns
            whether it serves them.
        catch_up: called when nobody sends any more, before consumers are stopped.
        at_end: called when the run is over, however it ended.
    """

    cluster: RunCluster
    run_dir: RunDir
    run_id: str
    seed: int
    topics: tuple[str, ...]
    phase: Phases
    progress: Progress
    stop: threading.Event
    client: ClientLibrary | None = None
    runtime: ClientRuntime = field(default_factory=ClientRuntime)
    ended_early: bool = False
    reasons: list[str] = field(default_factory=list)
    clients: list[ClientProcess] = field(default_factory=list)
    left_down: set[int] = field(default_factory=set)
    await_working: Callable[[], bool] = lambda: True
    catch_up: Callable[[], None] = lambda: None
    at_end: list[Callable[[], None]] = field(default_factory=list)

    def start_clients(self, specs: Sequence[ClientSpec]) -> list[ClientProcess]:
        """Start client processes, each with its own file of history.

        Raises:
            EnvironmentBroken: one of them runs another library than the one that was asked for.
        """
        started = []
        for spec in specs:
            settings = {
                **spec.settings,
                "process": spec.process,
                "role": spec.role,
                "run_id": self.run_id,
                "seed": self.seed,
                **self.cluster.access.to_json(),
                "history": str(self.run_dir.raw_history / f"process-{spec.process}.arrows"),
            }
            runtime = self.runtime
            if runtime.command and spec.role == "reader":
                # What lies in the log is told by a client that is not under test.
                runtime = ClientRuntime()
            started.append(ClientProcess(spec, settings, self.run_dir, runtime=runtime))
        self.clients += started
        if self.client is not None:
            for client in started:
                client.require_library(self.client)
        return started

    def report_counts(self) -> None:
        """Tell the sum of the clients' counts."""
        total: dict[str, int] = {}
        for client in self.clients:
            for key, value in client.counts.items():
                if isinstance(value, int) and not isinstance(value, bool) and key != "t_ns":
                    total[key] = total.get(key, 0) + value
        self.progress.counts(total)

    def note(self, sentences: Sequence[str]) -> None:
        """Add reasons why this run cannot be a pass."""
        self.reasons += [sentence for sentence in sentences if sentence not in self.reasons]

    def note_failures(self) -> bool:
        """Add a reason for each client that ended by itself; return whether one did."""
        failures = [failure for client in self.clients if (failure := client.failure())]
        self.note(failures)
        return bool(failures)

    def stop_clients(self, role: str, *, limit_s: float, patience_s: float | None = None) -> None:
        """Let all clients of a role finish; those that do not are killed, and noted.

        After `patience_s` none waits any more for what it has under way.
        """
        chosen = [c for c in self.clients if c.spec.role == role and not c.was_killed]
        self.note(stop_all(chosen, timeout_s=limit_s, patience_s=patience_s))

    def abandon_clients(self) -> None:
        """End what still runs: after a normal run no client does."""
        for end in self.at_end:
            end()
        left = [client for client in self.clients if client.is_running]
        self.note(stop_all(left, timeout_s=10.0))
        journal = Journal(self.run_dir.path / "clients.jsonl")
        for client in self.clients:
            journal.append(client.ending())
        journal.close()
        # All of them find the same packages.
        for client in self.clients:
            if client.library:
                self.run_dir.update(client_versions=client.library)
                break


class Run(Protocol):
    """What a runner executes: the run of a scenario, or of a claim."""

    @property
    def name(self) -> str:
        """Its name, as registered."""

    @property
    def cluster(self) -> ClusterSpec:
        """What is started."""

    @property
    def client(self) -> ClientLibrary | None:
        """The library of the client processes; None: the harness's own."""

    @property
    def contract(self) -> Contract:
        """What the producers are promised."""

    @property
    def full_isr_within_s(self) -> float:
        """Bound on the time in which the cluster must have full ISRs again after healing."""

    def topics(self) -> tuple[TopicSpec, ...]:
        """Return the topics to create."""

    def readers(self) -> tuple[ClientSpec, ...]:
        """Return the fresh clients of the final read."""

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of this kind of run."""

    def again(self, run: Path, seed: int) -> str:
        """Return the command line that repeats it.

        Args:
            run: the folder of the run that is repeated.
            seed: of that run.
        """

    def plan_json(self, seed: int) -> str:
        """Return the text of plan.json: the same bytes for the same seed.

        Raises:
            UsageError: the plan cannot be made.
        """

    def carry_out(self, context: RunContext) -> None:
        """Work on the cluster; when this returns, everything is healed.

        Raises:
            ClusterBroken: the cluster was ill before any fault.
            HealFailed: a fault could not be taken back.
        """
