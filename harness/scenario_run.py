"""A scenario as an experiment: its faults are dealt by the nemesis while clients work."""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, WaitTimeout
from harness.core.scenario import Scenario
from harness.core.wait import wait_until
from harness.core.workload import WORKLOADS, ClientSpec
from harness.nemesis import Nemesis, plan, plan_json
from harness.run_dir import Journal
from harness.stage import Stage

_STEADY_S = 60.0


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """Runs the clients of a scenario's workload while its schedule breaks the cluster."""

    scenario: Scenario

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.scenario.name

    @property
    def cluster(self) -> ClusterSpec:
        """What is started."""
        return self.scenario.cluster

    @property
    def contract(self) -> Contract:
        """What the producers are promised."""
        return self.scenario.contract

    @property
    def settle_s(self) -> float:
        """Bound on the time in which the cluster must be whole again after healing."""
        return self.scenario.settle_s

    def topics(self) -> tuple[TopicSpec, ...]:
        """Return the workload's topics."""
        return self.scenario.workload.topics(self.contract)

    def readers(self) -> tuple[ClientSpec, ...]:
        """Return the workload's final readers."""
        return self.scenario.workload.readers(self.contract)

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of a scenario."""
        clients = [*self.scenario.workload.clients(self.contract), *self.readers()]
        return {
            "scenario": self.scenario.name,
            "workload": WORKLOADS.name_of(self.scenario.workload),
            "provokes": sorted(self.scenario.provokes(self.contract)),
            "duration_s": self.scenario.duration_s,
            "available_within_s": self.scenario.available_within_s,
            "clients": [
                {
                    "process": client.process,
                    "role": client.role,
                    "mode": client.settings.get("mode"),
                    "isolation": _isolation_of(client),
                }
                for client in clients
            ],
        }

    def plan_json(self, seed: int) -> str:
        """Return the schedule that the seed gives."""
        return plan_json(self.scenario, seed, plan(self.scenario, seed))

    def carry_out(self, stage: Stage) -> None:
        """Start the clients, wait until they work, and break the cluster under them."""
        with stage.phase("steady"):
            stage.run_dir.update(origin_ns=time.monotonic_ns())
            stage.start_clients(self.scenario.workload.clients(self.contract))
            _await_steady(stage)
        self._break(stage)

    def _break(self, stage: Stage) -> None:
        steps = plan(self.scenario, stage.seed)
        journal = Journal(stage.run_dir.path / "faults.jsonl")
        nemesis = Nemesis(
            cluster=stage.cluster,
            journal=journal,
            seed=stage.seed,
            max_at_once=self.scenario.max_at_once,
            is_whole=lambda: stage.cluster.is_whole(stage.topics),
            tell=stage.progress.say,
        )
        failure: list[BaseException] = []

        def carry_out() -> None:
            try:
                nemesis.run(steps, stage.stop)
            except BaseException as error:  # noqa: BLE001 (raised again by the main thread)
                failure.append(error)

        with stage.phase("faults"):
            begin = time.monotonic()
            thread = threading.Thread(target=carry_out, name="nemesis")
            thread.start()
            try:
                while thread.is_alive() or time.monotonic() - begin < self.scenario.duration_s:
                    if stage.stop.wait(1.0):
                        break
                    stage.report_counts()
                    stage.note_failures()
            finally:
                if sys.exc_info()[0] is not None:
                    stage.stop.set()
                with stage.phase("heal"):
                    thread.join()
                    journal.close()
        if failure:
            raise failure[0]


def _isolation_of(client: ClientSpec) -> str | None:
    """Return what a client may read: only what is committed, or all; None if it does not read."""
    for name in ("config", "consume"):
        config = client.settings.get(name)
        if isinstance(config, Mapping) and "isolation.level" in config:
            return str(config["isolation.level"])
    return None


def _await_steady(stage: Stage) -> None:
    producers = [client for client in stage.clients if client.spec.role == "producer"]
    consumers = [client for client in stage.clients if client.spec.role == "consumer"]

    def is_steady() -> bool:
        stage.report_counts()
        for client in stage.clients:
            if failure := client.failure():
                raise ClusterBroken(failure)
        return all(client.counts.get("ok", 0) > 0 for client in producers) and (
            not consumers or sum(client.counts.get("polled", 0) for client in consumers) > 0
        )

    try:
        wait_until(
            is_steady, timeout_s=_STEADY_S, stop=stage.stop, interval_s=0.2,
            what="the first acknowledgement for every producer, and the first record polled",
        )  # fmt: skip
    except WaitTimeout as error:
        if not stage.stop.is_set():
            raise ClusterBroken(f"The cluster was ill before any fault: {error}") from error
