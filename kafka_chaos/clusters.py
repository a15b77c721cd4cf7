"""Clusters for programs and tests: started, broken a fault at a time, and removed."""

import logging
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch as start_cluster
from harness.core.cluster import Broker, Cluster, ClusterSpec, Lease
from harness.core.errors import WaitTimeout
from harness.core.fault import FAULTS, Evidence, Fault, Target
from harness.core.progress import Say
from harness.core.wait import wait_until
from harness.run.runner import KeepCluster

_LOG = logging.getLogger(__name__)
_LEASE_MARGIN_S = 60.0
_VICTIMS_S = 30.0
"""Any broker may be asked who leads, and they hear of it one after the other."""


@contextmanager
def launch(
    spec: ClusterSpec | None = None,
    *,
    folder: Path | str | None = None,
    keep_cluster: KeepCluster = "never",
    say: Say = _LOG.info,
) -> Iterator[DockerCluster]:
    """Start a cluster in Docker, and remove it when the block ends.

    Args:
        spec: what to start; None is three brokers of the default version.
        folder: where the Compose file and, at the end, the nodes' logs are written; None is a
            temporary folder that is removed with the cluster.
        keep_cluster: "failed" leaves the cluster running if the block ends with an error,
            "always" in any case; `kafka-chaos clean` removes it.
        say: called with a sentence before each long step.

    Yields:
        The cluster, ready for work: its brokers are registered, and a topic could be created.

    Raises:
        ClusterBroken: the cluster did not start, or could not be removed.
        EnvironmentBroken: there is no Docker engine, or an image could not be built.
    """
    name = f"launch-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-chaos-"))
        cluster = start_cluster(spec or ClusterSpec(), run=name, folder=Path(folder), say=say)
        failed = True
        try:
            yield cluster
            failed = False
        finally:
            if keep_cluster == "always" or (failed and keep_cluster == "failed"):
                say(f"The cluster is kept: {cluster.bootstrap} (kafka-chaos clean removes it).")
            else:
                stack.callback(cluster.shut_down)
            cluster.save_logs()


class Chaos:
    """Breaks one cluster, a fault at a time, around a program's own code.

    Args:
        cluster: a running cluster.
        seed: draws victims where a target leaves a choice; the same seed draws the same ones.

    Attributes:
        evidence: what witnesses saw, an injection and a healing for each fault, in order.
    """

    def __init__(self, cluster: Cluster, seed: int | str) -> None:
        self._cluster = cluster
        self._random = Random(seed)  # noqa: S311 (victims, not secrets)
        self._count = 0
        self.evidence: list[Evidence] = []

    @contextmanager
    def __call__(
        self, fault: Fault | str, target: Target | Broker, *, hold_s: float = 10.0
    ) -> Iterator[tuple[Broker, ...]]:
        """Inject on entering, heal on leaving, whatever happens in between.

        Args:
            fault: a fault, or the name of one with its defaults.
            target: who is hit: a target, or a broker.
            hold_s: how long the block is expected to take at most, seconds; the agent heals by
                itself a minute later.

        Yields:
            The victims.

        Raises:
            AssertionError: there is nobody to hit, or the fault had no witness: whatever the
                block shows, it was not shown under this fault.
            UsageError: there is no fault of that name.
        """
        chosen = FAULTS[fault]() if isinstance(fault, str) else fault
        victims = (target,) if isinstance(target, Broker) else self._chosen_by(target)
        self._count += 1
        lease = Lease(
            fault_id=f"chaos-{self._count}", hold_s=hold_s, limit_s=hold_s + _LEASE_MARGIN_S
        )
        cluster = self._cluster.leased(lease)
        try:
            self._add(chosen.inject(cluster, victims))
            yield victims
        finally:
            healed = chosen.heal(cluster, victims)
        self._add(healed)

    def _chosen_by(self, target: Target) -> tuple[Broker, ...]:
        try:
            return wait_until(
                lambda: tuple(target.choose(self._cluster, self._random)),
                timeout_s=_VICTIMS_S,
                what=f"somebody whom {target} names",
            )
        except WaitTimeout as error:
            raise AssertionError(f"{target} names nobody to hit now.") from error

    def _add(self, evidence: Evidence) -> None:
        self.evidence.append(evidence)
        if not evidence.observed:
            raise AssertionError(f"{evidence.phase} has no witness: {dict(evidence.details)}")
