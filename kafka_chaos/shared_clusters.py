"""Clusters that several tests share: kept between them, or broken behind all of them."""

import threading
from contextlib import ExitStack
from pathlib import Path

from harness.campaigns.configure import Overrides, configure
from harness.campaigns.described import split_calls
from harness.cluster.docker_cluster import PROBE_TOPIC, DockerCluster
from harness.core.cluster import ClusterSpec
from harness.core.errors import KafkaChaosError
from harness.core.progress import Progress, Say
from harness.core.scenario import Scenario
from harness.run.context import RunContext
from harness.run.open_run import OpenRun
from harness.run.runner import KeepCluster, Runner
from kafka_chaos.clusters import launch

_WHOLE_S = 120.0
_TARGETS = ("random", "controller")
"""Nobody knows the topics of somebody else's tests."""


class Clusters:
    """Clusters by what was asked for: each is started once, and removed at the end.

    Args:
        folder: of the files of all.
        keep_cluster: whether the containers stay.
        say: called with a sentence before each long step.
    """

    def __init__(self, folder: Path, *, keep_cluster: KeepCluster, say: Say) -> None:
        self._folder, self._keep_cluster, self._say = folder, keep_cluster, say
        self._stack = ExitStack()
        self._clusters: dict[ClusterSpec, DockerCluster] = {}

    def of(self, spec: ClusterSpec) -> DockerCluster:
        """Return a cluster that is whole, a new one if there is none of that shape yet.

        Raises:
            ClusterBroken: it did not start.
            WaitTimeout: it is not whole after what the test before did to it.
        """
        if spec in self._clusters:
            self._clusters[spec].await_full_isr([PROBE_TOPIC], timeout_s=_WHOLE_S)
        else:
            folder = self._folder / f"cluster-{len(self._clusters) + 1}"
            folder.mkdir(parents=True)
            self._clusters[spec] = self._stack.enter_context(
                launch(spec, folder=folder, keep_cluster=self._keep_cluster, say=self._say)
            )
        return self._clusters[spec]

    def close(self) -> None:
        """Remove them.

        Raises:
            ClusterBroken: something is left.
        """
        self._stack.close()


class BackgroundRun:
    """A cluster that is broken behind the back of whoever uses it, as `kafka-chaos up` does.

    Attributes:
        bootstrap: where it answers, `host:port,…`.
        folder: of the run, where its faults lie in faults.csv.
    """

    def __init__(
        self, faults: str, *, seed: int, store: Path, kafka: str | None = None, say: Say
    ) -> None:
        """Start it; return once the cluster answers.

        Args:
            faults: as `--faults` takes them; empty: nothing is broken.
            seed: draws the plan.
            store: where the run's folder lies.
            kafka: version; None is the default.
            say: called with sentences.

        Raises:
            UsageError: a fault is unknown.
            KafkaChaosError: the cluster did not start.
        """
        self.bootstrap = ""
        self.folder: Path | None = None
        self.seed = seed
        self._error: Exception | None = None
        self._stop, self._answers = threading.Event(), threading.Event()
        run = OpenRun(_scenario(faults, kafka), self._ready)
        runner = Runner(
            run=run, seed=seed, store=store, progress=Progress(say=say), stop=self._stop
        )
        self._thread = threading.Thread(target=self._carry_out, args=(runner,), name="chaos")
        self._thread.start()
        self._answers.wait()
        self._reject_failure()

    def close(self) -> None:
        """Heal, and remove the cluster.

        Raises:
            KafkaChaosError: the run failed, or something may still be broken.
        """
        self._stop.set()
        self._thread.join()
        self._reject_failure()

    def _ready(self, context: RunContext) -> None:
        self.bootstrap, self.folder = context.cluster.bootstrap, context.run_dir.path
        self._answers.set()

    def _carry_out(self, runner: Runner) -> None:
        try:
            runner.execute()
        except KafkaChaosError as error:
            self._error = error
        finally:
            self._answers.set()

    def _reject_failure(self) -> None:
        if self._error is not None:
            raise self._error


def _scenario(faults: str, kafka: str | None) -> Scenario:
    cluster = {"kafka": kafka} if kafka else {}
    dealt = split_calls(faults)
    if not dealt:
        return configure("up", Overrides(cluster=cluster, steps=()))
    return configure("up", Overrides(cluster=cluster, faults=dealt, targets=_TARGETS))
