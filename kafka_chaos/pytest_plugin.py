"""Chaos inside pytest: a cluster, faults as context managers, scenarios as tests.

A test that asks for none of the fixtures here is left alone. Nothing else of kafka-chaos is
imported before a test asks for one of them, so a project may have folders of the same names.
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.campaigns.claim_result import ClaimResult
    from harness.campaigns.conduct import RunResult
    from harness.cluster.docker_cluster import DockerCluster
    from harness.cluster.pool import ClusterPool
    from harness.core.cluster import ClusterSpec
    from kafka_chaos.clusters import Chaos
    from kafka_chaos.shared_clusters import BackgroundRun, Clusters

_LOG = logging.getLogger(__name__)
_MARKER = (
    "chaos(brokers=3, kafka=None, controllers=0, heap_mib=256, config={}, scope='function'): "
    "the cluster that the fixture kafka_cluster brings up for this test, or for all tests of the "
    "module or the session that ask for the same one"
)
_READ = frozenset(
    f"KAFKA_CHAOS_{name}"
    for name in ("FAULTS", "KAFKA", "SEED", "STORE", "KEEP_CLUSTER", "LOG", "TEST_HISTORIES")
)
"""Variables that the options read, and those that are no settings."""
_FAILED = pytest.StashKey[bool]()
_RUN = pytest.StashKey[str]()
_BEHIND = pytest.StashKey["BackgroundRun"]()
_OURS = frozenset({"kafka_cluster", "kafka_bootstrap", "chaos", "run_scenario", "run_claim"})
_SCOPES = ("function", "module", "session")
_NOTHING = "none"
"""The value of --chaos that breaks nothing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each has an environment variable as its default."""
    group = parser.getgroup("kafka-chaos")
    group.addoption(
        "--chaos", default=os.environ.get("KAFKA_CHAOS_FAULTS"), metavar="FAULT,…",
        help="break the cluster of kafka_bootstrap with these faults as long as tests run, all "
        "workers of xdist sharing it; none: share it and break nothing",
    )  # fmt: skip
    group.addoption(
        "--chaos-kafka", default=os.environ.get("KAFKA_CHAOS_KAFKA"), metavar="V",
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
        "--chaos-keep-cluster", choices=("never", "failed", "always"),
        default=os.environ.get("KAFKA_CHAOS_KEEP_CLUSTER", "never"),
        help="whether clusters stay after their test (never)",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and draw the seed of the session."""
    config.addinivalue_line("markers", _MARKER)
    drawn = getattr(config, "workerinput", {}).get("kafka_chaos_seed")
    if config.getoption("--chaos-seed") is None:
        config.option.chaos_seed = secrets.randbelow(1_000_000) if drawn is None else drawn


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed, so that a failure can be repeated."""
    return f"kafka-chaos: {' '.join(_options(config))}"


def _options(config: pytest.Config) -> list[str]:
    """Return the options that repeat what is drawn."""
    faults, version = config.getoption("--chaos"), config.getoption("--chaos-kafka")
    return [
        f"--chaos-seed={config.getoption('--chaos-seed')}",
        *([f"--chaos={faults}"] if faults else []),
        *([f"--chaos-kafka={version}"] if version else []),
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 (xdist may not be there)
    """Let all workers of pytest-xdist have one cluster and one seed."""
    config = node.config
    node.workerinput["kafka_chaos_seed"] = config.getoption("--chaos-seed")
    if config.getoption("--chaos") is not None:
        behind = _behind(config)
        node.workerinput["kafka_chaos_bootstrap"] = behind.bootstrap
        node.workerinput["kafka_chaos_folder"] = str(behind.folder)


def _behind(config: pytest.Config) -> BackgroundRun:
    """Return the cluster that is broken behind all tests; it is started when first asked for."""
    if _BEHIND not in config.stash:
        require_packages()
        from kafka_chaos.shared_clusters import BackgroundRun

        faults = config.getoption("--chaos") or _NOTHING
        config.stash[_BEHIND] = BackgroundRun(
            "" if faults == _NOTHING else faults,
            seed=config.getoption("--chaos-seed"),
            store=Path(config.getoption("--chaos-store")),
            kafka=config.getoption("--chaos-kafka"),
            say=_LOG.info,
        )
    return config.stash[_BEHIND]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Heal and remove the cluster that was broken behind all tests."""
    behind = config.stash.get(_BEHIND, None)
    if behind is not None:
        del config.stash[_BEHIND]
        behind.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, for clusters that are kept only then; say how it is repeated."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
        if _OURS & set(getattr(item, "fixturenames", ())):
            _say_how_to_repeat(item, report)
    return report


def _say_how_to_repeat(item: pytest.Item, report: pytest.TestReport) -> None:
    config = item.config
    told = {
        "seed": str(config.getoption("--chaos-seed")),
        "repeat": f"pytest {shlex.quote(item.nodeid)} {' '.join(_options(config))}",
    }
    if run := _run_of(item):
        told["run"] = run
    # Those of JUnit's file are taken from the report that comes last, of the teardown.
    item.user_properties += [(f"kafka-chaos {name}", text) for name, text in told.items()]
    report.sections.append(
        ("kafka-chaos", "".join(f"{name}: {text}\n" for name, text in told.items()))
    )


def _run_of(item: pytest.Item) -> str:
    """Return the folder of the run that a test made, or that went on behind it; empty if none."""
    if (run := item.stash.get(_RUN, "")) or "kafka_bootstrap" not in getattr(
        item, "fixturenames", ()
    ):
        return run
    behind = item.config.stash.get(_BEHIND, None)
    shared: dict[str, str] = getattr(item.config, "workerinput", {})
    return str(behind.folder) if behind else shared.get("kafka_chaos_folder", "")


def require_packages() -> None:
    """Fail the test if another package hides one of ours, or a variable is set in vain."""
    from kafka_chaos import check_packages

    unread = sorted({name for name in os.environ if name.startswith("KAFKA_CHAOS_")} - _READ)
    if unread := [name for name in unread if os.environ[name]]:
        pytest.fail(
            f"{', '.join(unread)} is set, which a test cannot honour: unset it, and say in the "
            "test what it is about.",
            pytrace=False,
        )

    try:
        check_packages()
    except ImportError as error:
        pytest.fail(str(error), pytrace=False)


def require_engine() -> None:
    """Skip the test where no Docker engine answers; under CI, fail it."""
    require_packages()
    from harness.core.errors import EnvironmentBroken
    from harness.machine.engine import connect

    try:
        connect(timeout_s=10).close()
    except EnvironmentBroken as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error} Under CI this test must run.", pytrace=False)
        pytest.skip(str(error))


class _TestFailed(Exception):
    """The test that a cluster was started for has failed."""


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DockerCluster]:
    """A running cluster of the shape that @pytest.mark.chaos asks for; default: three brokers."""
    require_packages()
    spec, scope = _spec(request), _scope(request)
    require_engine()
    from kafka_chaos.clusters import launch

    if scope != "function":
        yield request.getfixturevalue(f"_clusters_of_{scope}").of(spec)
        return
    keep_cluster = request.config.getoption("--chaos-keep-cluster")
    with (
        suppress(_TestFailed),
        launch(spec, folder=tmp_path, keep_cluster=keep_cluster, say=print) as cluster,
    ):
        yield cluster
        if request.node.stash.get(_FAILED, False):
            raise _TestFailed


@pytest.fixture(scope="module")
def _clusters_of_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    yield from _shared(request, tmp_path_factory)


@pytest.fixture(scope="session")
def _clusters_of_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    yield from _shared(request, tmp_path_factory)


def _shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    from kafka_chaos.shared_clusters import Clusters

    keep_cluster = request.config.getoption("--chaos-keep-cluster")
    clusters = Clusters(
        tmp_path_factory.mktemp("kafka-chaos"),
        # Which test failed on a shared cluster is not asked.
        keep_cluster="always" if keep_cluster == "always" else "never",
        say=print,
    )
    yield clusters
    clusters.close()


@pytest.fixture(scope="session")
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of one cluster for the whole session, broken by the faults of `--chaos`.

    Faults come and go as their plan has it while tests run, on random brokers and on the
    controller; `faults.csv` in the run's folder says when, by the clock on the wall.
    """
    require_engine()
    config = request.config
    shared = getattr(config, "workerinput", None)
    if shared is None:
        return _behind(config).bootstrap
    if "kafka_chaos_bootstrap" not in shared:
        pytest.fail(
            "The workers of pytest-xdist share one cluster if pytest is told of it before they "
            "start: --chaos=broker_kill,partition, or --chaos=none.",
            pytrace=False,
        )
    return str(shared["kafka_chaos_bootstrap"])


def _scope(request: pytest.FixtureRequest) -> str:
    marker = request.node.get_closest_marker("chaos")
    scope = marker.kwargs.get("scope", "function") if marker else "function"
    if scope not in _SCOPES:
        pytest.fail(
            f"@pytest.mark.chaos: scope={scope!r} is none of {', '.join(_SCOPES)}.", pytrace=False
        )
    return str(scope)


def _spec(request: pytest.FixtureRequest) -> ClusterSpec:
    from harness.campaigns.field_values import field_values
    from harness.core.cluster import ClusterSpec
    from harness.core.errors import UsageError

    marker = request.node.get_closest_marker("chaos")
    wanted: dict[str, Any] = dict(marker.kwargs) if marker else {}
    wanted.pop("scope", None)
    for name in {"config", "features"} & wanted.keys():
        wanted[name] = tuple(dict(wanted[name]).items())
    wanted["kafka"] = wanted.get("kafka") or request.config.getoption("--chaos-kafka")
    if marker and marker.args:
        pytest.fail("@pytest.mark.chaos takes keywords, not positional arguments.", pytrace=False)
    try:
        return ClusterSpec(**field_values(ClusterSpec, wanted, owner="@pytest.mark.chaos"))
    except UsageError as error:
        pytest.fail(f"@pytest.mark.chaos: {error}", pytrace=False)


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_cluster: DockerCluster) -> Chaos:
    """Break the test's cluster, each fault as a context manager.

    `with chaos("broker_kill", LeaderOf("orders", 0)): …`
    """
    from kafka_chaos.clusters import Chaos

    seed = f"{request.config.getoption('--chaos-seed')}/{request.node.nodeid}"
    return Chaos(kafka_cluster, seed)


@pytest.fixture
def run_scenario(request: pytest.FixtureRequest) -> Callable[..., RunResult]:
    """Run a registered scenario: `run_scenario("mixed", seed=7, duration_s=40)`.

    Takes what `kafka_chaos.run` takes; seed, store and whether clusters are kept come from the
    command line unless given.
    """
    require_engine()
    from kafka_chaos.runs import run

    config = request.config

    def run_with_options(name: str = "mixed", **settings: Any) -> RunResult:  # noqa: ANN401
        if version := config.getoption("--chaos-kafka"):
            settings["cluster"] = {"kafka": version, **settings.get("cluster", {})}
        defaults = {
            "seed": config.getoption("--chaos-seed"),
            "store": config.getoption("--chaos-store"),
            "keep_cluster": config.getoption("--chaos-keep-cluster"),
            "say": print,
        }
        result = run(name, **{**defaults, **settings})
        request.node.stash[_RUN] = str(result.run_dir.path)
        return result

    return run_with_options


# A cluster that waits for a test in another file takes from all others meanwhile.
@pytest.fixture(scope="module")
def _cluster_pool() -> Iterator[ClusterPool]:
    require_engine()
    from harness.cluster.pool import ClusterPool

    pool = ClusterPool(keeps=True)
    yield pool
    pool.close(say=print)


@pytest.fixture
def run_claim(
    request: pytest.FixtureRequest, _cluster_pool: ClusterPool
) -> Callable[..., ClaimResult]:
    """Put a claim to the test: `run_claim("acks1-loss-on-leader-kill", kafka="2.8.2")`.

    Claims that want the same cluster, one after the other, share it.
    """
    from harness.campaigns.claim_result import claim_result
    from harness.campaigns.conduct import conduct
    from harness.core.progress import Progress
    from harness.lab.claim import find_claim
    from harness.lab.claim_run import ClaimRun
    from harness.machine.images import DEFAULT_KAFKA
    from harness.run.runner import Runner

    config = request.config

    def run(name_or_number: str, *, kafka: str | None = None) -> ClaimResult:
        name, claim = find_claim(name_or_number)
        version = kafka or config.getoption("--chaos-kafka") or DEFAULT_KAFKA
        claim_run = ClaimRun(name=name, claim=claim, kafka=version)
        runner = Runner(
            run=claim_run,
            seed=config.getoption("--chaos-seed"),
            store=Path(config.getoption("--chaos-store")),
            keep_cluster=config.getoption("--chaos-keep-cluster"),
            progress=Progress(say=print),
            pool=claim_run.pool(_cluster_pool),
        )
        begin = time.monotonic()
        judged = conduct(runner)
        request.node.stash[_RUN] = str(judged.run_dir.path)
        return claim_result(judged, time.monotonic() - begin, name=name)

    return run
