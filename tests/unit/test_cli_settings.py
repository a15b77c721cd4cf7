"""Settings from outside the flags: what a command cannot honour is refused by name."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.campaigns.configure import Overrides, configure
from harness.cli import main as cli
from harness.cli.settings import SETTINGS
from harness.core.run_dir import RunDir
from harness.lab.claim import find_claim
from harness.lab.claim_run import ClaimRun
from harness.run.scenario_run import ScenarioRun

Invoke = Callable[..., tuple[int, str, str]]


RUNNING = [("claims", "run", "18"), ("nightly",), ("bench", "start-up")]


@pytest.mark.parametrize("words", RUNNING, ids=" ".join)
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA_CHAOS_COMPOSE", "compose.yaml"),
        ("KAFKA_CHAOS_FAULTS", "broker_kill"),
        ("KAFKA_CHAOS_SCENARIO", "mixed"),
    ],
)
def test_a_variable_that_a_command_cannot_honour_is_refused_by_name(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)

    code, out, err = invoke(*words)

    assert (code, out) == (2, "")
    command = " ".join(words[:2] if words[0] == "claims" else words[:1])
    assert err == (
        f"UsageError: {variable} is set, which `kafka-chaos {command}` cannot honour: unset it."
    )


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("claims", "run", "18"), "compose"),
        (("nightly",), "acks, compose, min-isr"),
        (("bench", "start-up"), "acks, compose, min-isr, store"),
    ],
)
def test_a_setting_of_the_project_that_concerns_a_command_is_refused_by_name(
    invoke: Invoke, tmp_path: Path, words: tuple[str, ...], refused: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.kafka-chaos]\nstore = 'runs'\nmin-isr = 1\nacks = '1'\nbudget = '8h'\n"
        "compose = 'mine.yaml'\n"
    )

    code, _, err = invoke(*words)

    assert code == 2
    assert f"[tool.kafka-chaos] in pyproject.toml sets {refused}, which" in err
    assert "cannot honour" in err


def test_a_matrix_refuses_what_only_run_honours(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_REPLICA_LIMIT_MIB", "10")

    code, _, err = invoke("matrix")

    assert code == 2
    assert "KAFKA_CHAOS_REPLICA_LIMIT_MIB is set, which `kafka-chaos matrix` cannot honour" in err


@pytest.mark.parametrize("words", [("plan",), ("verify", "x"), ("claims", "list"), *RUNNING])
def test_a_variable_that_no_command_knows_is_refused_by_name(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_COMPSE", "compose.yaml")

    code, _, err = invoke(*words)

    assert code == 2
    assert "KAFKA_CHAOS_COMPSE is set, and there is no such setting" in err
    assert "Did you mean KAFKA_CHAOS_COMPOSE?" in err


@pytest.mark.parametrize("words", [("claims",), ("claims", "list")])
def test_claims_are_listed_with_what_lies_in_the_store_that_is_set(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "mine" / "a-run").mkdir(parents=True)
    (tmp_path / "mine" / "a-run" / "claim.json").write_text("{")
    monkeypatch.setenv("KAFKA_CHAOS_STORE", "mine")

    code, _, err = invoke(*words)

    assert code == 3, "the damaged result shows that this store is read"
    assert "claim.json" in err


def test_variables_that_are_no_flags_are_left_alone(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_LOG", "ERROR")
    monkeypatch.setenv("KAFKA_CHAOS_COMPOSE", "")

    assert invoke("plan")[0] == 0


def test_a_level_of_logging_that_there_is_not_is_refused(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_LOG", "LOUD")

    code, _, err = invoke("list", "faults")

    assert code == 2
    assert "KAFKA_CHAOS_LOG=LOUD: choose DEBUG, INFO, WARNING or ERROR." in err


def test_verifying_is_not_bothered_by_settings_for_running(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_COMPOSE", "compose.yaml")
    (tmp_path / "pyproject.toml").write_text("[tool.kafka-chaos]\nfaults = 'broker_kill'\n")

    code, _, err = invoke("verify", "nowhere")

    assert code == 2
    assert "There is no run folder nowhere" in err


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("words", "code"),
    [(("list", "faults"), 0), (("heal",), 4), (("clean",), 4), (("report", "."), 2)],
)
def test_what_starts_nothing_works_whatever_is_set(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    code: int,
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_COMPOSE", "compose.yaml")
    monkeypatch.setenv("KAFKA_CHAOS_COMPSE", "compose.yaml")
    (tmp_path / "pyproject.toml").write_text("[tool.kafka-chaos\n")

    found, _, err = invoke(*words)

    assert found == code, err
    assert "COMP" not in err
    assert "pyproject" not in err


def test_help_is_there_whatever_is_set(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_COMPSE", "compose.yaml")

    code, out, _ = invoke("nightly", "--help")

    assert code == 0
    assert "--budget" in out


def test_lists_and_switches_of_a_file_are_read_as_flags_would_be(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "scenario: mixed\nidempotence: off\nacks: 1\nfaults: [broker_kill, partition]\n"
        "broker-config: [num.io.threads=2]\nfeature: [metadata.version=20]\nkafka: 3.9.1\n"
        "duration: 90s\nstore: elsewhere\n"
    )

    code, out, err = invoke("plan", "mine.yaml", "--seed", "7", "--json")

    assert code == 0, err
    names = {step["fault"]["name"] for step in json.loads(out)["steps"]}
    assert names == {"broker_kill", "partition"}


def test_a_flag_beside_again_is_refused_and_what_stands_below_flags_does_not_count(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = ScenarioRun(configure("mixed", Overrides(duration_s=40, max_at_once=2)))
    run_dir = RunDir.create(tmp_path / "runs", scenario=run.name, seed=5)
    run_dir.update(seed=5, **run.described())
    monkeypatch.setenv("KAFKA_CHAOS_DURATION", "90s")
    monkeypatch.setenv("KAFKA_CHAOS_SEED", "6")

    code, out, err = invoke("plan", "--again", "runs/latest", "--json")
    refused, _, reason = invoke(
        "run", "mixed", "--again", "runs/latest", "--seed", "5", "--rate", "7"
    )

    assert code == 0, err
    assert out == run.plan_json(5)
    assert refused == 2
    assert (
        "--again repeats a run with all of its settings: leave out --rate, --seed, SCENARIO."
        in (reason)
    )


def test_again_says_which_command_repeats_the_run_of_a_claim(
    invoke: Invoke, tmp_path: Path
) -> None:
    name, claim = find_claim("acks1-loss-on-leader-kill")
    run = ClaimRun(name=name, claim=claim, kafka="2.8.2")
    run_dir = RunDir.create(tmp_path / "runs", scenario=run.name, seed=1)
    run_dir.update(seed=1, command=run.again(run_dir.path, 1), **run.described())

    code, _, err = invoke("run", "--again", "runs/latest")

    assert code == 2
    assert f"`kafka-chaos claims run {name} --kafka 2.8.2 --seed 1`" in err


def test_every_setting_sets_a_field_and_says_how_it_is_written() -> None:
    durations = {setting.name for setting in SETTINGS if setting.takes == "duration"}
    pairs = {setting.name for setting in SETTINGS if setting.takes == "pairs"}

    assert durations == {
        "delivery_timeout", "request_timeout", "duration", "available_within", "seek_every",
        "quiet", "producer_life", "transaction_timeout", "think_time", "process_time",
        "churn_every", "lease_margin", "gap",
    }  # fmt: skip
    assert pairs == {"feature", "broker_config"}
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)


HEAVY = ("pyspark", "pyarrow", "docker", "numpy", "testcontainers", "confluent_kafka")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["plan", "--seed", "7"]])
def test_nothing_heavy_is_imported_before_it_is_needed(tmp_path: Path, words: list[str]) -> None:
    program = f"""
import sys
from harness.cli.main import main
sys.argv = ["kafka-chaos", *{words!r}]
try:
    main()
finally:
    sys.stderr.write("heavy: " + " ".join(set(sys.modules) & set({HEAVY!r})))
"""

    root = str(Path(cli.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
    )

    assert done.stdout
    assert done.stderr.endswith("heavy: ")


def test_the_version_is_that_of_the_package(invoke: Invoke) -> None:
    from importlib.metadata import version

    assert invoke("--version")[:2] == (0, f"kafka-chaos {version('kafka-chaos')}\n")
