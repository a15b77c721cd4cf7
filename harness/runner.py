"""The runner: one experiment from an empty machine to a history."""

import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from harness.clients import ClientProcess, stop_all
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken, KafkaChaosError, WaitTimeout
from harness.core.scenario import Scenario, Step
from harness.core.wait import pause, wait_until
from harness.core.workload import ClientSpec
from harness.docker_cluster import DockerCluster
from harness.history_seal import seal
from harness.monitor import Monitor
from harness.nemesis import Nemesis, plan, plan_json
from harness.run_dir import SCHEMA, Journal, RunDir, write_atomically

log = logging.getLogger(__name__)

KeepCluster = Literal["never", "failed", "always"]

_STEADY_S = 60.0
_CATCH_UP_S = 2.0
_READERS_S = 600.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Who is told how a run goes on.

    Attributes:
        phase: called with the name of each phase as it begins.
        say: called with sentences.
        counts: called about once a second with the clients' counts, summed.
    """

    phase: Callable[[str], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    counts: Callable[[dict[str, int]], None] = lambda _: None


@dataclass(slots=True)
class Runner:
    """Runs one scenario; what it learns goes into the run folder, and nowhere else.

    Attributes:
        scenario: what is run.
        seed: draws the plan.
        store: the folder under which run folders lie.
        command: the command line that repeats this run.
        keep_cluster: whether the containers stay.
        progress: who is told.
        stop: set from outside to end early: load stopped, everything healed, history sealed.
    """

    scenario: Scenario
    seed: int
    store: Path
    command: str = ""
    keep_cluster: KeepCluster = "never"
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)
    _reasons: list[str] = field(default_factory=list)
    _phases: list[dict[str, Any]] = field(default_factory=list)
    _clients: list[ClientProcess] = field(default_factory=list)
    _run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    _run_dir: RunDir = field(init=False)

    def run(self) -> RunDir:
        """Run the experiment and return its folder, the history sealed.

        Raises:
            UsageError: the plan cannot be made; nothing was started, no folder made.
            ClusterBroken: the cluster did not start, or was ill before any fault.
            HealFailed: a fault could not be taken back; the history is sealed all the same.
        """
        steps = plan(self.scenario, self.seed)
        run_dir = RunDir.create(self.store, scenario=self.scenario.name, seed=self.seed)
        write_atomically(run_dir.path / "plan.json", plan_json(self.scenario, self.seed, steps))
        self._describe(run_dir)
        try:
            with ExitStack() as stack:
                self._experiment(run_dir, steps, stack)
        except BaseException as error:
            if isinstance(error, KafkaChaosError):
                self._reasons.append(str(error))
            run_dir.update(state="aborted", reasons=self._reasons, ended_ns=time.monotonic_ns())
            seal(run_dir.path)
            raise
        if self.stop.is_set():
            self._reasons.append("The run was interrupted before its plan was carried out.")
        run_dir.update(
            state="aborted" if self.stop.is_set() else "complete",
            reasons=self._reasons,
            ended_ns=time.monotonic_ns(),
        )
        seal(run_dir.path)
        return run_dir

    def _experiment(self, run_dir: RunDir, steps: Sequence[Step], stack: ExitStack) -> None:
        topics = self.scenario.workload.topics(self.scenario.contract)
        names = [topic.name for topic in topics]
        with self._phase("start", run_dir):
            cluster = DockerCluster.launch(
                self.scenario.cluster,
                run=run_dir.name,
                folder=run_dir.path,
                say=self.progress.say,
            )
            stack.callback(self._dispose, cluster, run_dir)
            for topic in topics:
                cluster.admin.create_topic(topic)
            cluster.await_full_isr(names, timeout_s=_STEADY_S)
            # Brokers of a user's own Compose file tell their version only now.
            run_dir.update(cluster_timing_s=cluster.timing_s, **_described(cluster.spec))
        timeline = Journal(run_dir.path / "timeline.jsonl")
        stack.callback(timeline.close)
        monitor = Monitor(cluster.bootstrap, names, timeline)
        monitor.start()
        stack.callback(monitor.stop)
        # Clients go before the cluster does, whatever happens above.
        stack.callback(self._abandon_clients)
        with self._phase("steady", run_dir):
            run_dir.update(origin_ns=time.monotonic_ns())
            self._start_clients(self.scenario.workload.clients(self.scenario.contract), cluster)
            self._await_steady()
        self._break(run_dir, cluster, steps, names)
        self._settle(run_dir, cluster, names)
        self._final_reads(run_dir, cluster)

    def _break(
        self, run_dir: RunDir, cluster: DockerCluster, steps: Sequence[Step], topics: list[str]
    ) -> None:
        journal = Journal(run_dir.path / "faults.jsonl")
        nemesis = Nemesis(
            cluster=cluster,
            journal=journal,
            seed=self.seed,
            max_at_once=self.scenario.max_at_once,
            is_whole=lambda: cluster.is_whole(topics),
            tell=self.progress.say,
        )
        failure: list[BaseException] = []

        def carry_out() -> None:
            try:
                nemesis.run(steps, self.stop)
            except BaseException as error:  # noqa: BLE001 (raised again by the main thread)
                failure.append(error)

        with self._phase("faults", run_dir):
            begin = time.monotonic()
            thread = threading.Thread(target=carry_out, name="nemesis")
            thread.start()
            try:
                while thread.is_alive() or time.monotonic() - begin < self.scenario.duration_s:
                    if self.stop.wait(1.0):
                        break
                    self._report_counts()
                    self._note_failures()
            finally:
                if sys.exc_info()[0] is not None:
                    self.stop.set()
                with self._phase("heal", run_dir):
                    thread.join()
                    journal.close()
        if failure:
            raise failure[0]

    def _settle(self, run_dir: RunDir, cluster: DockerCluster, topics: list[str]) -> None:
        with self._phase("recover", run_dir):
            try:
                cluster.await_full_isr(topics, timeout_s=self.scenario.settle_s)
            except WaitTimeout as error:
                self._reasons.append(f"The cluster was not whole again after healing: {error}")
            self._report_counts()
            limit_s = self.scenario.contract.delivery_timeout_ms / 1000 + 20
            for role in ("producer", "consumer"):
                clients = [client for client in self._clients if client.spec.role == role]
                if role == "consumer":
                    # What was acknowledged last is given the time to be polled.
                    pause(_CATCH_UP_S, self.stop)
                self._note(stop_all(clients, timeout_s=limit_s))

    def _final_reads(self, run_dir: RunDir, cluster: DockerCluster) -> None:
        with self._phase("final", run_dir):
            specs = self.scenario.workload.readers(self.scenario.contract)
            readers = self._start_clients(specs, cluster)
            for reader in readers:
                if not reader.await_end(timeout_s=_READERS_S):
                    reader.kill()
                    self._reasons.append(
                        f"Reader {reader.spec.process} did not end within {_READERS_S:g} s."
                    )
            self._note_failures()

    # -- clients -----------------------------------------------------------------------------------

    def _start_clients(
        self, specs: Sequence[ClientSpec], cluster: DockerCluster
    ) -> list[ClientProcess]:
        started = []
        for spec in specs:
            settings = {
                **spec.settings,
                "process": spec.process,
                "role": spec.role,
                "run_id": self._run_id,
                "bootstrap": cluster.bootstrap,
                "history": str(self._run_dir.raw_history / f"process-{spec.process}.arrows"),
            }
            started.append(ClientProcess(spec, settings, self._run_dir))
        self._clients += started
        return started

    def _await_steady(self) -> None:
        producers = [client for client in self._clients if client.spec.role == "producer"]
        consumers = [client for client in self._clients if client.spec.role == "consumer"]

        def is_steady() -> bool:
            self._report_counts()
            for client in self._clients:
                if failure := client.failure():
                    raise ClusterBroken(failure)
            return all(client.counts.get("ok", 0) > 0 for client in producers) and (
                not consumers or sum(client.counts.get("polled", 0) for client in consumers) > 0
            )

        try:
            wait_until(
                is_steady, timeout_s=_STEADY_S, stop=self.stop, interval_s=0.2,
                what="the first acknowledgement for every producer, and the first record polled",
            )  # fmt: skip
        except WaitTimeout as error:
            if not self.stop.is_set():
                raise ClusterBroken(f"The cluster was ill before any fault: {error}") from error

    def _report_counts(self) -> None:
        total: dict[str, int] = {}
        for client in self._clients:
            for key, value in client.counts.items():
                if isinstance(value, int) and not isinstance(value, bool) and key != "t_ns":
                    total[key] = total.get(key, 0) + value
        self.progress.counts(total)

    def _note_failures(self) -> None:
        self._note([failure for client in self._clients if (failure := client.failure())])

    def _note(self, sentences: Sequence[str]) -> None:
        self._reasons += [sentence for sentence in sentences if sentence not in self._reasons]

    def _abandon_clients(self) -> None:
        """End what still runs: after a normal run nothing does."""
        left = [client for client in self._clients if client.is_running]
        self._note(stop_all(left, timeout_s=10.0))

    # -- the folder --------------------------------------------------------------------------------

    def _describe(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        scenario, contract = self.scenario, self.scenario.contract
        clients = [*scenario.workload.clients(contract), *scenario.workload.readers(contract)]
        run_dir.update(
            schema=SCHEMA,
            run=run_dir.name,
            run_id=self._run_id,
            scenario=scenario.name,
            seed=self.seed,
            command=self.command,
            started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            origin_ns=time.monotonic_ns(),
            ended_ns=None,
            contract={**asdict(contract), "idempotence": contract.idempotent},
            **_described(scenario.cluster),
            provokes=sorted(scenario.provokes(contract)),
            duration_s=scenario.duration_s,
            topics=[
                {
                    "name": topic.name,
                    "partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                }
                for topic in scenario.workload.topics(contract)
            ],
            clients=[
                {
                    "process": client.process,
                    "role": client.role,
                    "mode": client.settings.get("mode"),
                }
                for client in clients
            ],
            phases=[],
            versions=_versions(),
            state="running",
            reasons=[],
        )

    @contextmanager
    def _phase(self, name: str, run_dir: RunDir) -> Iterator[None]:
        entry: dict[str, Any] = {"name": name, "from_ns": time.monotonic_ns(), "to_ns": None}
        self._phases.append(entry)
        self.progress.phase(name)
        run_dir.update(phases=self._phases)
        try:
            yield
        finally:
            entry["to_ns"] = time.monotonic_ns()
            run_dir.update(phases=self._phases)

    def _dispose(self, cluster: DockerCluster, run_dir: RunDir) -> None:
        """Keep the logs, then remove the cluster; neither may cost the verdict."""
        with self._phase("stop", run_dir):
            cluster.save_logs(run_dir.path / "cluster")
            failed = bool(self._reasons) or sys.exc_info()[0] is not None
            if self.keep_cluster == "always" or (self.keep_cluster == "failed" and failed):
                self.progress.say(
                    f"The cluster is kept at {cluster.bootstrap}; `kafka-chaos clean` removes it."
                )
                return
            try:
                cluster.shut_down()
            except ClusterBroken as error:
                self.progress.say(f"Something was left behind: {error} Use `kafka-chaos clean`.")


def _described(spec: ClusterSpec) -> dict[str, Any]:
    return {"kafka": spec.kafka, "cluster": {**asdict(spec), "config": dict(spec.config)}}


def _versions() -> dict[str, str]:
    names = ("kafka-chaos", "confluent-kafka", "docker", "testcontainers", "pyspark")
    found = {name: metadata.version(name) for name in names}
    return {**found, "python": sys.version.split()[0]}
