"""The pytest plug-in: a good guest, strict about its own marker, honest where no Docker is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_chaos

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


def _pytest(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder with our plug-in alone, where no Docker engine answers."""
    inherited = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST")}
    ours = {
        "DOCKER_HOST": NO_ENGINE,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(CHECKOUT),
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kafka_chaos.pytest_plugin", "-rA", "--tb=short",
         "-p", "no:cacheprovider"],
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
        ("test_misspelled", "@pytest.mark.chaos has no broker; it has brokers, compose"),
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
