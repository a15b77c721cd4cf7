"""The clusters that runs use: a new one for each run, or one that several runs share."""

from collections.abc import Collection
from dataclasses import dataclass

from harness.cluster.docker_cluster import PROBE_TOPIC, DockerCluster
from harness.cluster.launch import launch
from harness.cluster.outside_cluster import OutsideCluster, connect
from harness.core.cluster import ClusterSpec
from harness.core.errors import KafkaChaosError
from harness.core.progress import Say
from harness.core.run_dir import RunDir

RunCluster = DockerCluster | OutsideCluster
"""Where a run can happen."""


@dataclass(slots=True)
class ClusterPool:
    """Starts clusters for runs, and removes them after, or keeps one for the next run.

    One that runs already, outside Docker, is neither started nor removed.

    Runs do not disturb each other: each has a topic of its own, and a cluster is given to another
    run only if every fault in it was healed and every ISR in it is full.

    Attributes:
        keeps: whether a sound cluster is kept for the next run that wants one just like it.
    """

    keeps: bool = False
    _kept: DockerCluster | None = None
    _spec: ClusterSpec | None = None

    def acquire(self, spec: ClusterSpec, run_dir: RunDir, *, say: Say) -> RunCluster:
        """Return a cluster that is ready for work: the kept one if it is fit, else a new one.

        Raises:
            ClusterBroken: it did not start, or does not answer.
        """
        if spec.bootstrap is not None:
            return connect(spec, folder=run_dir.path, say=say)
        kept, self._kept = self._kept, None
        if kept is not None:
            if self._spec == spec and kept.has_full_isr([PROBE_TOPIC]):
                say("The cluster of the run before is used again.")
                kept.move_to(run_dir.path)
                return kept
            remove(kept, say)
        self._spec = spec
        return launch(spec, run=run_dir.name, folder=run_dir.path, say=say)

    def release(
        self, cluster: RunCluster, topics: Collection[str], *, is_sound: bool, say: Say
    ) -> None:
        """Take back a cluster that a run no longer needs, to keep it or to remove it.

        Args:
            cluster: one that `acquire` returned.
            topics: those of the run; they are deleted, so that a kept cluster's disks do not fill.
            is_sound: whether every fault in it was healed, and all its brokers run.
            say: is told if something was left behind.
        """
        if self.keeps and is_sound and not isinstance(cluster, OutsideCluster):
            try:
                cluster.agent.heal_all()
                cluster.admin.delete_topics(topics)
            except KafkaChaosError as error:
                say(f"The cluster is not used again: {error}")
            else:
                self._kept = cluster
                return
        remove(cluster, say)

    def close(self, *, say: Say) -> None:
        """Remove the cluster that is kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            remove(kept, say)


def remove(cluster: RunCluster, say: Say) -> None:
    """Remove a cluster; whoever it belongs to is told of what stays, and the run goes on."""
    try:
        cluster.shut_down()
    except KafkaChaosError as error:
        say(f"Something was left behind: {error} Use `kafka-chaos clean`.")
