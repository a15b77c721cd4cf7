"""A user's own Compose file: foreign brokers found, broken, healed and removed again."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from harness.machine.images import DEFAULT_KAFKA
from tests.suites.conftest import build_foreign_image
from tests.suites.known_defects import assert_nothing_new
from tests.suites.recorded import lost_records

pytestmark = pytest.mark.docker

CLI = [sys.executable, "-m", "harness.cli.main"]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "compose.yaml"
SHAPES = Path(__file__).resolve().parent / "compose_files"
LAST_WITH_ZOOKEEPER = "3.9.1"


@pytest.fixture
def environment(foreign_image: str) -> dict[str, str]:
    return {**os.environ, "KAFKA_IMAGE": foreign_image, "CI": "1", "COMPOSE_PROJECT_NAME": "theirs"}


@pytest.fixture
def taken_name(foreign_image: str) -> Iterator[str]:
    """A container of the user's that has the name which the file fixes."""
    engine = docker.from_env()
    container = engine.containers.run(
        foreign_image, name="kafka-2", entrypoint=["tail", "-f", "/dev/null"], detach=True
    )
    yield str(container.id)
    container.remove(force=True, v=True)


def run(
    folder: Path, environment: dict[str, str], *flags: str, file: Path = EXAMPLE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "run", "--compose", str(file), "--store", str(folder), "--json", *flags],
        capture_output=True, text=True, timeout=1500, check=False, env=environment,
    )  # fmt: skip


def nothing_new(done: subprocess.CompletedProcess[str], store: Path) -> tuple[dict[str, Any], Path]:
    """Return the verdict and the folder of the only run of a store, which found nothing new."""
    assert done.returncode in {0, 1}, done.stderr
    folder = (store / "latest").resolve()
    assert done.returncode == assert_nothing_new(folder).exit_code, done.stderr
    return json.loads(done.stdout), folder


def left_behind(run_name: str) -> list[object]:
    engine = docker.from_env()
    ours: dict[str, str | list[str] | bool] = {"label": f"kafka-chaos.run={run_name}"}
    return [
        *engine.containers.list(all=True, filters=ours),
        *engine.networks.list(filters=ours),
        *engine.volumes.list(filters=ours),
    ]


def test_brokers_of_a_foreign_image_are_broken_and_healed_with_proof(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run(
        tmp_path, environment,
        "--duration", "48s", "--seed", "7",
        "--faults", "broker_kill,partition(listener=replication),broker_pause,gc_pause",
    )  # fmt: skip

    verdict, folder = nothing_new(done, tmp_path)
    assert verdict["kafka"] == DEFAULT_KAFKA
    assert {fault["name"] for fault in verdict["faults"] if fault["proven"]} == {
        "broker_kill",
        "broker_pause",
        "gc_pause",
        "partition",
    }
    assert verdict["counts"]["acked"] > 10_000
    assert lost_records(folder) == {}
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["kafka"], facts["cluster"]["brokers"]) == (DEFAULT_KAFKA, 3)
    assert "/opt/kafka-chaos/supervisor" in (folder / "compose.yaml").read_text()
    for name in ("kafka-1", "kafka-2", "kafka-3"):
        kept = {path.name for path in (folder / "cluster" / name).iterdir()}
        assert kept >= {"effective.json", "server.log", "gc.log"}
    assert left_behind(folder.name) == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("shape", "kafka", "faults"),
    [
        ("bitnami", DEFAULT_KAFKA, "broker_kill,broker_pause,power_loss"),
        ("confluent_zookeeper", LAST_WITH_ZOOKEEPER, "broker_kill,partition(listener=controller)"),
    ],
)
def test_files_for_the_usual_images_are_understood(
    tmp_path: Path, environment: dict[str, str], shape: str, kafka: str, faults: str
) -> None:
    environment["KAFKA_IMAGE"] = build_foreign_image(kafka)

    done = run(
        tmp_path, environment, "--duration", "48s", "--seed", "7", "--faults", faults,
        file=SHAPES / f"{shape}.yaml",
    )  # fmt: skip

    verdict, folder = nothing_new(done, tmp_path)
    assert verdict["kafka"] == kafka
    assert all(fault["proven"] for fault in verdict["faults"])
    facts = json.loads((folder / "run.json").read_text())
    mode = "zookeeper" if "zookeeper" in shape else "kraft"
    assert (facts["cluster"]["metadata"], facts["cluster"]["brokers"]) == (mode, 3)


def test_a_name_that_is_taken_ends_the_run_and_leaves_its_owner_alone(
    tmp_path: Path, environment: dict[str, str], taken_name: str
) -> None:
    done = run(tmp_path, environment, "--duration", "30s")

    assert done.returncode == 4, done.stderr
    assert "container name kafka-2" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert docker.from_env().containers.get(taken_name).status == "running"
    assert left_behind((tmp_path / "latest").resolve().name) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("services: [", "no usable Compose file"),
        ("services: {database: {image: x}}", "has no brokers"),
        ("services: {kafka-1: {image: x}}", "publishes no port"),
    ],
)
def test_a_file_that_cannot_be_used_leaves_no_run_folder(
    tmp_path: Path, environment: dict[str, str], text: str, sentence: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    store = tmp_path / "runs"

    done = subprocess.run(
        [*CLI, "run", "--compose", str(tmp_path / "mine.yaml"), "--store", str(store)],
        capture_output=True, text=True, timeout=240, check=False, env=environment,
    )  # fmt: skip

    assert done.returncode == 2, done.stderr
    assert sentence in " ".join(done.stderr.split())
    assert not store.exists()


def test_a_version_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CLI, "run", "--kafka", "4.99", "--store", str(tmp_path / "runs")],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip

    assert done.returncode == 2, done.stderr
    assert DEFAULT_KAFKA in done.stderr
    assert not (tmp_path / "runs").exists()
