"""The pytest plug-in: light, strict about its markers, honest where there is no Docker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = """
import pytest

@pytest.mark.chaos({arguments})
def test_mine(kafka_cluster):
    assert kafka_cluster.bootstrap
"""


def _pytest(folder: Path, source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(source)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "DOCKER_HOST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env={**clean, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, harness.pytest_plugin; "
        "print({'pyspark', 'docker', 'confluent_kafka', 'pyarrow', 'typer'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )

    assert done.stdout.strip() == "set()"


def test_without_docker_a_test_is_skipped_and_says_why(tmp_path: Path) -> None:
    done = _pytest(tmp_path, EXAMPLE.format(arguments=""), DOCKER_HOST="tcp://127.0.0.1:1")

    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert "doctor --fix" in done.stdout


def test_without_docker_a_test_fails_under_ci(tmp_path: Path) -> None:
    done = _pytest(
        tmp_path, EXAMPLE.format(arguments=""), DOCKER_HOST="tcp://127.0.0.1:1", CI="true"
    )

    assert done.returncode == 1
    assert "Under CI this test must run" in done.stdout


@pytest.mark.parametrize("arguments", ["broker=3", "3"])
def test_a_misspelled_marker_argument_fails_at_collection(tmp_path: Path, arguments: str) -> None:
    done = _pytest(tmp_path, EXAMPLE.format(arguments=arguments))

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "@pytest.mark.chaos takes brokers" in done.stdout + done.stderr


def test_the_header_says_the_seed(tmp_path: Path) -> None:
    done = _pytest(tmp_path, "def test_nothing(): pass\n", KAFKA_CHAOS_SEED="41")

    assert done.returncode == 0, done.stdout + done.stderr


def test_nightly_tests_wait_for_the_night(tmp_path: Path) -> None:
    source = "import pytest\n\n@pytest.mark.nightly\ndef test_long(): raise SystemExit\n"

    done = _pytest(tmp_path, source)

    assert "1 skipped" in done.stdout
