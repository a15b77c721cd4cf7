"""Chaos inside pytest: a cluster, faults as context managers, scenarios as tests.

Light to import: nothing heavy is loaded before a test asks for it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from random import Random

    from harness.campaigns.claim_result import Trial
    from harness.campaigns.conduct import RunResult
    from harness.cluster.docker_cluster import DockerCluster
    from harness.cluster.pool import ClusterPool
    from harness.core.cluster import Broker, ClusterSpec
    from harness.core.fault import Evidence, Fault, Target

_MARKERS = (
    "docker: needs a Docker engine; skipped without one, failed without one under CI",
    "nightly: longer than five minutes; run with -m nightly",
    "chaos(brokers=3, kafka=None, controllers=0, heap_mib=256, config={}): "
    "the cluster that the fixture kafka_cluster brings up for this test",
)
_CLUSTER_KEYS = frozenset({"brokers", "kafka", "controllers", "heap_mib", "config", "image"})
_LEASE_MARGIN_S = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each has an environment variable as its default."""
    group = parser.getgroup("kafka-chaos")
    group.addoption(
        "--kafka-version", default=os.environ.get("KAFKA_CHAOS_KAFKA"), metavar="V",
        help="version of Apache Kafka for clusters that do not name one",
    )  # fmt: skip
    group.addoption(
        "--chaos-seed", type=int, default=os.environ.get("KAFKA_CHAOS_SEED"), metavar="N",
        help="draws plans and victims; default: a new one, printed in the header",
    )  # fmt: skip
    group.addoption(
        "--chaos-store", default=os.environ.get("KAFKA_CHAOS_STORE", "runs"), metavar="DIR",
        help="where run folders lie (runs)",
    )  # fmt: skip
    group.addoption(
        "--keep-cluster", choices=("never", "failed", "always"), default="never",
        help="whether clusters stay after their test (never)",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and draw the seed of the session."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("--chaos-seed") is None:
        config.option.chaos_seed = secrets.randbelow(1_000_000)


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed, so that a failure can be repeated."""
    return f"kafka-chaos: --chaos-seed={config.getoption('--chaos-seed')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject marker arguments that nobody reads; leave nightly tests out unless asked for."""
    wants_nightly = "nightly" in (config.getoption("-m") or "")
    for item in items:
        for marker in item.iter_markers("chaos"):
            unknown = sorted(set(marker.kwargs) - _CLUSTER_KEYS)
            if unknown or marker.args:
                raise pytest.UsageError(
                    f"{item.nodeid}: @pytest.mark.chaos takes {', '.join(sorted(_CLUSTER_KEYS))}; "
                    f"not {', '.join(unknown) or 'positional arguments'}."
                )
        if item.get_closest_marker("nightly") and not wants_nightly:
            item.add_marker(pytest.mark.skip(reason="longer than five minutes: run -m nightly"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need Docker where there is none; under CI that is a failure."""
    needs_docker = item.get_closest_marker("docker") or "kafka_cluster" in getattr(
        item, "fixturenames", ()
    )
    if not needs_docker:
        return
    reason = _engine_is_missing()
    if reason and os.environ.get("CI"):
        pytest.fail(f"{reason} Under CI this test must run.", pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember the outcome, for clusters that are kept only after a failure."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


_FAILED = pytest.StashKey[bool]()


def _engine_is_missing() -> str | None:
    from harness.cluster.engine import connect
    from harness.core.errors import EnvironmentBroken

    try:
        connect(timeout_s=10).close()
    except EnvironmentBroken as error:
        return str(error)
    return None


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DockerCluster]:
    """A running cluster of the shape that @pytest.mark.chaos asks for; default: three brokers."""
    from harness.cluster.launch import launch

    marker = request.node.get_closest_marker("chaos")
    spec = _spec(request.config, marker.kwargs if marker else {})
    cluster = launch(spec, run=f"pytest-{secrets.token_hex(4)}", folder=tmp_path, say=print)
    yield cluster
    keep = request.config.getoption("--keep-cluster")
    cluster.save_logs()
    if keep == "always" or (keep == "failed" and request.node.stash.get(_FAILED, False)):
        print(f"kept: {cluster.bootstrap} (kafka-chaos clean removes it)")  # noqa: T201
    else:
        cluster.shut_down()


def _spec(config: pytest.Config, wanted: dict[str, Any]) -> ClusterSpec:
    from harness.core.cluster import ClusterSpec

    values = {**wanted, "config": tuple(dict(wanted.get("config", {})).items())}
    values["kafka"] = values.get("kafka") or config.getoption("--kafka-version")
    return ClusterSpec(**{key: value for key, value in values.items() if value is not None})


class Chaos:
    """Breaks one cluster, a fault at a time, around a test's own code."""

    def __init__(self, cluster: DockerCluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
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
            AssertionError: the fault had no witness, so the test would prove nothing.
        """
        from harness.core.cluster import Broker, Lease
        from harness.core.fault import FAULTS

        chosen = FAULTS[fault]() if isinstance(fault, str) else fault
        victims = (
            (target,) if isinstance(target, Broker) else target.choose(self._cluster, self._random)
        )
        assert victims, f"{target} found nobody to hit."  # noqa: S101 (a test's own failure)
        self._count += 1
        lease = Lease(fault_id=f"t{self._count}", hold_s=hold_s, limit_s=hold_s + _LEASE_MARGIN_S)
        cluster = self._cluster.leased(lease)
        try:
            self._witness(chosen.inject(cluster, victims))
            yield victims
        finally:
            healed = chosen.heal(cluster, victims)
        self._witness(healed)

    def _witness(self, evidence: Evidence) -> None:
        self.evidence.append(evidence)
        assert evidence.observed, (  # noqa: S101 (a test's own failure)
            f"{evidence.phase} has no witness: {dict(evidence.details)}"
        )


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_cluster: DockerCluster) -> Chaos:
    """Break the test's cluster, each fault as a context manager.

    `with chaos("broker_kill", LeaderOf("orders", 0)): …`
    """
    from random import Random

    seed = f"{request.config.getoption('--chaos-seed')}/{request.node.nodeid}"
    return Chaos(kafka_cluster, Random(seed))  # noqa: S311 (victims, not secrets)


@pytest.fixture
def run_scenario(request: pytest.FixtureRequest) -> Callable[..., RunResult]:
    """Run a registered scenario: `run_scenario("mixed", seed=7, duration_s=40)`.

    Keyword arguments: `seed`, and those of `harness.campaigns.configure.Overrides`.
    """
    from harness.campaigns.conduct import conduct
    from harness.campaigns.configure import Overrides, configure
    from harness.core.progress import Progress
    from harness.run.runner import Runner
    from harness.run.scenario_run import ScenarioRun

    def run(name: str, *, seed: int | None = None, **overrides: Any) -> RunResult:  # noqa: ANN401
        version = request.config.getoption("--kafka-version")
        if version:
            overrides["cluster"] = {"kafka": version, **overrides.get("cluster", {})}
        chosen_seed = request.config.getoption("--chaos-seed") if seed is None else seed
        runner = Runner(
            run=ScenarioRun(configure(name, Overrides(**overrides))),
            seed=chosen_seed,
            store=Path(request.config.getoption("--chaos-store")),
            keep_cluster=request.config.getoption("--keep-cluster"),
            progress=Progress(say=print),
        )
        return conduct(runner)

    return run


# A cluster that waits for a test in another file takes from all others meanwhile.
@pytest.fixture(scope="module")
def _cluster_pool() -> Iterator[ClusterPool]:
    from harness.cluster.pool import ClusterPool

    pool = ClusterPool(keeps=True)
    yield pool
    pool.close(say=print)


@pytest.fixture
def run_claim(request: pytest.FixtureRequest, _cluster_pool: ClusterPool) -> Callable[..., Trial]:
    """Put a claim to the test: `run_claim("acks1-loss-on-leader-kill", kafka="2.8.2")`.

    Claims that want the same cluster, one after the other, share it.
    """
    from harness.campaigns.claim_result import conduct_trial
    from harness.core.progress import Progress
    from harness.lab.claim import find_claim
    from harness.lab.claim_run import ClaimRun
    from harness.machine.images import DEFAULT_KAFKA
    from harness.run.runner import Runner

    def run(word: str, *, kafka: str | None = None) -> Trial:
        name, claim = find_claim(word)
        version = kafka or request.config.getoption("--kafka-version") or DEFAULT_KAFKA
        cell = ClaimRun(name=name, claim=claim, kafka=version)
        runner = Runner(
            run=cell,
            seed=request.config.getoption("--chaos-seed"),
            store=Path(request.config.getoption("--chaos-store")),
            keep_cluster=request.config.getoption("--keep-cluster"),
            progress=Progress(say=print),
            pool=cell.pool(_cluster_pool),
        )
        return conduct_trial(runner, cell)

    return run
