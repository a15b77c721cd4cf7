"""The bench `power`: what a search's document says, what goes say together, and what is kept."""

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.campaigns.search import Search
from harness.cli.main import app
from harness.cli.settings import SETTINGS, scenario_of
from harness.core.cluster import ClusterSpec
from harness.core.errors import EnvironmentBroken, HealFailed, HistoryUnreadable, UsageError
from harness.core.fault import describe, phrase
from harness.core.schedule import Mix
from harness.core.wait import wait_until
from tests.bench import power
from tests.bench._bugs import BUGS, Bug
from tests.bench._goals import exit_code
from tests.bench._power_figures import (
    Contribution,
    Figures,
    Go,
    contribution_of,
    figures_of,
    goals_of,
    read_goes,
)
from tests.bench._power_page import NOTES_BEGIN, NOTES_END, notes_of, page, write_page
from tests.bench.power import Wanted, go_of, mix, read_document
from verifiers.checking.checker import CHECKERS
from verifiers.oracle.table import chapter_of

LOSS = BUGS["kip101-loss"]
OTHER = BUGS["kafka10706"]


def wanted(bug: Bug = LOSS, **more: Any) -> Wanted:
    return Wanted(**{"bug": bug, "side": "affected", "seed": 3, "budget_s": 1200.0, **more})


def run(name: str, verdict: str = "VALID", **more: Any) -> dict[str, Any]:
    return {"run": name, "verdict": verdict, "seconds": 100.0, "anomalies": {}, **more}


def document(*runs: Mapping[str, Any], **forbidden: Mapping[str, int]) -> dict[str, Any]:
    return {
        "runs": list(runs),
        "found": [
            {
                "run": name,
                "forbidden": dict(each),
                "shown": sorted({*each, *(f"{anomaly}(explained)" for anomaly in each)}),
            }
            for name, each in forbidden.items()
        ],
        "situations": {"leader-epoch-bump": 4, "truncation": 1, "log-roll": 0},
        "elapsed_s": 700.0,
    }


def read(said: Mapping[str, Any], asked: Wanted | None = None, **judged_s: float) -> Go:
    return go_of(asked or wanted(), said, judged_s=judged_s.get, folder="go")


# -- what a search's document says -----------------------------------------------------------------


def test_the_first_run_with_an_anomaly_of_the_bug_counts() -> None:
    said = document(
        run("a"), run("b", "INVALID"), run("c", "INVALID"), run("d", "UNKNOWN"),
        b={"duplicate": 9}, c={"lost-write": 3, "duplicate": 1},
    )  # fmt: skip

    go = read(said, a=100.0, b=200.0, c=310.04, d=400.0)

    assert (go.found, go.seconds, go.run, go.anomalies) == (True, 310.0, "go/c", {"lost-write": 3})
    assert go.others == ({"run": "go/b", "anomalies": {"duplicate": 9}},)
    assert (go.runs, go.known, go.situations) == (4, 3, 2)


def test_another_bug_of_the_version_is_not_the_one_that_is_looked_for() -> None:
    go = read(document(run("b", "INVALID"), b={"duplicate": 9}), b=200.0)

    assert (go.found, go.seconds, go.run) == (False, None, "")


def test_another_kind_of_its_anomaly_is_not_the_one_that_is_looked_for() -> None:
    said = document(run("b", "INVALID"), b={"lost-write": 9})
    said["found"][0]["shown"] = ["lost-write", "lost-write(partly-destroyed)"]

    assert not read(said, b=200.0).found


def test_the_earliest_judgement_counts_whatever_the_order_of_the_runs() -> None:
    said = document(run("a"), run("b"), a={"lost-write": 1}, b={"lost-write": 2})

    assert read(said, a=500.0, b=400.0).run == "go/b"


@pytest.mark.parametrize(
    ("at_s", "judged_s", "seconds"),
    [(250.0, 300.0, 250.0), (None, 300.0, 300.0), (None, None, 700.0)],
    ids=["the document", "the file of the verdict", "the whole search"],
)
def test_when_a_run_was_judged_is_taken_from_who_knows_best(
    at_s: float | None, judged_s: float | None, seconds: float
) -> None:
    said = document(run("a", at_s=at_s), a={"lost-write": 1})

    assert go_of(wanted(), said, judged_s=lambda _: judged_s, folder="go").seconds == seconds


@pytest.mark.parametrize("out", ["", "INVALID 3 runs", "[]"])
def test_what_is_no_document_says_nothing(out: str) -> None:
    with pytest.raises(HistoryUnreadable):
        read_document(out)


# -- what goes say together ------------------------------------------------------------------------


def go(bug: Bug = LOSS, *, at: float | None = None, side: Any = "affected", **more: Any) -> Go:
    made = read(document(run("a")), wanted(bug, side=side))
    return replace(made, found=at is not None, seconds=at, **more)


def figures(*times: float | None, fixed: Sequence[Go] = (), bug: Bug = LOSS) -> Figures:
    return Figures(bug=bug, budget_s=1200.0, affected=[go(bug, at=at) for at in times], fixed=fixed)


@pytest.mark.parametrize(
    ("times", "found", "median"),
    [
        ([60.0, 300.0, 600.0], 3, "5.0"),
        ([60.0, None, 300.0, None, 600.0], 3, "10.0"),
        ([60.0, 300.0, None, None], 2, "≥ 12.5"),
        ([60.0, None, None], 1, "> 20"),
        ([60.0, 1300.0, 1400.0], 1, "> 20"),
        ([], 0, "not measured yet"),
    ],
)
def test_the_median_is_censored_at_the_budget(
    times: list[float | None], found: int, median: str
) -> None:
    assert (figures(*times).found, figures(*times).median_min) == (found, median)


def test_goes_with_other_flags_or_a_smaller_budget_do_not_count() -> None:
    goes = [
        go(at=60.0),
        go(at=60.0, budget_s=1199.0),
        go(at=60.0, settings=("--kafka", "0.10.2.1")),
        go(OTHER, at=60.0),
        go(side="fixed", budget_s=60.0),
    ]

    got = figures_of(LOSS, goes, budget_s=1200.0)

    assert (len(got.affected), len(got.fixed)) == (1, 1)


def test_goes_without_a_pattern_are_counted_apart() -> None:
    without = wanted(without="returned")
    goes = [go(at=60.0), go(settings=without.settings, without="returned")]
    patterns = without.settings[-2:]

    assert figures_of(LOSS, goes, budget_s=1200.0).found == 1
    assert figures_of(LOSS, goes, budget_s=1200.0, patterns=patterns).found == 0
    assert patterns[0] == "--patterns"
    assert "returned" not in patterns[1]
    assert len(patterns[1].split(",")) == len(mix(LOSS.workload)) - 1


def test_a_contribution_compares_what_was_found_in_the_time_of_the_shortest_go_without() -> None:
    without = wanted(without="returned")
    shorter, longer = (
        go(settings=without.settings, budget_s=budget_s) for budget_s in (480.0, 600.0)
    )
    goes = [go(at=60.0), go(at=500.0), shorter, longer]

    got = contribution_of("returned", LOSS, goes, patterns=without.settings[-2:])

    assert got is not None
    assert (got.all_patterns.found, len(got.all_patterns.affected)) == (1, 2)
    assert (got.all_but_it.found, len(got.all_but_it.affected)) == (0, 2)
    assert got.all_but_it.budget_s == 480.0
    assert contribution_of("divided", LOSS, goes, patterns=("--patterns", "returned")) is None


def missed(asked: Figures, *others: Figures) -> set[str]:
    goals = goals_of([asked], [asked, *others])
    assert exit_code(goals) == any(not goal.is_met for goal in goals)
    return {goal.name.rpartition(", ")[0] for goal in goals if not goal.is_met}


SILENT = [go(side="fixed")]


@pytest.mark.parametrize(
    ("times", "met"),
    [
        ([600.0], True),
        ([601.0], False),
        ([60.0, None], False),
        ([60.0, 60.0, None], True),
        ([None], False),
        ([], False),
    ],
)
def test_a_median_that_is_late_or_not_known_misses_its_goal(
    times: list[float | None], *, met: bool
) -> None:
    assert (not missed(figures(*times, fixed=SILENT))) is met


def test_a_finding_on_the_fixed_version_misses_the_goal() -> None:
    found = figures(60.0, fixed=[*SILENT, go(side="fixed", at=30.0, run="go/a")])

    assert missed(found) == {"kip101-loss, on the fixed version 0.11.0.3"}
    assert found.document()["false_alarms"] == ["go/a"]


@pytest.mark.parametrize("fixed", [[], [go(side="fixed", verdicts={"UNKNOWN": 3})]])
def test_a_fixed_version_of_which_nothing_is_known_misses_the_goal(fixed: list[Go]) -> None:
    assert missed(figures(60.0, fixed=fixed))


def test_of_the_bugs_without_a_goal_one_has_to_be_found_within_an_hour() -> None:
    seldom = BUGS["kafka17754"]
    none = Figures(
        bug=OTHER, budget_s=3600.0, affected=[go(OTHER)], fixed=[go(OTHER, side="fixed")]
    )
    late = Figures(bug=seldom, budget_s=3600.0, affected=[go(seldom, at=3500.0)])

    assert missed(none)
    assert not missed(none, late)


def test_no_median_is_null_in_the_document() -> None:
    got = figures(None).document()

    assert (got["median_s"], got["median_min"], got["goes"]) == (None, "> 20", 1)
    assert json.loads(json.dumps(got)) == got


# -- the table of bugs -----------------------------------------------------------------------------


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_counts_as_anomalies_that_there_are(bug: Bug) -> None:
    for words in bug.anomalies:
        anomaly, _, kind = words.removesuffix(")").partition("(")
        assert anomaly in CHECKERS
        assert not kind or kind in chapter_of(anomaly).kinds
    assert str(bug.affected) != str(bug.fixed)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_names_no_damage_and_no_broker_property(bug: Bug) -> None:
    dealt = {"--faults", "--targets", "--patterns", "--hold", "--max-at-once", "--broker-config"}

    assert not dealt & set(bug.flags)


SIDES: list[tuple[Bug, Any]] = [
    (bug, side) for bug in BUGS.values() for side in ("affected", "fixed")
]


@pytest.mark.parametrize(("bug", "side"), SIDES, ids=[f"{bug.id}-{side}" for bug, side in SIDES])
def test_a_search_takes_the_flags_of_a_bug_and_draws_the_rest(bug: Bug, side: Any) -> None:
    looked = searched_by(bug.arguments(side))

    # For one run settings and plans are drawn many times: all of them must be possible.
    cell = next(looked.cells())

    assert cell.run.cluster.kafka == looked.kafka


@pytest.mark.parametrize("bug", [LOSS, BUGS["kafka12890"]], ids=lambda bug: bug.workload)
def test_a_search_without_a_pattern_has_all_others(bug: Bug) -> None:
    dealt = mix(bug.workload)
    for without in dealt:
        looked = searched_by(list(wanted(bug, without=without).settings))

        schedule = looked.make(looked.flags, "t").schedule

        assert isinstance(schedule, Mix)
        left = [phrase(describe(pattern)) for pattern in schedule.patterns]
        assert left == [pattern for name, pattern in dealt.items() if name != without]


def test_clients_are_cut_off_late_only_where_there_is_a_coordinator() -> None:
    assert set(mix("consumer_group")) - set(mix("send_poll")) == {"late"}


def searched_by(words: list[str]) -> Search:
    """Return the search that the command line makes of these words."""
    command: Any = typer.main.get_command(app)
    if "--client" in words and not _takes_clients(command):
        at = words.index("--client")
        words = [*words[:at], *words[at + 2 :]]
    search = command.commands["search"]
    flags = search.make_context("search", words, parent=search.context_class(command)).params
    names = ("kafka", *(setting.name for setting in SETTINGS))
    return Search(
        make=lambda flags, topic: scenario_of(flags, topic=topic),
        flags={"scenario": "search", **{name: flags[name] for name in names}},
        kafka=flags["kafka"] or ClusterSpec().kafka,
        seed=7,
    )


def _takes_clients(command: Any) -> bool:
    return any("--client" in each.opts for each in command.commands["search"].params)


# -- the bench -------------------------------------------------------------------------------------

Searches = list[Wanted]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    """Replace searches: each finds the bug after as many minutes as its seed, if it is there."""
    made: Searches = []

    def search(asked: Wanted, store: Path, stop: threading.Event) -> Go:
        made.append(asked)
        found = asked.side == "affected" and asked.seed < 6
        said = document(
            run("a"), **({"a": {asked.bug.anomalies[0].partition("(")[0]: 1}} if found else {})
        )
        return read(said, asked, a=60.0 * asked.seed)

    monkeypatch.setattr(power, "search", search)
    return made


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def call(*words: str) -> tuple[int, dict[str, Any]]:
        code = power.main([*words, "--json", "--store", str(tmp_path)])
        return code, json.loads(capsys.readouterr().out)

    return call


def test_the_fixed_version_is_searched_for_the_median_of_the_affected_one(
    searches: Searches, bench: Callable[..., Any]
) -> None:
    code, said = bench("--bug", "kip101-loss", "--goes", "3")

    assert [(each.side, each.seed, each.budget_s) for each in searches] == [
        *(("affected", seed, 1200.0) for seed in (1, 2, 3)),
        *(("fixed", seed, 120.0) for seed in (1, 2, 3)),
    ]
    assert code == 0
    (figure,) = said["bugs"]
    assert (figure["found"], figure["goes"], figure["median_s"]) == (3, 3, 120.0)
    assert (figure["fixed_goes"], figure["false_alarms"]) == (3, [])


def test_the_fixed_version_may_be_given_more_time(
    searches: Searches, bench: Callable[..., Any]
) -> None:
    bench("--bug", "kip101-loss", "--goes", "1", "--fixed-budget", "10m")

    assert searches[-1].budget_s == 600.0


def test_a_bug_that_is_not_found_misses_and_its_fixed_version_gets_the_budget(
    searches: Searches, bench: Callable[..., Any]
) -> None:
    code, _ = bench("--bug", "kip101-loss", "--goes", "1", "--seed", "8", "--budget", "5m")

    assert code == 1
    assert searches[-1].side == "fixed"
    assert searches[-1].budget_s == 300.0


def test_sessions_add_up_and_what_was_measured_is_not_measured_again(
    searches: Searches, bench: Callable[..., Any], tmp_path: Path
) -> None:
    bench("--bug", "kafka17754", "--goes", "2", "--budget", "20m")
    with (tmp_path / "power.jsonl").open("a") as file:
        file.write('{"bug": "kafka1')
    _, said = bench("--bug", "kafka17754", "--goes", "3", "--budget", "20m", "--resume")

    assert [each.seed for each in searches if each.side == "affected"] == [1, 2, 3]
    assert said["bugs"][0]["goes"] == 3
    assert len(read_goes(tmp_path / "power.jsonl")) == len(searches)
    bench("--bug", "kafka17754", "--goes", "1", "--budget", "20m")
    assert [each.seed for each in searches if each.side == "affected"] == [1, 2, 3, 1]


def test_a_go_with_less_time_is_made_again(searches: Searches, bench: Callable[..., Any]) -> None:
    bench("--bug", "kafka17754", "--goes", "1", "--budget", "10m")
    bench("--bug", "kafka17754", "--goes", "1", "--budget", "20m", "--resume")

    assert [each.budget_s for each in searches if each.side == "affected"] == [600.0, 1200.0]


def test_a_pattern_that_is_left_out_is_measured_on_the_affected_version_alone(
    searches: Searches, bench: Callable[..., Any]
) -> None:
    code, said = bench("--bug", "kip101-loss", "--goes", "1", "--without", "returned", "successor")

    assert [(each.side, each.without) for each in searches] == [
        ("affected", "returned"), ("affected", "successor"),
    ]  # fmt: skip
    assert code == 0
    assert [each["pattern"] for each in said["contributions"]] == ["successor", "returned"]
    assert said["contributions"][1]["all_but_it"]["found"] == 1
    assert said["contributions"][1]["all_patterns"]["goes"] == 0
    assert said["bugs"][0]["goes"] == 0


def test_a_pattern_is_left_out_only_where_the_workload_has_it(
    searches: Searches, bench: Callable[..., Any]
) -> None:
    bench("--bug", "kip101-loss", "kafka12890", "--goes", "1", "--without", "late")

    assert [each.bug.id for each in searches] == ["kafka12890"]


def test_an_interrupted_bench_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, searches: Searches, bench: Callable[..., Any]
) -> None:
    whole = power.search

    def search(asked: Wanted, store: Path, stop: threading.Event) -> Go:
        if asked.seed == 2:
            signal.raise_signal(signal.SIGINT)
            raise power._Interrupted
        return whole(asked, store, stop)

    monkeypatch.setattr(power, "search", search)

    code, said = bench("--bug", "kip101-loss", "--goes", "3")

    assert code == 130
    assert said["bugs"][0]["goes"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--bug", "kip102"), "There is no bug kip102"),
        (("--without", "return"), "no pattern return; it deals successor"),
        (("--goes", "-1"), "from 0 on"),
        (("--budget", "20"), "is not a duration"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    searches: Searches, tmp_path: Path, words: Sequence[str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        power.main([*words, "--store", str(tmp_path)])

    assert not searches


# -- one search ------------------------------------------------------------------------------------


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the program of a search by another."""
    monkeypatch.setattr(power, "prepare", lambda wanted: None)

    def runs(program: str) -> None:
        monkeypatch.setattr(
            Wanted, "command", lambda _, store: [sys.executable, "-c", program, str(store)]
        )

    return runs


SEARCHING = """
import json, pathlib, sys
store = pathlib.Path(sys.argv[1])
for name in "abc":
    (store / name / "history").mkdir(parents=True)
    for file in ("run.json", "verdict.json", "history/x"):
        (store / name / file).write_text("{}")
(store / "latest").symlink_to("b")
print(json.dumps(%r))
sys.exit(1)
"""


@pytest.mark.parametrize("side", ["affected", "fixed"])
def test_run_folders_with_a_finding_stay_and_of_the_others_the_verdicts(
    child: Callable[[str], None], tmp_path: Path, side: Any
) -> None:
    said = document(
        run("a"), run("b", "INVALID"), run("c", "INVALID"),
        b={"lost-write": 3}, c={"duplicate": 1},
    )  # fmt: skip
    child(SEARCHING % said)

    made = power.search(wanted(side=side), tmp_path, threading.Event())

    (folder,) = tmp_path.glob(f"*-kip101-loss-{side}-3")
    assert made.run == f"{folder.name}/b"
    assert made.seconds is not None
    assert 0 <= made.seconds < 60
    assert {path.parent.name for path in folder.glob("*/run.json")} - {"latest"} == set("bc")
    assert {path.parent.name for path in folder.glob("*/verdict.json")} >= set("abc")


@pytest.mark.parametrize(
    ("code", "error"), [(2, UsageError), (4, EnvironmentBroken), (5, HealFailed)]
)
def test_a_search_that_fails_is_no_go(
    child: Callable[[str], None], tmp_path: Path, code: int, error: type[Exception]
) -> None:
    child(f"import sys; print('no engine', file=sys.stderr); sys.exit({code})")

    with pytest.raises(error, match="no engine"):
        power.search(wanted(), tmp_path, threading.Event())


def test_a_search_without_a_judged_run_says_nothing(
    child: Callable[[str], None], tmp_path: Path
) -> None:
    said = document(run("a", "UNKNOWN") | {"run": None})
    child(f"import json, sys; print(json.dumps({said!r})); sys.exit(3)")

    with pytest.raises(EnvironmentBroken, match="says nothing"):
        power.search(wanted(), tmp_path, threading.Event())


def test_an_interrupt_ends_the_search_in_order(
    child: Callable[[str], None], tmp_path: Path
) -> None:
    healing = """
import pathlib, signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stop.set())
pathlib.Path(sys.argv[1], "ready").touch()
stop.wait(30)
pathlib.Path(sys.argv[1], "healed").touch()
sys.exit(130)
"""
    child(healing)
    stop = threading.Event()

    def interrupt() -> None:
        wait_until(lambda: list(tmp_path.glob("*/ready")), timeout_s=30, what="the search to begin")
        stop.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(power._Interrupted):
        power.search(wanted(), tmp_path, stop)
    thread.join()

    assert list(tmp_path.glob("*/healed"))


def test_the_command_is_one_that_a_user_would_give() -> None:
    words = wanted(budget_s=90.2).command(Path("/store"))

    assert " ".join(words[1:]) == (
        "-m kafka_chaos search --kafka 0.10.2.2 --workload send_poll --unclean-election off "
        "--stop-at lost-write(explained) --budget 91s --seed 3 --json --store /store"
    )


# -- the page --------------------------------------------------------------------------------------


def every(*measured: Figures) -> list[Figures]:
    there = {each.bug.id: each for each in measured}
    return [
        there.get(bug.id) or Figures(bug=bug, budget_s=1200.0, affected=[]) for bug in BUGS.values()
    ]


def test_the_page_has_a_row_for_every_bug_and_says_what_was_not_measured() -> None:
    text = page(every(), contributions=[], goes=[], notes="")

    rows = [line for line in text.splitlines() if "not measured yet" in line]
    assert all(any(row.startswith(f"| `{name}` |") for row in rows) for name in BUGS)


def test_the_page_shows_figures_alarms_and_contributions() -> None:
    alarm = go(side="fixed", at=30.0, run="go/a", anomalies={"lost-write": 2})
    measured = figures(60.0, 300.0, None, fixed=[alarm, *SILENT])
    contribution = Contribution(
        pattern="returned", all_patterns=measured, all_but_it=figures(None, None)
    )

    text = page(every(measured), contributions=[contribution], goes=[], notes="")

    assert "| `kip101-loss` | 0.10.2.2 | 2 of 3 | 5.0 | 10 | 2 | 5 | 0.11.0.3 | 1 of 2 (2" in text
    assert "| `kip101-loss` | 0.11.0.3 | 3 | lost-write ×2 | `go/a` |" in text
    assert "| `kip101-loss` | `returned` | 20 | 0 of 2, > 20 | 2 of 3, 5.0 |" in text


def test_notes_are_kept_when_the_page_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "power.md"
    write_page(path, every(), contributions=[], goes=[])
    path.write_text(
        path.read_text().replace(
            f"{NOTES_BEGIN}\n", f"{NOTES_BEGIN}\nLonger holds did not help.\n\nNor did | bars |.\n"
        )
    )

    write_page(path, every(figures(60.0)), contributions=[], goes=[go(at=60.0), go(at=9.0, seed=7)])

    text = path.read_text()
    assert "Longer holds did not help.\n\nNor did | bars |." in notes_of(text)
    assert "1 of 1" in text
    assert "left out: 1" in text
    assert (text.count(NOTES_BEGIN), text.count(NOTES_END)) == (1, 1)


def test_the_page_of_this_tree_has_every_bug_and_its_goal() -> None:
    text = (Path(__file__).parents[2] / "docs" / "power.md").read_text(encoding="utf-8")

    for bug in BUGS.values():
        goal = "one of them" if bug.goal_min is None else f"{bug.goal_min:g}"
        (row, *_) = [line for line in text.splitlines() if line.startswith(f"| `{bug.id}` |")]
        assert f" {bug.affected} |" in row
        assert f" {goal} |" in row
        assert f" {bug.fixed} |" in row


def test_an_infinite_median_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    (goal, *_) = goals_of([figures(None)], [])

    assert goal.measured == math.inf
    exit_code([goal])
    assert "inf (goal: at most 10)" in capsys.readouterr().err
