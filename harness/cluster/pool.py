"""Who gives clusters to runs: a new one each time, or the one before if it is as good as new."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.cluster.docker_cluster import DockerCluster
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken
from harness.core.progress import Say
from harness.core.run_dir import RunDir

log = logging.getLogger(__name__)


class Lender(Protocol):
    """Gives clusters to runs, and takes them back."""

    def lend(self, spec: ClusterSpec, run_dir: RunDir, *, say: Say) -> DockerCluster:
        """Return a cluster that is ready for work.

        Raises:
            ClusterBroken: it did not start.
        """
        ...

    def take_back(self, cluster: DockerCluster, *, is_sound: bool, say: Say) -> None:
        """Take a cluster that a run no longer needs.

        Args:
            cluster: as it was lent.
            is_sound: whether everything in it was healed, and all its brokers run.
            say: is told if something was left behind.
        """
        ...


class LaunchEach:
    """Starts a cluster for each run, and removes it after."""

    def lend(self, spec: ClusterSpec, run_dir: RunDir, *, say: Say) -> DockerCluster:
        """Start a cluster."""
        return DockerCluster.launch(spec, run=run_dir.name, folder=run_dir.path, say=say)

    def take_back(self, cluster: DockerCluster, *, is_sound: bool, say: Say) -> None:
        """Remove it."""
        del is_sound
        remove(cluster, say)


@dataclass(slots=True)
class KeepOne:
    """Keeps the cluster of the run before, for a run that wants one just like it.

    Runs do not disturb each other: each has a topic of its own, and what is not whole again is not
    lent again.
    """

    _kept: DockerCluster | None = None
    _spec: ClusterSpec | None = None

    def lend(self, spec: ClusterSpec, run_dir: RunDir, *, say: Say) -> DockerCluster:
        """Return the kept cluster if it is of this kind and whole, else start one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            if self._spec == spec and kept.is_whole([kept.probe_topic]):
                say("The cluster of the run before is used again.")
                kept.move_to(run_dir.path)
                return kept
            remove(kept, say)
        self._spec = spec
        return LaunchEach().lend(spec, run_dir, say=say)

    def take_back(self, cluster: DockerCluster, *, is_sound: bool, say: Say) -> None:
        """Keep it if it is sound, else remove it."""
        if is_sound:
            try:
                cluster.agent.heal_all()
            except ClusterBroken as error:
                say(f"The cluster is not used again: {error}")
            else:
                self._kept = cluster
                return
        remove(cluster, say)

    def close(self, *, say: Callable[[str], None]) -> None:
        """Remove what is kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            remove(kept, say)


def remove(cluster: DockerCluster, say: Say) -> None:
    """Remove a cluster; what is left behind is told, and costs nobody the verdict."""
    try:
        cluster.shut_down()
    except ClusterBroken as error:
        say(f"Something was left behind: {error} Use `kafka-chaos clean`.")
