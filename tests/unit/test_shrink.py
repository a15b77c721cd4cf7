"""Shrinking and bisecting: what is tried, how often, and what is left; Kafka is simulated."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.bisect import Bisect, BisectSummary, on_release
from harness.campaigns.campaign import Cell
from harness.campaigns.described import call, parse_event, parse_fault, parse_target
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.scenario_result import ScenarioResult
from harness.campaigns.shrink import CONFIRMED, Shrink, steps_of
from harness.campaigns.trials import MOST, Finding, Tally, Trials, runs_needed
from harness.cli.scenario_file import read_scenario_file, scenario_text
from harness.cli.settings import BY_NAME, scenario_of
from harness.core.errors import UsageError
from harness.core.fault import describe
from harness.core.scenario import After, Scenario, Step
from harness.core.schedule import Script
from harness.core.verdict import Verdict
from harness.run.nemesis import plan
from harness.run.scenario_run import ScenarioRun

LOST = Finding(anomaly="lost-write", kinds=frozenset({"unexplained"}))
SHOWN = (Fingerprint(anomaly="lost-write", kind="unexplained"),)


def scenario(**changes: Any) -> Scenario:
    given: dict[str, Any] = {
        "kafka": "3.9.1", "duration": "180s", "hold": "4s-8s", "faults": "broker_kill,broker_pause",
        "producers": 3, "topic_partitions": 6, "brokers": 5,
    }  # fmt: skip
    return scenario_of({**given, **changes}, topic="run-5")


def play(
    cells: Iterator[Cell[ScenarioResult]],
    trials: Trials[Any],
    shows: Callable[[Scenario, Mapping[str, Any]], bool | None],
    most: int = 200,
) -> list[Cell[ScenarioResult]]:
    """Make every run; `shows` says whether it shows the finding, None ends UNKNOWN."""
    made = []
    for cell in cells:
        run: Any = cell.run
        shown = shows(run.scenario, cell.settings)
        verdict = {True: Verdict.INVALID, False: Verdict.VALID, None: Verdict.UNKNOWN}[shown]
        result = ScenarioResult(
            settings=json.loads(json.dumps(cell.settings)), verdict=verdict, reasons=(),
            fingerprints=SHOWN if shown else (), run="r",
        )  # fmt: skip
        trials.results = [*trials.results, result]
        made.append(cell)
        assert len(made) < most
    return made


def shrink(of: Scenario, **more: Any) -> Shrink:
    return Shrink(scenario=of, seed=7, finding=LOST, **more)


def needing(step: Step) -> Callable[[Scenario, Mapping[str, Any]], bool]:
    """Return what says that whatever has the fault of a step shows the finding."""
    return lambda tried, _: step.fault in [each.fault for each in steps_of(tried)]


def holds(of: Scenario) -> set[tuple[str, float]]:
    """Return what tells the steps of a scenario from each other, whatever their times."""
    return {(describe(step.fault)["name"], step.hold_s) for step in steps_of(of)}


@pytest.mark.parametrize("needed", [(2,), (1, 6), (3, 4, 9)], ids=str)
def test_the_steps_that_a_finding_needs_are_left_and_no_others(needed: tuple[int, ...]) -> None:
    of = scenario(duration="400s")
    steps = plan(of, 7)
    assert len(steps) >= 10
    wanted = [steps[number - 1] for number in needed]

    def shows(tried: Scenario, _: Mapping[str, Any]) -> bool:
        own = [(step.fault, step.hold_s) for step in steps_of(tried)]
        return all((step.fault, step.hold_s) in own for step in wanted)

    shrunk = shrink(of)
    play(shrunk.cells(), shrunk.trials, shows)

    assert shrunk.smallest is not None
    smallest = shrunk.smallest.scenario
    assert [(s.fault, s.hold_s) for s in steps_of(smallest)] == [
        (s.fault, s.hold_s) for s in wanted
    ]
    assert smallest.duration_s < of.duration_s / 2
    assert steps_of(smallest)[0].at_s <= 3
    workload: Any = smallest.workload
    assert (workload.producers, workload.topic, smallest.cluster.brokers) == (1, "orders", 3)


def test_suspects_are_tried_alone_before_anything_else() -> None:
    of = scenario(duration="400s")
    wanted = plan(of, 7)[4]
    shrunk = shrink(of, suspects=frozenset({"5"}))

    made = play(shrunk.cells(), shrunk.trials, needing(wanted))

    assert [cell.settings["candidate"] for cell in made[:3]] == [1, 1, 2]
    assert made[0].settings["words"].startswith("1 of ")
    assert shrunk.smallest is not None
    assert len(steps_of(shrunk.smallest.scenario)) == 1
    assert shrunk.trials.of(0) == Tally()


def test_suspects_come_with_the_rest_of_their_patterns() -> None:
    of = scenario(duration="600s", scenario="search", faults=None)
    steps = plan(of, 7)
    first = next(n for n, step in enumerate(steps, start=1) if step.pattern == "divided")
    shrunk = shrink(of, suspects=frozenset({str(first + 1)}))

    play(shrunk.cells(), shrunk.trials, lambda _, s: s["candidate"] <= 1)

    assert shrunk.smallest is not None
    assert [s.fault for s in steps_of(shrunk.tried[1].scenario)] == [
        s.fault for s in steps[first - 1 : first + 2]
    ]


def test_suspects_come_with_what_follows_them_by_an_event() -> None:
    kill, pause = parse_fault("broker_kill"), parse_fault("broker_pause")
    leader = parse_target("leader_of", topic="orders")
    elected = After(event=parse_event("leader_elected", topic="orders"), delay_s=0.5)
    steps = (
        Step(at_s=5, fault=pause, target=leader, hold_s=4),
        Step(at_s=30, fault=kill, target=leader, hold_s=9),
        Step(at_s=30, fault=kill, target=leader, hold_s=5, after=elected),
        Step(at_s=60, fault=pause, target=leader, hold_s=4),
    )
    shrunk = shrink(replace(scenario(), schedule=Script(script=steps)), suspects=frozenset({"2"}))

    play(shrunk.cells(), shrunk.trials, lambda _, s: s["candidate"] <= 1)

    tried = steps_of(shrunk.tried[1].scenario)
    assert [(step.hold_s, step.after is not None) for step in tried] == [(9, False), (5, True)]


def test_suspects_that_do_not_show_it_are_left_for_the_run_as_it_was() -> None:
    of = scenario(duration="400s")
    wanted = plan(of, 7)[4]
    shrunk = shrink(of, suspects=frozenset({"2"}))

    made = play(shrunk.cells(), shrunk.trials, needing(wanted))

    # Nothing is known yet of how often it comes, so every other time is supposed.
    alone = [1] * runs_needed(0.5)
    assert [cell.settings["candidate"] for cell in made[:7]] == [*alone, 0, 0, 2]
    assert shrunk.smallest is not None
    assert wanted.fault in [step.fault for step in steps_of(shrunk.smallest.scenario)]


def test_suspects_alone_that_show_it_now_and_then_say_how_often_the_others_are_tried() -> None:
    shrunk = shrink(scenario(duration="400s"), suspects=frozenset({"1", "2"}))

    made = play(
        shrunk.cells(), shrunk.trials,
        lambda _, s: s["candidate"] == 1 and s["trial"] in (3, 6),
    )  # fmt: skip

    assert shrunk.smallest is not None
    assert shrunk.smallest.number == 1
    # Two of six: runs_needed(2.5 / 7) is 6.
    per_candidate = [cell.settings["candidate"] for cell in made]
    assert {per_candidate.count(number) for number in set(per_candidate) - {1}} == {6}
    # The three behind the first that shows it are all that its confirmation needs.
    assert per_candidate.count(1) == 3 + CONFIRMED


def test_what_needs_all_of_it_stays_as_it_was_and_is_told_so() -> None:
    shrunk = shrink(scenario(duration="60s"))

    made = play(shrunk.cells(), shrunk.trials, lambda _, s: s["candidate"] == 0)

    assert shrunk.smallest is not None
    assert shrunk.smallest.number == 0
    # A candidate is given up after two runs: the run as it was has shown the finding each time.
    per_candidate = [cell.settings["candidate"] for cell in made]
    assert {per_candidate.count(number) for number in set(per_candidate)} == {2}


def test_a_run_that_does_not_show_it_again_is_not_shrunk() -> None:
    shrunk = shrink(scenario())

    made = play(shrunk.cells(), shrunk.trials, lambda *_: False)

    assert shrunk.smallest is None
    assert len(made) == MOST


def test_runs_that_end_unknown_count_neither_way_and_end_too() -> None:
    shrunk = shrink(scenario(duration="60s"))

    made = play(shrunk.cells(), shrunk.trials, lambda _, s: s["candidate"] == 0 or None)

    assert shrunk.trials.of(1) == Tally(unclear=3)
    assert shrunk.smallest is not None
    assert shrunk.smallest.number == 0
    assert len(made) == 2 + 3 * (len(shrunk.tried) - 1)


def test_how_often_the_smallest_shows_it_is_told_without_the_run_that_made_it_so() -> None:
    of = scenario()
    shrunk = shrink(of)

    def shows(tried: Scenario, settings: Mapping[str, Any]) -> bool:
        return len(steps_of(tried)) == len(plan(of, 7)) or settings["trial"] != 2

    play(shrunk.cells(), shrunk.trials, shows)

    assert shrunk.smallest is not None
    assert shrunk.trials.of(shrunk.smallest.number).made == 1 + CONFIRMED
    assert str(shrunk.trials.after_first(shrunk.smallest.number)) == "2 of 3"


def test_once_it_is_late_the_smallest_so_far_is_confirmed() -> None:
    shrunk = shrink(scenario(duration="400s"))
    shrunk.is_late = lambda: len(shrunk.tried) >= 3

    play(shrunk.cells(), shrunk.trials, lambda *_: True)

    assert len(shrunk.tried) == 3
    assert shrunk.trials.after_first(2).made == CONFIRMED


def test_shrinking_goes_on_where_it_was() -> None:
    of = scenario(duration="400s")
    wanted = plan(of, 7)[6]

    shows = needing(wanted)
    whole, again = shrink(of), shrink(of)
    play(whole.cells(), whole.trials, shows)
    again.trials.results = whole.trials.results[:5]
    play(again.cells(), again.trials, shows)

    assert [(t.words, t.scenario) for t in again.tried] == [
        (t.words, t.scenario) for t in whole.tried
    ]
    assert len(again.trials.results) == len(whole.trials.results)


@pytest.mark.parametrize(
    ("rate", "runs"), [(0.99, 1), (0.83, 2), (0.5, 4), (0.2, MOST), (0.01, MOST)]
)
def test_the_rarer_the_finding_the_more_runs_say_that_it_is_gone(rate: float, runs: int) -> None:
    assert runs_needed(rate) == runs


# -- the file that is left ---------------------------------------------------------------------


@pytest.mark.parametrize("workload", ["send_poll", "transactional", "consumer_group"])
@pytest.mark.parametrize("seed", [1, 7])
def test_the_scenario_file_makes_the_same_experiment(
    tmp_path: Path, workload: str, seed: int
) -> None:
    of = scenario_of(
        {
            "scenario": "search", "kafka": "3.9.1", "workload": workload, "duration": "90s",
            "broker_config": ["log.segment.bytes=65536", "compression.type=gzip"],
            "unclean_election": "on", "linger_ms": 0.0, "delivery_timeout": "30s",
        }
    )  # fmt: skip
    shrunk = shrink(of)
    shrunk.seed = seed
    play(shrunk.cells(), shrunk.trials, lambda _, s: s["candidate"] in (0, 1))
    assert shrunk.smallest is not None
    smallest = shrunk.smallest.scenario
    path = tmp_path / "shrunk.yaml"
    path.write_text(scenario_text(smallest, seed))

    file = read_scenario_file(path)
    file.reject()
    assert file.settings["seed"] == seed
    flags = {name: value for name, value in file.settings.items() if name in (*BY_NAME, "scenario")}
    # As the command line hands them on: words for switches, lists for what is repeatable.
    again = scenario_of({**flags, "steps": file.steps})
    assert plan(again, seed) == plan(smallest, seed)
    for part in ("cluster", "contract", "workload", "duration_s", "max_at_once", "lease_margin_s"):
        assert getattr(again, part) == getattr(smallest, part), part


def test_every_step_of_drawn_plans_is_written_as_it_is_read() -> None:
    of = scenario_of({"scenario": "search", "duration": "600s"})
    for seed in range(20):
        for step in plan(of, seed):
            assert parse_fault(call(describe(step.fault))) == step.fault
            assert parse_target(call(describe(step.target))) == step.target
            if step.after is not None:
                assert parse_event(call(describe(step.after.event))) == step.after.event


# -- bisecting ---------------------------------------------------------------------------------

RELEASES = ("0.10.2.2", "0.11.0.0", "0.11.0.1", "0.11.0.2", "0.11.0.3", "1.0.0", "1.1.1", "2.0.1")


def bisect(
    bad: str, good: str, releases: tuple[str, ...] = RELEASES, of: Scenario | None = None
) -> Bisect:
    of = of or scenario(kafka=bad)
    return Bisect(scenario=of, seed=7, finding=LOST, releases=releases, bad=bad, good=good)


@pytest.mark.parametrize("first", RELEASES[1:])
def test_the_first_release_without_it_is_found(first: str) -> None:
    cut = bisect("0.10.2.2", "2.0.1")

    made = play(
        cut.cells(), cut.trials,
        lambda tried, _: RELEASES.index(tried.cluster.kafka) < RELEASES.index(first),
    )  # fmt: skip

    assert cut.is_answered
    assert cut.bounds == (RELEASES[RELEASES.index(first) - 1], first)
    assert f"{first} is the first release without lost-write" in cut.answer
    assert len({cell.settings["kafka"] for cell in made}) <= 5


def test_the_first_release_with_it_is_found_where_the_good_one_is_older() -> None:
    cut = bisect("2.0.1", "0.11.0.0")

    play(cut.cells(), cut.trials, lambda tried, _: tried.cluster.kafka in RELEASES[4:])

    assert cut.bounds == ("0.11.0.3", "0.11.0.2")
    assert "0.11.0.3 is the first release with lost-write" in cut.answer


def test_a_release_whose_runs_say_nothing_is_passed_over() -> None:
    cut = bisect("0.10.2.2", "1.0.0")

    def shows(tried: Scenario, _: Mapping[str, Any]) -> bool | None:
        version = tried.cluster.kafka
        return None if version == "0.11.0.1" else version < "0.11.0.2"

    play(cut.cells(), cut.trials, shows)

    assert cut.is_answered
    assert cut.bounds == ("0.11.0.0", "0.11.0.2")
    assert "Nothing could be told of 0.11.0.1" in cut.answer


@pytest.mark.parametrize(
    ("shows", "words", "releases"),
    [
        (lambda kafka: False, "was not shown again: 0 of 12 runs on 0.10.2.2", 1),
        (lambda kafka: True, "2.0.1 shows lost-write (unexplained) too: 1 of 1 runs", 2),
        (lambda kafka: kafka == "0.10.2.2" or None, "Not done", 2),
    ],
    ids=["not again", "good is bad", "good says nothing"],
)
def test_nothing_is_answered_that_the_ends_do_not_show(
    shows: Callable[[str], bool | None], words: str, releases: int
) -> None:
    cut = bisect("0.10.2.2", "2.0.1")

    play(cut.cells(), cut.trials, lambda tried, _: shows(tried.cluster.kafka), most=40)

    assert not cut.is_answered
    assert words in cut.answer
    assert len(cut.tried) == releases


def test_a_rare_finding_takes_more_clean_runs_and_the_doubt_is_told(tmp_path: Path) -> None:
    cut = bisect("0.10.2.2", "0.11.0.0", RELEASES[:2])

    play(
        cut.cells(), cut.trials,
        lambda tried, s: tried.cluster.kafka == "0.10.2.2" and s["trial"] % 3 == 0,
    )  # fmt: skip

    assert cut.tally("0.10.2.2") == Tally(shown=2, clean=4)
    assert cut.tally("0.11.0.0").clean == 7
    summary = BisectSummary(run="r", bisect=cut, runs=13, elapsed_s=60)
    assert summary.doubt == pytest.approx((1 - 2.5 / 7) ** 7)
    summary.write(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["good"] == "0.11.0.0"
    assert "probability of 0.045" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("bad", "good", "words"),
    [("9.9.9", "2.0.1", "no Kafka 9.9.9"), ("2.0.1", "2.0.1", "name two releases")],
)
def test_releases_that_cannot_be_bisected_are_refused(bad: str, good: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        bisect(bad, good)


def test_another_release_gets_what_it_can_do() -> None:
    of = scenario(kafka="2.8.2", broker_config=["inter.broker.protocol.version=2.7"])
    of = replace(of, cluster=replace(of.cluster, metadata="zookeeper"))

    on = on_release(of, "4.3.1")

    assert (on.cluster.kafka, on.cluster.mode) == ("4.3.1", "kraft")
    assert "inter.broker.protocol.version" not in dict(on.cluster.config)
    with pytest.raises(UsageError, match="idempotent"):
        on_release(replace(of, contract=replace(of.contract, idempotence=True)), "0.10.2.2")


@pytest.mark.parametrize(
    ("good", "size"),
    [("3.9.1", "65536"), ("4.1.0", "1048576")],
)
def test_all_releases_are_given_a_property_that_each_of_them_takes(good: str, size: str) -> None:
    of = scenario(broker_config=["log.segment.bytes=65536", "log.roll.ms=500"])

    bisected = bisect("3.8.1", good, ("3.8.1", "3.9.1", "4.0.0", "4.1.0"), of)

    cell = next(iter(bisected.cells()))
    assert isinstance(cell.run, ScenarioRun)
    config = dict(cell.run.scenario.cluster.config)
    assert (config["log.segment.bytes"], config["log.roll.ms"]) == (size, "500")


@pytest.mark.parametrize(
    ("shown", "is_it"),
    [
        (Fingerprint(anomaly="lost-write", kind="unexplained"), True),
        (Fingerprint(anomaly="lost-write", kind="destroyed"), False),
        (Fingerprint(anomaly="duplicate", kind="unexplained"), False),
    ],
    ids=lambda value: getattr(value, "text", ""),
)
def test_only_the_same_anomaly_in_the_same_kinds_is_the_finding(
    shown: Fingerprint, *, is_it: bool
) -> None:
    result = ScenarioResult(
        settings={}, verdict=Verdict.INVALID, reasons=(), fingerprints=(shown,), run="r"
    )

    assert LOST.is_in(result) is is_it
