"""A search: what is drawn, what comes again, and when it is over."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from faults.targets import Controller
from harness.campaigns.draws import BROKERS, CLUSTERS, RUNS, drawn
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.measured import Measured
from harness.campaigns.pages import render
from harness.campaigns.scenario_result import AnomalyCount, ScenarioResult
from harness.campaigns.search import Search, SearchSummary
from harness.cli.settings import BY_NAME, scenario_of
from harness.core.schedule import Mix
from harness.core.verdict import Verdict

LOST = {"lost-write": AnomalyCount(count=3, permitted=False)}


def search(workload: str = "send_poll", **more: Any) -> Search:
    flags: Mapping[str, Any] = {
        "scenario": "search", "kafka": "3.9.1", "duration": "60s", "workload": workload,
    }  # fmt: skip
    return Search(
        make=lambda flags, topic: scenario_of(flags, topic=topic),
        flags=flags,
        kafka="3.9.1",
        **{"seed": 7, **more},
    )


def result(settings: Mapping[str, Any], verdict: Verdict = Verdict.VALID) -> ScenarioResult:
    anomalies = LOST if verdict is Verdict.INVALID else {}
    return ScenarioResult(
        settings=settings, verdict=verdict, reasons=(), anomalies=anomalies, run="r", seconds=60.0
    )


def _run(looked: Search, verdicts: Sequence[Verdict]) -> list[ScenarioResult]:
    results: list[ScenarioResult] = []
    for cell, verdict in zip(looked.cells(), verdicts, strict=False):
        results.append(result(cell.settings, verdict))
        looked.results = list(results)
    return results


def test_the_same_seed_searches_the_same_way() -> None:
    first, second = ([c.settings for c in islice(search().cells(), 8)] for _ in range(2))

    assert first == second
    assert len({settings["seed"] for settings in first}) == 8


def _reach(looked: Search, runs: int, names: Callable[[int], Collection[str]]) -> None:
    """Make runs, each of which reaches some situations, judged behind the next run."""
    made: list[ScenarioResult] = []
    for cell in islice(looked.cells(), runs):
        number = int(cell.settings["number"])
        looked.results = list(made)
        made.append(replace(result(cell.settings), situations=dict.fromkeys(names(number), 1)))


def _deals(looked: Search, number: int, fault: str) -> bool:
    return any(fault in kind for kind in looked._dealt_to[number].kinds)


def test_what_led_to_rare_situations_comes_more_often() -> None:
    rare, plain = search(seed=8, draws=False), search(seed=8, draws=False)

    _reach(rare, 20, lambda n: {"common", *({f"rare {n}"} if _deals(rare, n, "gc_pause") else ())})
    _reach(plain, 20, lambda _: {"common"})

    with_it, without = (
        sum(_deals(looked, n, "gc_pause") for n in range(8, 21)) for looked in (rare, plain)
    )
    assert with_it > 1.5 * without > 0


def test_a_plan_that_reached_something_new_comes_once_more_with_other_settings() -> None:
    looked = search()

    _reach(looked, 9, lambda n: {"common", *({"new"} if n >= 6 else ())})

    dealt = looked._dealt_to
    assert [n for n in range(3, 10) if dealt[n].seed == dealt[n - 2].seed] == [8]
    assert dealt[8].flags != dealt[6].flags


def test_a_search_that_goes_on_deals_what_it_dealt_before() -> None:
    def names(n: int) -> Collection[str]:
        return {"common", f"of {n % 3}", f"since {n // 4}"}

    first, again = search(), search()
    _reach(first, 9, names)
    # All results are known from the beginning, as after a resumption.
    again.results = [
        replace(result({"number": n}), situations=dict.fromkeys(names(n), 1)) for n in range(1, 9)
    ]
    for _ in islice(again.cells(), 9):
        pass

    assert again._dealt_to == first._dealt_to


def test_a_situation_is_told_with_the_patterns_that_led_to_it() -> None:
    reached = [("alone",), ("alone", "relapse"), ()]
    results = [
        replace(
            result({"number": n, "seed": n}),
            situations={"isr-of-one": len(by)},
            reached_by={"isr-of-one": by},
        )
        for n, by in enumerate(reached, start=1)
    ]

    summary = SearchSummary(seed=7, kafka="4.3.1", elapsed_s=60.0, results=results)

    assert summary.patterns == {"isr-of-one": {"alone": 2, "relapse": 1}}
    assert summary.document()["patterns"] == summary.patterns
    text = render("search.md.j2", summary=summary)
    assert "| isr-of-one | 2 | alone ×2 relapse ×1 |" in text


def test_what_was_found_is_tried_again_with_the_same_settings_and_plan() -> None:
    looked = search(stop_at_first=True)
    cells = looked.cells()
    ran = []
    for verdict in (Verdict.VALID, Verdict.INVALID, Verdict.VALID, Verdict.INVALID, Verdict.VALID):
        cell = next(cells)
        assert not looked.is_over()
        ran.append((cell, result(cell.settings, verdict)))
        looked.results = [judged for _, judged in ran]

    found, *again = [cell for cell, _ in ran[1:]]
    assert [cell.settings.get("again") for cell in again] == [1, 2, 3]
    assert {cell.seed for cell in again} == {found.seed}
    assert {str(cell.settings["flags"]) for cell in again} == {str(found.settings["flags"])}
    # The last repetition is not judged yet while the next run would be made.
    assert next(cells, None) is None


@pytest.mark.parametrize(
    ("anomaly", "kind", "permitted", "over"),
    [
        ("lost-write", "explained", False, True),
        ("lost-write", "explained", True, False),
        ("duplicate", "", False, False),
        ("replica-divergence", "in-sync", False, True),
        ("replica-divergence", "out-of-sync", False, False),
    ],
    ids=["the one that is named", "permitted", "another one", "the kind that is named", "another"],
)
def test_a_search_for_named_anomalies_ends_at_these_and_repeats_nothing(
    anomaly: str, kind: str, *, permitted: bool, over: bool
) -> None:
    looked = search(stop_at=frozenset({"lost-write", "replica-divergence(in-sync)"}))
    cells = looked.cells()
    first = next(cells)
    looked.results = [
        ScenarioResult(
            settings=first.settings,
            verdict=Verdict.INVALID,
            reasons=(),
            anomalies={anomaly: AnomalyCount(count=3, permitted=permitted)},
            fingerprints=() if permitted else (Fingerprint(anomaly=anomaly, kind=kind),),
        )
    ]

    assert looked.is_over() is over
    assert next(cells).settings["number"] == 2


def test_the_summary_says_how_often_it_was_found_again(tmp_path: Path) -> None:
    verdicts = (Verdict.VALID, Verdict.INVALID, Verdict.VALID, Verdict.INVALID, Verdict.VALID)
    results = _run(search(), verdicts)

    summary = SearchSummary(seed=7, kafka="3.9.1", elapsed_s=600, results=results)

    (found,) = summary.found
    assert (found["number"], found["found_again"], found["repeated"]) == (2, 1, 3)
    assert found["forbidden"] == {"lost-write": 3}
    assert summary.verdict is Verdict.INVALID
    assert summary.runs_an_hour == 30
    assert "found again 1 of 3 times" in "\n".join(summary.lines())
    summary.write(tmp_path)
    assert "found again 1 of 3 times" in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["runs"][1]["number"] == 2


def test_the_summary_says_that_a_finding_was_not_tried_again() -> None:
    results = _run(search(), (Verdict.INVALID,))

    summary = SearchSummary(seed=7, kafka="3.9.1", elapsed_s=600, results=results)

    assert "not tried again" in summary.lines()[1]
    assert "not tried again" in render("search.md.j2", summary=summary)


def test_the_summary_says_how_the_time_since_it_went_on_was_spent() -> None:
    results = [
        replace(result({"number": n}), run=f"r{n}", measured=Measured(load_s=60, under_fault_s=30))
        for n in (1, 2, 3)
    ]

    summary = SearchSummary(
        seed=7, kafka="3.9.1", elapsed_s=200, results=results, earlier=frozenset({"r1"})
    )

    assert summary.runs_an_hour == 36
    assert "60% of the time under load, 30% under fault" in summary.lines()[0]
    assert summary.document()["under_load_share"] == 0.6
    nothing = SearchSummary(seed=7, kafka="3.9.1", elapsed_s=9, results=[])
    assert "under load" not in nothing.lines()[0]


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([Verdict.VALID, Verdict.UNKNOWN], Verdict.VALID),
        ([Verdict.UNKNOWN], Verdict.UNKNOWN),
        ([], Verdict.UNKNOWN),
    ],
)
def test_a_search_without_a_find_shows_something_once_a_run_is_valid(
    verdicts: list[Verdict], whole: Verdict
) -> None:
    results = _run(search(), verdicts)

    assert SearchSummary(seed=7, kafka="k", elapsed_s=1, results=results).verdict is whole


def test_runs_share_a_cluster_and_have_settings_of_their_own() -> None:
    cells = list(islice(search().cells(), 12))

    topics = {str(cell.run.topics()[0].name) for cell in cells}
    clusters = {cell.run.cluster for cell in cells}
    contracts = {str(cell.settings["flags"]["min_isr"]) for cell in cells}
    assert len(topics) == len(cells)
    assert len(clusters) == 4
    assert contracts == {"1", "2"}


@pytest.mark.parametrize("workload", ["send_poll", "consumer_group", "transactional"])
def test_a_repetition_has_the_plan_of_its_run(workload: str) -> None:
    looked = search(workload=workload)
    first = next(iter(looked.cells()))
    assert first.again is not None
    again = first.again(1)

    plans = [cell.run.plan_json(cell.seed) for cell in (first, again)]
    assert "run-1-again-1" in plans[1]
    assert plans[1].replace("run-1-again-1", "run-1") == plans[0]


def test_what_is_given_is_not_drawn() -> None:
    flags = {"min_isr": 1, "broker_config": ["log.segment.bytes=70000"]}

    for number in range(30):
        got = drawn(flags, f"7/{number}", clusters="7", cluster=number, kafka="3.9.1")
        assert got["min_isr"] == 1
        assert [p for p in got["broker_config"] if "segment" in p] == flags["broker_config"]


def test_a_property_that_a_version_lacks_is_not_drawn() -> None:
    of_2017, of_today = (
        drawn({}, "7/1", clusters="7", cluster=0, kafka=kafka)["broker_config"]
        for kafka in ("0.10.2.2", "4.3.1")
    )

    assert len(of_today) == len(BROKERS)
    assert not any(text.startswith("transaction") for text in of_2017)


@pytest.mark.parametrize(
    ("kafka", "given", "drawn_are"),
    [
        ("4.3.1", {}, {0, 1}),
        ("2.8.2", {}, {None}),
        ("3.9.1", {"metadata": "zookeeper"}, {None}),
        ("4.3.1", {"compose": "compose.yaml"}, {None}),
        ("4.3.1", {"controllers": 3}, {3}),
    ],
)
def test_a_controller_of_its_own_is_drawn_where_brokers_can_be_controllers(
    kafka: str, given: dict[str, Any], drawn_are: set[int | None]
) -> None:
    flags = [drawn(given, "7/1", clusters="7", cluster=number, kafka=kafka) for number in range(20)]

    assert {each.get("controllers") for each in flags} == drawn_are


def test_the_few_clusters_of_a_search_have_every_setting_in_turn() -> None:
    for seed in range(20):
        flags = [
            drawn({}, "7/1", clusters=str(seed), cluster=number, kafka="4.3.1")
            for number in range(6)
        ]

        # One of the brokers' own to two apart from them, in any three clusters.
        for three in (flags[:3], flags[3:]):
            assert sorted(each["controllers"] for each in three) == [0, 1, 1]
        buffers = [dict(p.split("=") for p in each["broker_config"])["offsets.load.buffer.size"]
                   for each in flags]  # fmt: skip
        assert all(len({*two}) == 2 for two in (buffers[:2], buffers[2:4], buffers[4:]))
    controllers = {
        tuple(
            drawn({}, "", clusters=str(seed), cluster=number, kafka="4.3.1")["controllers"]
            for number in range(3)
        )
        for seed in range(20)
    }
    assert len(controllers) == 3


def test_every_setting_that_is_drawn_is_one_of_a_run() -> None:
    assert all(draw.name in BY_NAME for draw in (*CLUSTERS, *RUNS))
    assert all(draw.why and len(draw.values((4, 0))) >= 1 for draw in (*CLUSTERS, *RUNS, *BROKERS))


@pytest.mark.parametrize("kafka", ["0.10.2.2", "2.8.2", "4.3.1"])
def test_whatever_is_drawn_can_be_run(kafka: str) -> None:
    flags = {"scenario": "search", "kafka": kafka}

    for number in range(40):
        given = drawn(flags, f"7/{number}", clusters="7", cluster=number, kafka=kafka)
        scenario = scenario_of(given)
        assert scenario.contract.min_isr <= scenario.contract.replication_factor
        segment_bytes = int(dict(scenario.cluster.config)["log.segment.bytes"])
        assert scenario.contract.batch_size_bytes < segment_bytes


def test_without_draws_runs_differ_in_their_seeds_alone() -> None:
    cells = list(islice(search(draws=False).cells(), 4))

    assert len({str(cell.settings["flags"]) for cell in cells}) == 1
    assert len({cell.seed for cell in cells}) == 4


def test_draws_that_contradict_what_was_given_are_left_out() -> None:
    # A thousand records a second, two milliseconds each, are more than two members can process.
    looked = search()
    looked.flags = {**looked.flags, "workload": "consumer_group"}

    cells = list(islice(looked.cells(), 6))

    assert len(cells) == 6


@pytest.mark.parametrize(("controllers", "there"), [(0, True), (1, False)])
def test_nothing_is_dealt_to_a_controller_that_has_no_log_to_lose(
    controllers: int, there: bool
) -> None:
    scenario = scenario_of({"scenario": "search", "kafka": "3.9.1", "controllers": controllers})
    plain = scenario_of({"scenario": "mixed", "kafka": "3.9.1", "controllers": controllers})

    assert isinstance(scenario.schedule, Mix)
    assert isinstance(plain.schedule, Mix)
    assert (Controller() in scenario.schedule.targets) is there
    # What can be done to any process is done to a controller too.
    assert Controller() in plain.schedule.targets
