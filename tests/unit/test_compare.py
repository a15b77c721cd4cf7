"""compare: planted differences are told, chance is not called one, and like is held to like."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import pytest

from harness.campaigns.comparison import Comparison, QuantityRow, compare
from harness.campaigns.conduct import RunResult
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.measured import Measured
from harness.campaigns.night_log import NightLog
from harness.campaigns.repetitions import AGAIN
from harness.campaigns.scenario_result import (
    AnomalyCount,
    ScenarioResult,
    scenario_cell,
    stored_result,
)
from harness.campaigns.sides import Side, read_side
from harness.campaigns.spread import LEVEL, Share, chance, spreads
from harness.core.contract import Contract
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.run.nemesis import plan_json
from harness.run.scenario_run import ScenarioRun
from tests.unit.test_night_index import tree_of
from tests.unit.test_report_document import whole_report
from verifiers.run_folder.result import write_verdict

LOSS = Fingerprint(anomaly="lost-write", workload="send_poll", explained_by="power_loss")
OTHER = Fingerprint(anomaly="duplicate", workload="send_poll", explained_by="gc_pause")
ALL, ONE = Contract(), Contract(acks="1")


def ran(
    *found: Fingerprint, kafka: str = "4.3.1", verdict: Verdict = Verdict.VALID, seed: int = 0,
    recoveries_s: Sequence[float] = (), contract: Contract = ALL, workload: str = "send_poll",
    **more: Any,
) -> ScenarioResult:  # fmt: skip
    return ScenarioResult(
        settings={"scenario": "mixed", "seed": seed}, reasons=(), fingerprints=found, kafka=kafka,
        verdict=Verdict.INVALID if found else verdict, contract=contract, workload=workload,
        run=f"run-{kafka}-{seed}", acked=5000,
        measured=Measured(load_s=50, under_fault_s=20, recoveries_s=tuple(recoveries_s)),
        **more,
    )  # fmt: skip


def side(*runs: ScenarioResult, name: str = "B") -> Side:
    return Side(name=name, kind="version", runs=runs)


def old(*runs: ScenarioResult) -> Side:
    return side(*(replace(run, kafka="3.9.1") for run in runs), name="3.9.1")


def new(*runs: ScenarioResult) -> Side:
    return side(*runs, name="4.3.1")


def clean(count: int, **more: Any) -> list[ScenarioResult]:
    return [ran(seed=seed, **more) for seed in range(count)]


def recovering(
    times_s: Sequence[Sequence[float]], contract: Contract = ALL
) -> list[ScenarioResult]:
    return [
        ran(seed=seed, recoveries_s=each, contract=contract) for seed, each in enumerate(times_s)
    ]


def recovery(comparison: Comparison) -> QuantityRow:
    return next(row for row in comparison.quantities if row.quantity.name == "recovery")


# -- what is forbidden -----------------------------------------------------------------------------


def test_what_only_b_shows_makes_it_invalid_and_is_named() -> None:
    found = compare(old(*clean(12)), new(*clean(10), ran(LOSS, seed=10), ran(LOSS, seed=11)))

    assert found.verdict is Verdict.INVALID
    assert found.answer.startswith(f"4.3.1 shows 1 finding ({LOSS.id}) that 3.9.1 does not")
    (row,) = found.findings
    assert (row.text, row.shown_by, row.a, row.b) == (
        LOSS.text, "only B", Share(count=0, of=12), Share(count=2, of=12),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of_a", "of_b", "shown_by", "words"),
    [
        ([LOSS], [LOSS], ["both"], f"both show 1 finding ({LOSS.id})"),
        ([LOSS], [], ["only A"], f"3.9.1 alone shows 1 finding ({LOSS.id})"),
        ([], [], [], "Nothing forbidden in"),
    ],
)
def test_what_a_shows_too_does_not_speak_against_b(
    of_a: list[Fingerprint], of_b: list[Fingerprint], shown_by: list[str], words: str
) -> None:
    found = compare(old(*clean(12), ran(*of_a, seed=12)), new(*clean(11), ran(*of_b, seed=12)))

    assert found.verdict is Verdict.VALID
    assert found.answer.startswith("Nothing forbidden in 12 judged runs of 4.3.1 that 3.9.1 does ")
    assert words in found.answer
    assert [row.shown_by for row in found.findings] == shown_by


def test_one_finding_on_both_sides_does_not_hide_another_on_b() -> None:
    found = compare(old(*clean(9), ran(LOSS, seed=9)), new(*clean(9), ran(LOSS, OTHER, seed=9)))

    assert found.verdict is Verdict.INVALID
    assert [(row.id, row.shown_by) for row in found.findings] == [
        (OTHER.id, "only B"), (LOSS.id, "both"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("versions", "verdict", "ruling"),
    [((">=4.3",), Verdict.VALID, "known"), (("3.9",), Verdict.INVALID, "FORBIDDEN")],
)
def test_what_is_known_of_the_versions_of_b_does_not_speak_against_it(
    versions: tuple[str, ...], verdict: Verdict, ruling: str
) -> None:
    entry = Known(fingerprint=LOSS.id, why="It is.", versions=versions)

    compared = compare(
        old(*clean(6)), new(*clean(5), ran(LOSS, seed=9)), KnownFindings(entries=(entry,))
    )

    assert compared.verdict is verdict
    assert f"4.3.1 shows 1 finding ({LOSS.id})" in compared.answer
    assert compared.anomalies()[0][-1] == f"{ruling}, only 4.3.1"


@pytest.mark.parametrize("change", [{"contract": ONE}, {"workload": "transactional"}], ids=str)
def test_a_finding_in_a_run_that_none_of_a_is_like_is_nothing_that_a_does_not_show(
    change: dict[str, Any],
) -> None:
    found = compare(old(*clean(12)), new(*clean(11), ran(LOSS, seed=11, **change)))

    assert found.verdict is Verdict.UNKNOWN
    assert "in runs that no judged run of 3.9.1 is like" in found.answer
    (row,) = found.findings
    assert row.shown_by == "no such runs of A"
    (left,) = found.left_out
    assert left.endswith("1 run of 4.3.1, none of 3.9.1")


def test_a_contract_of_the_same_class_is_alike() -> None:
    small = Contract(linger_ms=0.0, idempotence=True)

    found = compare(old(*clean(6)), new(*clean(6, contract=small)))

    assert found.verdict is Verdict.VALID
    assert (len(found.kinds), found.left_out) == (1, ())


# -- whether there is enough -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "doubt"),
    [
        (clean(5), ""),
        (clean(4), "4.3.1 has 4 judged runs like those of 3.9.1, and it takes 5"),
        (clean(5, verdict=Verdict.UNKNOWN), "4.3.1 has 0 judged runs like those"),
        (clean(5) + clean(6, verdict=Verdict.UNKNOWN), "6 of 11 runs of 4.3.1 are UNKNOWN"),
        (clean(5) + clean(5, verdict=Verdict.UNKNOWN), ""),
        ([ran(LOSS, seed=seed) for seed in range(6)], "no run of 4.3.1 is VALID"),
        (clean(9, contract=ONE), "no run of 4.3.1 is like a judged run of 3.9.1"),
    ],
)
def test_without_enough_runs_of_b_it_is_unknown(runs: list[ScenarioResult], doubt: str) -> None:
    found = compare(old(*clean(6), ran(LOSS, seed=6)), new(*runs))

    assert found.verdict is (Verdict.UNKNOWN if doubt else Verdict.VALID)
    assert found.doubt.startswith(doubt)
    assert found.answer.startswith("Too little to tell: " if doubt else "Nothing forbidden")


def test_controls_repetitions_and_what_could_not_be_run_are_counted_and_not_compared() -> None:
    again = {"scenario": "mixed", "seed": 0, AGAIN: 1}
    runs = new(
        *clean(6), ran(LOSS, seed=7, control=True), replace(ran(LOSS), settings=again),
        replace(ran(verdict=Verdict.UNKNOWN), by_machine=True, run=""),
        replace(ran(verdict=Verdict.UNKNOWN), run=""),
    )  # fmt: skip

    found = compare(old(*clean(6)), runs)

    assert found.verdict is Verdict.VALID
    assert found.findings == ()
    assert set(runs.not_compared.values()) == {1}
    assert runs.tally == "7 runs: 6 VALID, 1 UNKNOWN, 0 INVALID (14% UNKNOWN)"
    assert (runs.load_s, runs.under_fault_s) == (350, 140)


def test_versions_that_both_sides_have_are_compared_each_with_itself() -> None:
    before = side(*clean(6, kafka="3.9.1"), *clean(6, kafka="4.3.1"), name="monday")
    known = side(*clean(6, kafka="3.9.1"), ran(LOSS, kafka="3.9.1"), *clean(6), name="monday")
    after = side(ran(LOSS, seed=6), *clean(6), name="tuesday")

    assert compare(before, after).verdict is Verdict.INVALID
    assert compare(known, after).verdict is Verdict.INVALID
    (left,) = compare(before, after).left_out
    assert left.endswith("Kafka 3.9.1: 6 runs of monday, none of tuesday")


# -- what was measured -----------------------------------------------------------------------------

FAST = [(8.0 + n % 4, 9.0) for n in range(12)]
SLOW = [(13.0 + n % 4, 14.0) for n in range(12)]


def test_a_slower_recovery_is_told_with_both_medians() -> None:
    found = compare(old(*recovering(FAST)), new(*recovering(SLOW)))

    row = recovery(found)
    assert row.words == "slower"
    assert row.ratio == pytest.approx(14 / 9)
    assert "recovery is slower: 14.0\u202fs, 9.0\u202fs on 3.9.1" in found.answer
    assert found.verdict is Verdict.VALID
    assert recovery(compare(old(*recovering(SLOW)), new(*recovering(FAST)))).words == "faster"


def test_without_a_difference_none_is_told() -> None:
    found = compare(old(*recovering(FAST)), new(*recovering(FAST[::-1])))

    assert recovery(found).words == "no difference beyond chance"
    assert "is slower" not in found.answer
    assert "no difference beyond chance in recovery, throughput" in found.answer


def test_every_quantity_is_read_where_runs_keep_it() -> None:
    def times(factor: float) -> list[ScenarioResult]:
        return [
            replace(
                run, unavailable_s=factor * (10 + seed), acked=int(1000 * factor) + seed,
                measured=Measured(
                    load_s=10, recoveries_s=(factor * (20 + seed),),
                    elections_s=(factor * (30 + seed),), shrinks_s=(factor * (40 + seed),),
                ),
            )
            for seed, run in enumerate(clean(5))
        ]  # fmt: skip

    found = compare(old(*times(1)), new(*times(2)))

    assert [(row.words, row.a and row.a.median) for row in found.quantities] == [
        ("longer", 12), ("slower", 22), ("slower", 32), ("slower", 42), ("higher", 100.2),
    ]  # fmt: skip


def test_few_runs_are_too_few_however_many_faults_they_had() -> None:
    found = compare(old(*recovering([(8.0,) * 50] * 4)), new(*recovering([(14.0,) * 50] * 12)))

    row = recovery(found)
    assert (row.words, row.probability) == ("too few to tell", None)
    assert row.a is not None
    assert (row.a.n, row.a.runs) == (200, 4)
    assert "too few runs to compare times and throughput" in found.answer


def test_five_pairs_of_strata_of_their_own_are_too_few() -> None:
    pairs = {str(n): [[float(n)]] for n in range(5)}
    later = {str(n): [[n + 9.0]] for n in range(5)}

    assert chance(pairs, later) is None
    assert chance({"": pairs["0"] * 5}, {"": later["0"] * 5}) is not None


def test_another_mix_of_contracts_is_no_difference() -> None:
    random = Random(1)

    def mix(fast: int, slow: int) -> list[ScenarioResult]:
        return [
            *recovering([(random.uniform(4, 6),) for _ in range(fast)]),
            *recovering([(random.uniform(29, 31),) for _ in range(slow)], contract=ONE),
        ]

    row = recovery(compare(old(*mix(30, 4)), new(*mix(8, 30))))

    assert row.words == "no difference beyond chance"
    assert row.ratio == pytest.approx(1, abs=0.2)


def test_runs_that_only_one_side_has_are_left_out_of_the_figures() -> None:
    lone = recovering([(500.0,)] * 9, contract=ONE)

    found = compare(old(*recovering(FAST)), new(*recovering(FAST), *lone))

    row = recovery(found)
    assert row.a is not None
    assert row.a == row.b
    assert len(found.left_out) == 1


def test_chance_alone_is_seldom_called_a_difference() -> None:
    random = Random(7)

    def values() -> dict[str, list[list[float]]]:
        return {s: [[random.expovariate(0.1)] for _ in range(n)] for s, n in (("x", 9), ("y", 4))}

    found = [chance(values(), values()) for _ in range(100)]

    assert sum(each is not None and each[0] < LEVEL for each in found) <= 4
    assert sum(each is not None and each[0] < 0.5 for each in found) > 30


def test_a_spread_is_the_median_and_the_quartiles() -> None:
    values = [float(n * n) for n in range(1, 42)]
    low, middle, high = quantiles(values, n=4)

    found, same = spreads({"": [values]}, {"": [[value] for value in values]})

    assert found is not None
    assert same is not None
    assert (found.n, found.runs, same.runs) == (41, 1, 41)
    assert found.median == middle
    assert [found.low, found.high] == pytest.approx([low, high], rel=0.05)
    assert spreads({"x": [[1.0]]}, {"y": [[1.0]]}) == (None, None)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 12, 0, 0.2646), (12, 12, 0.7354, 1), (1, 1, 0.025, 1), (5, 10, 0.1871, 0.8129)],
)
def test_a_share_has_the_interval_of_clopper_and_pearson(
    count: int, of: int, low: float, high: float
) -> None:
    assert list(Share(count=count, of=of).interval) == pytest.approx([low, high], abs=1e-4)
    assert Share(count=0, of=0).interval == (0, 1)


def test_what_is_permitted_is_counted_for_each_kind_that_both_have() -> None:
    lost = {"lost-write": AnomalyCount(count=3, permitted=True)}
    none = {"lost-write": AnomalyCount(count=0, permitted=True)}
    forbidden = {"duplicate": AnomalyCount(count=1, permitted=False)}

    found = compare(
        old(*clean(5, contract=ONE, anomalies=lost), *clean(5, anomalies=none)),
        new(*clean(4, contract=ONE), *clean(2, contract=ONE, anomalies=lost | forbidden)),
    )

    (row,) = found.permitted
    assert row.text == "lost-write · send_poll · acks=1, not idempotent"
    assert (row.a, row.b) == (Share(count=5, of=5), Share(count=2, of=6))


# -- what is compared ------------------------------------------------------------------------------


def stored(store: Path, *, kafka: str = "4.3.1", seed: int = 3) -> tuple[RunDir, ScenarioResult]:
    """Write the folder of a judged run; return it, and what a campaign would keep of the run."""
    scenario = configure("mixed", Overrides(cluster={"kafka": kafka}))
    run_dir = RunDir.create(store, scenario="mixed", seed=seed)
    contract = {**asdict(scenario.contract), "idempotence": scenario.contract.idempotent}
    run_dir.update(
        **ScenarioRun(scenario).described(), seed=seed, contract=contract, origin_ns=5,
        started_utc="2026-11-24T01:00:00Z", phases=[{"from_ns": 0, "to_ns": 60_000_000_000}],
    )  # fmt: skip
    report = replace(whole_report(), run=run_dir.name, seed=seed, kafka=kafka)
    write_verdict(run_dir.path, report)
    cell = scenario_cell(
        scenario, settings={"scenario": "mixed", "seed": seed}, title="", seed=seed,
        shares_cluster=False,
    )  # fmt: skip
    return run_dir, cell.interpret(RunResult(run_dir=run_dir, report=report), 67.5)


def written(store: Path, night: str, *runs: ScenarioResult) -> None:
    store.mkdir(exist_ok=True)
    log = NightLog(store, night)
    log.add(runs)
    log.close()


def test_a_result_says_by_which_patterns_a_situation_was_reached(tmp_path: Path) -> None:
    run_dir, kept = stored(tmp_path)
    reached = {name: under for name, under in kept.reached_under.items() if under}
    assert reached
    assert not any(kept.reached_by.values())

    scenario = configure("mixed", Overrides(duration_s=600))
    planned = plan_json(scenario, 3)
    (run_dir.path / "plan.json").write_text(planned)

    again = stored_result(run_dir)
    assert {name for name, by in again.reached_by.items() if by == ("alone",)} == set(reached)


def test_a_stored_run_is_what_a_campaign_would_have_kept_of_it(tmp_path: Path) -> None:
    run_dir, kept = stored(tmp_path)

    found = read_side(str(tmp_path / "latest"), tmp_path)

    assert (found.name, found.kind, found.runs) == (run_dir.name, "run", (kept,))
    assert kept.measured.shrinks_s == (1.5,)
    assert [each.anomaly for each in kept.fingerprints] == ["lost-write"]
    assert read_side(run_dir.name, tmp_path) == found


def test_a_version_is_all_its_runs_in_all_nights(tmp_path: Path) -> None:
    written(tmp_path, "20261101-x", *clean(2, kafka="3.9.1"), *clean(3, kafka="3.9.0"))
    written(tmp_path, "20261102-x", *clean(2, kafka="3.9.1"), *clean(1, kafka="3.10.0"))

    assert len(read_side("3.9.1", tmp_path).runs) == 4
    assert len(read_side("3.9", tmp_path).runs) == 7
    assert read_side("3.9", tmp_path).kafka == ["3.9.0", "3.9.1"]
    with pytest.raises(UsageError, match=r"No night has run Kafka 3\.1; .* 3\.9\.1, 3\.10\.0\."):
        read_side("3.1", tmp_path)


def test_a_campaign_is_the_runs_in_its_folder_and_the_last_attempt_counts(tmp_path: Path) -> None:
    folder = tmp_path / "20261124T010000-search-7"
    folder.mkdir()
    failed = replace(ran(verdict=Verdict.UNKNOWN), run="")
    lines = [run.document() for run in (failed, *clean(2))]
    # It was written before runs kept these times.
    del lines[1]["measured"]["shrinks_s"]
    (folder / "runs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    found = read_side(str(folder), tmp_path)

    assert (found.name, found.runs) == (folder.name, tuple(clean(2)))
    (folder / "runs.jsonl").write_text('{"claim": "x"}\n')
    with pytest.raises(HistoryUnreadable, match=r"runs\.jsonl cannot be read"):
        read_side(str(folder), tmp_path)


def test_what_is_no_side_is_refused_with_what_there_is(tmp_path: Path) -> None:
    for name in ("nowhere", "4.3.1"):
        with pytest.raises(UsageError, match=r"has no runs: `kafka-chaos nightly` makes some"):
            read_side(name, tmp_path)
    written(tmp_path, "20261101-x", *clean(1))
    with pytest.raises(UsageError, match=r"^nowhere is no folder.* has runs of 4\.3\.1\.$"):
        read_side("nowhere", tmp_path)
    with pytest.raises(UsageError, match="holds neither a run"):
        read_side(str(tmp_path), tmp_path)
    (tmp_path / "runs.jsonl").touch()
    with pytest.raises(UsageError, match="no run was judged yet"):
        read_side(str(tmp_path), tmp_path)


def test_a_run_without_a_verdict_and_one_of_a_claim_are_refused(tmp_path: Path) -> None:
    run_dir, _ = stored(tmp_path)
    run_dir.update(provokes=None, settings=None)
    with pytest.raises(HistoryUnreadable, match="does not say what was run"):
        read_side(str(run_dir.path), tmp_path)
    (run_dir.path / "verdict.json").unlink()
    with pytest.raises(UsageError, match="has no verdict yet"):
        read_side(str(run_dir.path), tmp_path)
    run_dir.update(claim="18")
    with pytest.raises(UsageError, match="is the run of a claim"):
        read_side(str(run_dir.path), tmp_path)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "code"),
    [(clean(6), 0), ([*clean(5), ran(LOSS, seed=5)], 1), (clean(2), 3)],
    ids=["nothing new", "a new finding", "too few"],
)
def test_the_command_says_it_and_ends_with_its_verdict(
    invoke: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    runs: list[ScenarioResult],
    code: int,
) -> None:
    store = tmp_path / "runs"
    written(store, "20261101-x", *clean(6, kafka="3.9.1"), *runs)

    ended, out, err = invoke("compare", "3.9", "4.3.1", "--json")

    document = json.loads(out)
    assert ended == code, err
    assert Verdict[document["verdict"]].exit_code == code
    assert f"{document['verdict']} {document['answer']}" in err.replace("\u202f", " ")
    assert "100 records/s (100 records/s to 100 records/s), 6 in 6 runs" in err
    assert (LOSS.text in err) == (code == 1)
    assert ("FORBIDDEN, only 4.3.1" in err) == (code == 1)
    assert document["a"]["kafka"] == ["3.9.1"]


def test_the_page_needs_no_network_and_escapes_what_it_shows(
    invoke: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    odd = Fingerprint(anomaly="lost-write", kind="<script>", workload="send_poll")
    times = recovering([(8.0,), (9.0,), (12.0,)])
    written(tmp_path / "runs", "20261101-x", *clean(6, kafka="3.9.1"), ran(odd, seed=9), *times)
    written(tmp_path / "runs", "20261102-x", ran(kafka="3.9.1", recoveries_s=(3.0,), seed=8))

    ended, _, err = invoke("compare", "3.9.1", "4.3.1", "--page", "page.html")

    assert ended == 1
    assert err.endswith("page: page.html")
    page = (tmp_path / "page.html").read_text()
    tree = tree_of(page)
    assert not tree.links
    assert not {"script", "link", "img", "iframe"} & tree.tags
    assert "3.9.1: 3.0\u202fs (3.0\u202fs to 3.0\u202fs)" in page
    assert "FORBIDDEN, only 4.3.1" in page
    assert invoke("compare", "3.9.1", "4.3.1", "--page", "nowhere/page.html")[0] == 2


def test_the_command_refuses_what_is_not_there(
    invoke: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    ended, out, err = invoke("compare", "3.9", "4.3.1")

    assert (ended, out) == (2, "")
    assert err.startswith("UsageError: No night has run Kafka 3.9;")
