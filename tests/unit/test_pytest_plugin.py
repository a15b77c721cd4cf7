"""The pytest plug-in: a good guest, strict about its own marker, honest where no Docker is."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafka_chaos
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken, UsageError
from harness.run.runner import Runner
from kafka_chaos.shared_clusters import BackgroundRun, Clusters

CHECKOUT = Path(kafka_chaos.__file__).resolve().parents[1]
NO_ENGINE = "tcp://127.0.0.1:1"

FOREIGN = """
import harness, faults, verifiers, workloads
import pytest

@pytest.mark.nightly
def test_of_their_night(): pass

@pytest.mark.docker
def test_of_their_containers(): pass

@pytest.mark.chaos("monkey")
def test_of_their_chaos(): pass

def test_of_their_packages():
    assert {package.OWNER for package in (harness, faults, verifiers, workloads)} == {"them"}

def test_that_asks_for_ours(kafka_cluster): pass
"""
FOREIGN_SETTINGS = """
[pytest]
addopts = --strict-markers
filterwarnings = error
markers =
    nightly: theirs
    docker: theirs
"""
OURS = """
import pytest

def test_plain(kafka_cluster): pass

def test_scenario(run_scenario): pass

def test_claim(run_claim): pass

@pytest.mark.chaos(broker=3)
def test_misspelled(kafka_cluster): pass

@pytest.mark.chaos(3)
def test_positional(kafka_cluster): pass

@pytest.mark.chaos(brokers=12)
def test_too_many(kafka_cluster): pass
"""


def _pytest(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder with our plug-in alone, where no Docker engine answers."""
    inherited = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST")}
    ours = {
        "DOCKER_HOST": NO_ENGINE,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(CHECKOUT),
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kafka_chaos.pytest_plugin", "-rA", "--tb=short",
         "-p", "no:cacheprovider", *words],
        cwd=folder, env={**inherited, **ours, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_foreign_project_with_our_names_is_left_alone(tmp_path: Path) -> None:
    for name in ("harness", "faults", "verifiers", "workloads"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "them"\n')
    (tmp_path / "pytest.ini").write_text(FOREIGN_SETTINGS)
    (tmp_path / "test_foreign.py").write_text(FOREIGN)

    done = _pytest(tmp_path, CI="true", KAFKA_CHAOS_SEED="41")

    for test in ("their_night", "their_containers", "their_chaos", "their_packages"):
        assert f"PASSED test_foreign.py::test_of_{test}" in done.stdout, done.stdout + done.stderr
    assert "needs its own package 'harness'" in done.stdout
    assert f"Python finds {tmp_path}/harness first" in done.stdout
    assert "4 passed, 1 error" in done.stdout
    assert "kafka-chaos: --chaos-seed=41" in done.stdout, "the header tells the seed"


@pytest.fixture(scope="module")
def without_engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of tests that ask for our fixtures, on a machine of a developer."""
    folder = tmp_path_factory.mktemp("ours")
    (folder / "test_ours.py").write_text(OURS)
    return _pytest(folder).stdout


def test_without_an_engine_whoever_asks_for_a_fixture_is_skipped_and_told_why(
    without_engine: str,
) -> None:
    assert "3 skipped, 3 errors" in without_engine
    assert "kafka-chaos doctor --fix" in without_engine


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("test_misspelled", "@pytest.mark.chaos has no broker; it has bootstrap, brokers"),
        ("test_positional", "not positional arguments"),
        ("test_too_many", "@pytest.mark.chaos: 12 brokers: choose 1 to 9"),
    ],
)
def test_a_marker_that_cannot_be_is_an_error_of_its_test(
    without_engine: str, test: str, sentence: str
) -> None:
    assert f"ERROR test_ours.py::{test}" in without_engine
    assert sentence in without_engine


def test_a_variable_that_no_test_can_honour_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text(
        "def test_mine(run_claim): pass\ndef test_theirs(): pass\n"
    )

    done = _pytest(tmp_path, KAFKA_CHAOS_COMPOSE="mine.yaml", KAFKA_CHAOS_KAFKA="3.9.1")

    assert "KAFKA_CHAOS_COMPOSE is set, which a test cannot honour" in done.stdout
    assert "1 passed, 1 error" in done.stdout


def test_without_an_engine_whoever_asks_for_a_fixture_fails_under_ci(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text("def test_mine(kafka_cluster): pass\n")

    done = _pytest(tmp_path, CI="true")

    assert done.returncode == 1
    assert "Under CI this test must run" in done.stdout


def test_who_fails_says_how_it_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text(
        "def test_mine(run_claim): pass\ndef test_theirs(): assert False\n"
    )

    done = _pytest(
        tmp_path, "--junitxml=j.xml", CI="true", KAFKA_CHAOS_SEED="41", KAFKA_CHAOS_KAFKA="3.9.1"
    )

    line = "pytest test_ours.py::test_mine --chaos-seed=41 --chaos-kafka=3.9.1"
    assert f"repeat: {line}" in done.stdout
    assert done.stdout.count("repeat: ") == 1, "theirs is no business of ours"
    junit = (tmp_path / "j.xml").read_text()
    assert f'<property name="kafka-chaos repeat" value="{line}"' in junit
    assert '<property name="kafka-chaos seed" value="41"' in junit


def test_a_scope_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text(
        "import pytest\n@pytest.mark.chaos(scope='package')\ndef test_mine(kafka_cluster): pass\n"
    )

    done = _pytest(tmp_path)

    assert "scope='package' is none of function, module, session" in done.stdout


def test_workers_that_were_told_of_no_cluster_say_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text("def test_mine(kafka_bootstrap): pass\n")
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.fixture(autouse=True, scope='session')\n"
        "def as_a_worker(pytestconfig): pytestconfig.workerinput = {}\n"
        "import kafka_chaos.pytest_plugin as ours\n"
        "ours.require_engine = lambda: None\n"
    )

    done = _pytest(tmp_path)

    assert "--chaos=broker_kill,partition, or --chaos=none" in done.stdout


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is started, waited for and removed instead of clusters, in order."""
    told: list[str] = []

    @contextmanager
    def launch(spec: ClusterSpec, **_: object) -> Iterator[object]:
        told.append(f"start {spec.brokers}")
        yield SimpleNamespace(await_full_isr=lambda *_, **__: told.append(f"whole {spec.brokers}"))
        told.append(f"remove {spec.brokers}")

    monkeypatch.setattr("kafka_chaos.shared_clusters.launch", launch)
    return told


def test_tests_that_ask_for_the_same_cluster_get_it_when_it_is_whole(
    launched: list[str], tmp_path: Path
) -> None:
    clusters = Clusters(tmp_path, keep_cluster="never", say=lambda _: None)

    first = clusters.of(ClusterSpec(brokers=3))
    assert clusters.of(ClusterSpec(brokers=1)) is not first
    assert clusters.of(ClusterSpec(brokers=3)) is first
    clusters.close()

    assert launched == ["start 3", "start 1", "whole 3", "remove 1", "remove 3"]


def test_a_cluster_that_does_not_start_behind_the_tests_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_: object) -> None:
        raise ClusterBroken("no room")

    monkeypatch.setattr(Runner, "execute", refuse)

    with pytest.raises(ClusterBroken, match="no room"):
        BackgroundRun("broker_kill", seed=7, store=tmp_path, say=lambda _: None)
    with pytest.raises(UsageError, match="broker_kil"):
        BackgroundRun("broker_kil", seed=7, store=tmp_path, say=lambda _: None)
