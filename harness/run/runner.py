"""The runner: one run from an empty machine to a sealed history."""

import logging
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from harness.cluster.metadata import Shortfall
from harness.cluster.pool import ClusterPool, RunCluster
from harness.core.client_library import ClientRuntime
from harness.core.clock import clock_name
from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.errors import KafkaChaosError, WaitTimeout
from harness.core.progress import Progress
from harness.core.run_dir import REPLICA_LIMIT_BYTES, SCHEMA, Journal, RunDir, write_atomically
from harness.core.wait import pause, wait_until
from harness.core.workload import ClientSpec
from harness.history.seal import seal
from harness.machine.client_packages import ensure_client
from harness.machine.versions import reject_unknown_versions
from harness.run.context import Phases, Run, RunContext
from harness.run.ended_brokers import EndedBrokers
from harness.run.monitor import Monitor
from harness.run.sampler import Sampler
from harness.run.watcher import Watcher

log = logging.getLogger(__name__)

KeepCluster = Literal["never", "failed", "always"]

_STEADY_S = 60.0
_NOBODY_ANSWERS_S = 10.0
_CATCH_UP_S = 2.0
_REFUSALS_EVERY_S = 10.0
_READERS_S = 600.0


@dataclass(slots=True)
class Runner:
    """Executes one run; what it learns goes into the run folder, and nowhere else.

    Attributes:
        run: what happens on the cluster: of a scenario, or of a claim.
        seed: draws the plan.
        store: the folder under which run folders lie.
        keep_cluster: whether the containers stay.
        replica_limit_mib: beyond so much in all, the brokers' logs are not copied, MiB.
        progress: who is told.
        stop: set from outside to end early: load stopped, everything healed, history sealed.
        pool: where the cluster comes from.
    """

    run: Run
    seed: int
    store: Path
    keep_cluster: KeepCluster = "never"
    replica_limit_mib: int = REPLICA_LIMIT_BYTES // 1024**2
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)
    pool: ClusterPool = field(default_factory=ClusterPool)
    _left_down: bool = False
    _ended_early: bool = False
    _is_whole: bool = True
    _reasons: list[str] = field(default_factory=list)
    _run_id: str = field(default_factory=lambda: secrets.token_hex(8))

    def execute(self) -> RunDir:
        """Execute the run and return its folder, the history sealed.

        Raises:
            UsageError: the plan cannot be made, or there is no such version of Kafka, or of the
                client; nothing was started, no folder made.
            EnvironmentBroken: likewise, where nobody answered who could tell.
            ClusterBroken: the cluster did not start, or was ill before any fault.
            HealFailed: a fault could not be taken back; the history is sealed all the same.
        """
        plan = self.run.plan_json(self.seed)
        reject_unknown_versions(self.run.cluster, self.run.client, say=self.progress.say)
        run_dir = RunDir.create(self.store, scenario=self.run.name, seed=self.seed)
        write_atomically(run_dir.path / "plan.json", plan)
        self._describe(run_dir)
        try:
            with ExitStack() as stack:
                self._execute(run_dir, stack)
        except BaseException as error:
            if isinstance(error, KafkaChaosError):
                self._reasons.append(str(error))
            run_dir.update(state="aborted", reasons=self._reasons, ended_ns=time.monotonic_ns())
            seal(run_dir.path)
            raise
        if self.stop.is_set():
            self._reasons.append("The run was interrupted before its plan was carried out.")
        elif self._ended_early:
            self._reasons.append("The run was ended before its plan was carried out.")
        run_dir.update(
            state="aborted" if self.stop.is_set() or self._ended_early else "complete",
            reasons=self._reasons,
            ended_ns=time.monotonic_ns(),
        )
        seal(run_dir.path)
        return run_dir

    def _execute(self, run_dir: RunDir, stack: ExitStack) -> None:
        topics = self.run.topics()
        names = [topic.name for topic in topics]
        phase = Phases(run_dir, self.progress)
        client, runtime = self.run.client, ClientRuntime()
        with phase("start"):
            if client is not None:
                runtime = ensure_client(client, say=self.progress.say)
            cluster = self.pool.acquire(self.run.cluster, run_dir, say=self.progress.say)
            stack.callback(self._dispose, cluster, phase)
            for topic in topics:
                cluster.create_topic(topic)
            cluster.await_full_isr(names, timeout_s=_STEADY_S)
            # Brokers of a user's own Compose file tell their version only now.
            run_dir.update(cluster_timing_s=cluster.timing_s, **_described(cluster.spec))
        timeline = stack.enter_context(closing(Journal(run_dir.path / "timeline.jsonl")))
        monitor = Monitor(cluster.metadata(), names, timeline)
        samples = stack.enter_context(closing(Journal(run_dir.path / "samples.jsonl")))
        sampler = Sampler(cluster, lambda: monitor.states, self.run.contract.min_isr, samples)
        refusals = Watcher("count of refusals", cluster.save_refusals, every_s=_REFUSALS_EVERY_S)
        for watcher in (monitor.watcher, sampler.watcher, refusals):
            watcher.start()
            stack.callback(self._stop_watching, watcher)
        _await_first_look(monitor, (sampler.watcher, refusals), topics)
        context = RunContext(
            cluster=cluster, run_dir=run_dir, run_id=self._run_id, seed=self.seed,
            topics=tuple(names), phase=phase, progress=self.progress, stop=self.stop,
            reasons=self._reasons, client=client, runtime=runtime,
        )  # fmt: skip
        # Clients go before the cluster does, whatever happens above.
        stack.callback(context.abandon_clients)
        self.run.carry_out(context)
        self._left_down = bool(context.left_down)
        self._ended_early = context.ended_early
        self._recover(context)
        self._final_reads(context)

    def _stop_watching(self, watcher: Watcher) -> None:
        watcher.stop()
        if watcher.failure:
            self._reasons.append(watcher.failure)

    def _recover(self, context: RunContext) -> None:
        with context.phase("recover"):
            ended = self._await_whole(context)
            serves = self._is_whole and context.await_working()
            context.report_counts()
            limit_s = self.run.contract.delivery_timeout_ms / 1000 + 20
            # What a cluster has not answered that had all its time to recover, it never answers.
            patience_s = None if serves else _NOBODY_ANSWERS_S
            context.stop_clients("producer", limit_s=limit_s, patience_s=patience_s)
            if any(client.is_running for client in context.clients):
                if not ended:
                    context.catch_up()
                # What was acknowledged last is given the time to be polled.
                pause(_CATCH_UP_S, self.stop)
                context.stop_clients("consumer", limit_s=limit_s)

    def _await_whole(self, context: RunContext) -> tuple[int, ...]:
        """Wait until the cluster is whole again, and record whether it is: a checker judges it.

        Returns:
            The node ids of brokers that have ended by themselves, for which it was not waited.
        """
        begin_ns = time.monotonic_ns()
        missing: Shortfall | None = None
        ended = EndedBrokers(context.cluster, context.left_down)
        try:
            context.cluster.await_full_isr(
                context.topics, timeout_s=self.run.full_isr_within_s, without=context.left_down,
                is_vain=ended.for_good,
            )  # fmt: skip
        except WaitTimeout:
            missing = context.cluster.shortfall(context.topics, without=context.left_down)
        # The wait may have ended between two looks.
        self._is_whole = missing is None or missing.is_whole
        short = sorted(missing.partitions.items()) if missing else []
        recovery = {
            "bound_s": self.run.full_isr_within_s,
            "from_ns": begin_ns,
            "to_ns": time.monotonic_ns(),
            "left_down": sorted(context.left_down),
            "whole": self._is_whole,
            "answered": missing is None or missing.answered,
            "unregistered": list(missing.unregistered) if missing else [],
            "partitions": [
                {"topic": topic, "partition": number, "leader": state.leader,
                 "isr": list(state.isr), "replicas": list(state.replicas)}
                for (topic, number), state in short
            ],
        }  # fmt: skip
        context.run_dir.update(recovery=recovery)
        if not self._is_whole:
            after_s = (time.monotonic_ns() - begin_ns) / 1e9
            why = f": node {', '.join(map(str, ended.nodes))} has ended" if ended.nodes else ""
            context.progress.say(f"The cluster is not whole {after_s:.0f} s after healing{why}.")
        return () if self._is_whole else ended.nodes

    def _final_reads(self, context: RunContext) -> None:
        with context.phase("final"):
            for reader in context.start_clients(self._readers(context)):
                if not reader.await_end(timeout_s=_READERS_S):
                    reader.kill()
                    context.note(
                        [f"Reader {reader.spec.process} did not end within {_READERS_S:g} s."]
                    )
            context.note_failures()

    def _readers(self, context: RunContext) -> list[ClientSpec]:
        """Return the final readers, each told where the logs end.

        Which partitions the cluster itself has goes into run.json: the plan may be wrong.
        """
        ends = {
            topic: {str(number): end for number, end in context.cluster.log_ends(topic).items()}
            for topic in context.topics
        }
        metadata = context.cluster.metadata()
        context.run_dir.update(
            partitions_at_end={
                topic: {
                    str(number): ends[topic].get(str(number))
                    for _, number in sorted(metadata.partitions(topic))
                }
                for topic in context.topics
            }
        )
        specs = []
        for spec in self.run.readers():
            known = ends.get(str(spec.settings.get("topic")), {})
            specs.append(replace(spec, settings={**spec.settings, "log_ends": known}))
        return specs

    # -- the folder --------------------------------------------------------------------------------

    def _describe(self, run_dir: RunDir) -> None:
        contract = self.run.contract
        run_dir.update(
            schema=SCHEMA,
            run=run_dir.name,
            run_id=self._run_id,
            seed=self.seed,
            command=self.run.again(self.store / run_dir.name, self.seed),
            started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            origin_ns=time.monotonic_ns(),
            clock=clock_name(),
            ended_ns=None,
            contract={**asdict(contract), "idempotence": contract.idempotent},
            **_described(self.run.cluster),
            **self.run.described(),
            topics=[
                {
                    "name": topic.name,
                    "partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                }
                for topic in self.run.topics()
            ],
            phases=[],
            versions=_versions(),
            state="running",
            reasons=[],
        )

    def _dispose(self, cluster: RunCluster, phase: Phases) -> None:
        """Keep what is on the brokers' disks, then give the cluster back, whatever happens."""
        with phase("stop"):
            try:
                cluster.save_processes()
                cluster.save_refusals()
                topics = {topic.name: topic.partitions for topic in self.run.topics()}
                cluster.copy_replicas(topics, limit_bytes=self.replica_limit_mib * 1024**2)
                cluster.save_logs()
            except Exception as error:
                # Whatever it is, it costs neither the verdict nor the removal of the cluster.
                log.exception("the brokers' files could not be kept")
                self.progress.say(f"Not all that the brokers wrote could be kept: {error}")
            finally:
                self._give_back(cluster)

    def _give_back(self, cluster: RunCluster) -> None:
        failed = bool(self._reasons) or not self._is_whole or sys.exc_info()[0] is not None
        if self.keep_cluster == "always" or (self.keep_cluster == "failed" and failed):
            self.progress.say(
                f"The cluster is kept at {cluster.bootstrap}; `kafka-chaos clean` removes it."
            )
            return
        is_sound = not failed and not self._left_down
        topics = [topic.name for topic in self.run.topics()]
        self.pool.release(cluster, topics, is_sound=is_sound, say=self.progress.say)


def _await_first_look(
    monitor: Monitor, others: Sequence[Watcher], topics: Sequence[TopicSpec]
) -> None:
    """Wait for the first answers: of the state that an earlier fault ends, nobody would know."""
    partitions = {(topic.name, number) for topic in topics for number in range(topic.partitions)}
    wait_until(
        lambda: (
            all(watcher.has_looked.is_set() for watcher in others)
            and (monitor.watcher.failure is not None or partitions <= monitor.states.keys())
        ),
        timeout_s=_STEADY_S,
        what="leader and ISR of every partition to be seen once",
    )


def _described(spec: ClusterSpec) -> dict[str, Any]:
    cluster = {**asdict(spec), "config": dict(spec.config), "metadata": spec.mode}
    return {"kafka": spec.kafka, "cluster": cluster}


def _versions() -> dict[str, str]:
    names = ("kafka-chaos", "confluent-kafka", "docker", "testcontainers", "pyspark")
    versions = {name: metadata.version(name) for name in names}
    return {**versions, "python": sys.version.split()[0]}
