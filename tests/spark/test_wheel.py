"""The wheel, built and installed outside the checkout, does what the checkout does."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from harness.machine.images import recipe_hash

CHECKOUT = Path(__file__).parents[2]
PACKAGES = ("kafka_chaos", "harness", "faults", "workloads", "verifiers")
RECIPES = ("agent", "broker", "maven")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run(
        [*build, str(folder)], cwd=CHECKOUT, check=True, capture_output=True, timeout=300
    )
    (wheel,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*install, "--target", str(folder / "site"), str(wheel)], check=True, timeout=300
    )
    return folder / "site"


def _run(
    program: list[str], *, site: Path, folder: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program in an empty folder, the wheel's packages first on Python's path."""
    environment = {**os.environ, "PYTHONPATH": str(site), "DOCKER_HOST": "tcp://127.0.0.1:1"}
    return subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
        check=check,
    )  # fmt: skip


def _kafka_chaos(
    *words: str, site: Path, folder: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    script = str(site / "bin" / "kafka-chaos")
    return _run([script, *words], site=site, folder=folder, check=check)


def test_every_file_of_our_packages_is_in_the_wheel(site: Path) -> None:
    sources = {package: CHECKOUT / package for package in PACKAGES}
    sources["harness/_compose"] = CHECKOUT / "compose"
    missing = [
        path
        for target, source in sources.items()
        for path in source.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (site / target / path.relative_to(source)).is_file()
    ]

    assert missing == []


def test_images_have_the_same_tags_as_in_the_checkout(site: Path, tmp_path: Path) -> None:
    code = (
        "import json, kafka_chaos; from harness.machine.images import recipe_hash; "
        f"print(json.dumps([kafka_chaos.__file__, *map(recipe_hash, {RECIPES})]))"
    )

    done = _run([sys.executable, "-c", code], site=site, folder=tmp_path)

    file, *hashes = json.loads(done.stdout)
    assert Path(file).is_relative_to(site)
    assert hashes == [recipe_hash(recipe) for recipe in RECIPES]


def test_the_same_seed_gives_the_same_plan_as_in_the_checkout(site: Path, tmp_path: Path) -> None:
    plan = ("plan", "--seed", "7", "--json")
    checkout = [sys.executable, "-m", "kafka_chaos", *plan]

    there = _kafka_chaos(*plan, site=site, folder=tmp_path)
    here = _run(checkout, site=CHECKOUT, folder=tmp_path)

    assert json.loads(there.stdout)["seed"] == 7
    assert there.stdout == here.stdout


def test_the_command_says_its_version_and_where_benchmarks_lie(site: Path, tmp_path: Path) -> None:
    version = _kafka_chaos("--version", site=site, folder=tmp_path)
    bench = _kafka_chaos("bench", "verify", site=site, folder=tmp_path, check=False)

    assert version.stdout == f"kafka-chaos {metadata.version('kafka-chaos')}\n"
    assert bench.returncode == 2
    assert "Benchmarks lie in a checkout" in bench.stderr


@pytest.mark.parametrize("kind", ["faults", "claims"])
def test_the_same_things_are_listed_as_in_the_checkout(
    site: Path, tmp_path: Path, kind: str
) -> None:
    checkout = [sys.executable, "-m", "kafka_chaos", "list", kind]

    there = _kafka_chaos("list", kind, site=site, folder=tmp_path)
    here = _run(checkout, site=CHECKOUT, folder=tmp_path)

    assert there.stdout == here.stdout != ""


def test_benchmarks_are_offered_in_the_checkout_only(site: Path, tmp_path: Path) -> None:
    checkout = [sys.executable, "-m", "kafka_chaos", "--help"]

    there = _kafka_chaos("--help", site=site, folder=tmp_path)
    here = _run(checkout, site=CHECKOUT, folder=tmp_path)

    assert "benchmark" in here.stdout
    assert "benchmark" not in there.stdout


def test_an_op_history_is_verified_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    history = CHECKOUT / "tests" / "spark" / "histories" / "G1a.jsonl"

    done = _kafka_chaos("verify", str(history), "--json", site=site, folder=tmp_path, check=False)

    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["bad-error-types"] == ["G1a"]


def test_a_run_without_an_engine_says_what_is_missing(site: Path, tmp_path: Path) -> None:
    done = _kafka_chaos("run", "--seed", "7", site=site, folder=tmp_path, check=False)

    assert done.returncode == 4
    assert "doctor --fix" in done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--fixtures"]

    done = _run(command, site=site, folder=tmp_path)

    assert f"kafka_cluster -- {os.path.relpath(site, tmp_path)}/kafka_chaos" in done.stdout
