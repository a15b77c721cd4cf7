"""The commands shrink and bisect, from the run's folder to the file that is left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.settings import scenario_of
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.run.nemesis import plan, plan_json
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun
from tests.unit.campaign_fixture import Machine, report
from tests.unit.campaign_fixture import machine as machine
from verifiers.run_folder.result import write_verdict

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "harness.machine.images.kafka_versions", lambda _: ["3.8.1", "3.9.1", "4.0.0", "4.1.1"]
    )


FLAGS = {"kafka": "3.9.1", "duration": "90s", "hold": "4s-6s", "faults": "broker_kill",
         "brokers": 4, "producers": 3}  # fmt: skip


def stored(store: Path, verdict: Verdict = Verdict.INVALID, **anomalies: Any) -> Path:
    """Store the run of a mix under FLAGS that ended like this, and return its folder."""
    run_dir = RunDir.create(store, scenario="mixed", seed=7)
    runner = Runner(run=ScenarioRun(scenario_of(FLAGS)), seed=7, store=store)
    run_dir.update(seed=7, origin_ns=0, **runner.run.described())
    write_verdict(run_dir.path, report(runner, verdict, **anomalies))
    return run_dir.path


def steps_of(runner: Runner) -> int:
    run: Any = runner.run
    return len(plan(run.scenario, runner.seed))


def finds(machine: Machine, when: Callable[[Runner], bool]) -> None:
    """Let those runs lose a record for which `when` holds."""
    machine.report = lambda runner: (
        report(runner, Verdict.INVALID, lost_write=(1, False)) if when(runner) else report(runner)
    )


def test_a_run_is_shrunk_to_a_plan_and_a_file_that_run_takes(
    invoke: Invoke, machine: Machine, tmp_path: Path
) -> None:
    run = stored(tmp_path / "runs", lost_write=(3, False), duplicate=(1, True))
    finds(machine, lambda _: True)

    code, out, err = invoke("shrink", str(run), "--json")

    assert code == 0, err
    document = json.loads(out)
    assert (document["anomaly"], document["after"]["steps"]) == ("lost-write", 1)
    assert document["again"] == {"shown": 3, "made": 3}
    assert "the smallest was run again: 3 of 3 runs show it" in err
    assert "brokers 4 → 3" in err
    (folder,) = (tmp_path / "runs").glob("*-shrink-*")
    code, planned, err = invoke("plan", str(folder / "shrunk.yaml"), "--json")
    assert code == 0, err
    assert planned == (folder / "plan.json").read_text()
    last = machine.runners[-1]
    own: Any = last.run
    assert len(json.loads(planned)["steps"]) == steps_of(last) == 1
    assert json.loads(plan_json(own.scenario, 7))["duration_s"] == document["after"]["seconds"]


def test_a_run_that_does_not_show_it_again_leaves_no_file(
    invoke: Invoke, machine: Machine, tmp_path: Path
) -> None:
    run = stored(tmp_path / "runs", lost_write=(3, False))

    code, _, err = invoke("shrink", str(run))

    assert code == 3
    assert "was not shown again in 6 runs" in err
    assert len(machine.made) == 6
    assert not list((tmp_path / "runs").glob("*-shrink-*/shrunk.yaml"))


def test_a_run_is_bisected(invoke: Invoke, machine: Machine, tmp_path: Path) -> None:
    run = stored(tmp_path / "runs", lost_write=(3, False))
    finds(machine, lambda runner: runner.run.cluster.kafka in ("3.9.1", "4.0.0"))

    code, out, err = invoke("bisect", str(run), "--good", "4.1.1", "--json")

    assert code == 0, err
    document = json.loads(out)
    assert (document["bad"], document["good"]) == ("4.0.0", "4.1.1")
    assert "4.1.1 is the first release without lost-write" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("shrink", "valid"), "nothing that its contract forbids was found in it"),
        (("shrink", "lost", "--anomaly", "duplicate"), "has no forbidden duplicate"),
        (("shrink", "lost", "--resume"), "there is nothing to go on with"),
        (("shrink", "unjudged"), "has no verdict yet"),
        (("shrink", "nothing"), "There is no run folder"),
        (("bisect", "lost"), "Missing option '--good'"),
        (("bisect", "lost", "--good", "3.9.1"), "name two releases"),
        (("bisect", "lost", "--good", "3.7.9"), "no Kafka 3.7.9 to bisect with"),
        (("bisect", "valid", "--good", "4.1.1"), "nothing that its contract forbids"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_shrunk_or_bisected_is_refused_before_anything_is_run(
    words: tuple[str, ...], sentence: str, invoke: Invoke, machine: Machine, tmp_path: Path
) -> None:
    runs = {
        "valid": stored(tmp_path / "a", Verdict.VALID, duplicate=(1, True)),
        "lost": stored(tmp_path / "b", lost_write=(3, False), duplicate=(1, True)),
        "unjudged": stored(tmp_path / "c", lost_write=(3, False)),
        "nothing": tmp_path / "d",
    }
    (runs["unjudged"] / "verdict.json").unlink()
    command, run, *more = words

    code, _, err = invoke(command, str(runs[run]), *more)

    assert code == 2, err
    assert sentence in err
    assert not machine.runners
