"""night.yaml: versions × contracts × workloads × faults by weight, and what is wrong in it."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import Cell, Session
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.night_log import CONTROL, NightRun
from harness.campaigns.night_matrix import NightMatrix
from harness.campaigns.nights import spend_night
from harness.campaigns.repetitions import topic_of
from harness.campaigns.scenario_result import ScenarioResult
from harness.cli import main as cli
from harness.cli.night_file import TEMPLATE, read_night
from harness.core.errors import UsageError
from harness.core.run_dir import canonical_json
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun, settings_of
from tests.unit.campaign_fixture import Machine, machine

__all__ = ["machine"]

SMALL = """
kafka: {"4.3.1": 3, "3.9.1": 1}
acks: [all, "1"]
workload: [send_poll, transactional]
faults: ["broker_kill,gc_pause", partition]
duration: 60s
broker-config: [num.io.threads=2, compression.type=gzip]
exclude:
  - {workload: transactional, faults: partition}
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., NightMatrix]:
    def night_of(text: str = SMALL, seed: int | None = 7, **below: Any) -> NightMatrix:
        path = tmp_path / "night.yaml"
        path.write_text(text)
        return read_night(path, below=below, seed=seed)

    return night_of


def drawn(night: NightMatrix, count: int) -> list[dict[str, Any]]:
    return [dict(cell.settings) for cell in islice(night.cells(), count)]


def end_after(machine: Machine, runs: int) -> None:
    """Stop the next one when so many runs have been made."""

    def stop(runner: Runner) -> None:
        if len(machine.runners) > runs:
            runner.stop.set()

    machine.during = stop


# -- what is run -----------------------------------------------------------------------------------


def test_a_control_comes_first_on_each_version(read: Callable[..., NightMatrix]) -> None:
    first, second, third = drawn(read(), 3)

    assert [(each["scenario"], each["kafka"]) for each in (first, second)] == [
        (CONTROL, "4.3.1"), (CONTROL, "3.9.1"),
    ]  # fmt: skip
    assert third["scenario"] == "mixed"


def test_combinations_are_run_by_their_weights_and_none_is_left_to_chance(
    read: Callable[..., NightMatrix],
) -> None:
    _, _, *cells = drawn(read(), 2 + 48)

    by_version = Counter(cell["kafka"] for cell in cells)
    kinds = {(c["kafka"], c["acks"], c["workload"], c["faults"]) for c in cells}

    assert by_version["4.3.1"] == pytest.approx(36, abs=6)
    # Transactions need acks=all, and are excluded with one of the mixes.
    assert len(kinds) == 2 * (2 * 2 + 1)
    assert ("4.3.1", "all", "transactional", "partition") not in kinds


def nights(cells: Sequence[Cell[ScenarioResult]], *, rare: str = "") -> list[NightRun]:
    """Return the runs of one night, of which those with these faults reached what is rare."""
    return [
        NightRun(
            night="20261120T000000-nightly-7",
            result=ScenarioResult(
                settings=cell.settings, verdict=Verdict.VALID, reasons=(), run=f"r-{n}",
                situations={"common": 1, f"rare {n}": int(cell.settings.get("faults") == rare)},
            ),
        )
        for n, cell in enumerate(cells)
    ]  # fmt: skip


def kind(cell: Cell[ScenarioResult]) -> tuple[Any, ...]:
    return tuple(cell.settings.get(name) for name in ("kafka", "acks", "workload", "faults"))


def test_what_earlier_nights_did_not_come_to_is_run_first(read: Callable[..., NightMatrix]) -> None:
    alike = read(SMALL.replace('"4.3.1": 3', '"4.3.1": 1'))
    first = [*islice(alike.cells(), 2 + 6)]

    second = [*islice(alike.cells(nights(first)), 2 + 6)]

    # All ten: without memory the second night would be the first again.
    assert len({kind(cell) for cell in [*first[2:], *second[2:]]}) == 2 * (2 * 2 + 1)


def test_what_reached_rare_situations_is_run_more_often(read: Callable[..., NightMatrix]) -> None:
    first = [*islice(read().cells(), 2 + 60)]
    faults = first[2].settings["faults"]

    plain, rare = (
        sum(cell.settings.get("faults") == faults for cell in islice(read().cells(before), 2 + 60))
        for before in (nights(first), nights(first, rare=faults))
    )

    assert rare > 1.2 * plain


def test_runs_of_one_cluster_follow_each_other(read: Callable[..., NightMatrix]) -> None:
    _, _, *cells = drawn(read(), 2 + 36)

    on_one = [len([*runs]) for _, runs in groupby(cells, key=lambda cell: cell["kafka"])]

    assert all(runs % 3 == 0 for runs in on_one)


def test_a_version_of_little_weight_does_not_wait_for_all_of_the_others(
    read: Callable[..., NightMatrix],
) -> None:
    _, _, *cells = drawn(read(), 2 + 6)

    assert {cell["kafka"] for cell in cells} == {"4.3.1", "3.9.1"}


def test_what_holds_for_every_run_is_in_every_run_and_in_the_control(
    read: Callable[..., NightMatrix],
) -> None:
    control, _, first = (cell.run for cell in islice(read().cells(), 3))

    for run in (control, first):
        assert ("num.io.threads", "2") in run.cluster.config
        assert ("compression.type", "gzip") in run.cluster.config
    assert isinstance(first, ScenarioRun)
    assert first.scenario.duration_s == 60.0


def test_brokers_are_configured_by_each_entry_of_a_list_of_lists(
    read: Callable[..., NightMatrix],
) -> None:
    night = read(
        """
        broker-config: [[], [num.io.threads=2, compression.type=gzip]]
        acks: [all, "1"]
        exclude: [{broker-config: [num.io.threads=2, compression.type=gzip], acks: "1"}]
        """
    )

    plain, changed, *cells = islice(night.cells(), 2 + 30)

    assert {plain.settings["scenario"], changed.settings["scenario"]} == {CONTROL}
    assert "broker_config=none" in plain.title
    assert ("num.io.threads", "2") not in plain.run.cluster.config
    assert ("num.io.threads", "2") in changed.run.cluster.config
    kinds = {
        (("num.io.threads", "2") in cell.run.cluster.config, cell.settings["acks"])
        for cell in cells
    }
    assert kinds == {(False, "all"), (False, "1"), (True, "all")}
    # Each change is a new cluster.
    assert sum(a.run.cluster != b.run.cluster for a, b in pairwise(cells)) <= 10


def test_one_setting_of_brokers_may_have_values_with_weights(
    read: Callable[..., NightMatrix],
) -> None:
    night = read("broker-config: {num.io.threads=2: 3, num.io.threads=4: 1}")

    _, _, *cells = islice(night.cells(), 2 + 12)

    assert sum(("num.io.threads", "2") in cell.run.cluster.config for cell in cells) == 9


MINE = """
scenario: mixed
kafka: 3.9.1
seed: 7
acks: "1"
duration: 20s
broker-config: [num.io.threads=2]
steps:
  - {after: leader_elected(orders), fault: broker_kill, target: leader_of(orders), hold: 4s}
"""


def test_a_night_runs_scenario_files_and_its_own_settings_stand_above_theirs(
    read: Callable[..., NightMatrix], tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    night = read(
        f"""
        scenario: [mixed, {tmp_path / "mine.yaml"}]
        acks: all
        faults: [gc_pause, partition]
        hold: 4s-20s
        exclude: [{{scenario: {tmp_path / "mine.yaml"}, faults: partition}}]
        """,
        kafka="4.3.1", duration="90s",
    )  # fmt: skip
    # Its steps stand there, whatever is drawn elsewhere.
    assert len(night.combinations()[0]) == 3
    assert not night.left_out_lines()
    asked = json.loads(canonical_json(night.asked()))
    (tmp_path / "mine.yaml").unlink()
    for each in (night, NightMatrix.read(asked, night.make, seed=7)):
        ours, theirs, *cells = islice(each.cells(), 2 + 6)
        mixed = next(cell for cell in cells if cell.settings["scenario"] == "mixed")
        mine = next(cell for cell in cells if cell.settings["scenario"] != "mixed")

        assert [ours.run.cluster.kafka, mixed.run.cluster.kafka] == ["4.3.1", "4.3.1"]
        assert [theirs.run.cluster.kafka, mine.run.cluster.kafka] == ["3.9.1", "3.9.1"]
        assert ("num.io.threads", "2") in theirs.run.cluster.config
        assert isinstance(mine.run, ScenarioRun)
        assert mine.settings["scenario"].endswith("mine.yaml")
        assert mine.run.scenario.contract.acks == "all"
        assert mine.run.scenario.duration_s == 20.0
        assert isinstance(mixed.run, ScenarioRun)
        assert mixed.run.scenario.duration_s == 90.0
        (step,) = json.loads(mine.run.plan_json(mine.seed))["steps"]
        # Each run of a night has a topic of its own.
        parts = (step["after"]["event"], step["target"])
        topic = topic_of(mine.settings["number"], None)
        assert [part["parameters"]["topic"] for part in parts] == [topic, topic]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("acks: maybe", "maybe"),
        ("store: elsewhere", "cannot honour store"),
        ("scenario: other.yaml", "cannot honour scenario"),
        ("scenario: [mixed, search]", "no scenario 'mixed,search'"),
        ("scenario: 5", "no scenario '5'"),
        ("steps: []", "list of steps"),
    ],
)
def test_what_is_wrong_in_a_scenario_file_of_a_night_is_told_with_its_place(
    read: Callable[..., NightMatrix], tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "mine.yaml").write_text(f"duration: 20s\n{line}\n")

    with pytest.raises(UsageError, match=said) as raised:
        read(f"scenario: {tmp_path / 'mine.yaml'}")

    assert "mine.yaml:2:1" in str(raised.value)


def test_one_seed_gives_one_night(read: Callable[..., NightMatrix]) -> None:
    assert drawn(read(), 20) == drawn(read(), 20)
    assert drawn(read(), 20) != drawn(read(seed=8), 20)


def test_a_night_is_the_same_after_it_was_written_and_read(
    read: Callable[..., NightMatrix],
) -> None:
    night = read()
    asked = json.loads(canonical_json(night.asked()))

    again = NightMatrix.read(asked, night.make, seed=7)

    assert again.asked() == night.asked()
    assert drawn(again, 20) == drawn(night, 20)


def test_a_run_is_repeated_from_the_settings_in_its_folder(
    read: Callable[..., NightMatrix],
) -> None:
    cell = next(islice(read().cells(), 4, None))
    assert isinstance(cell.run, ScenarioRun)
    settings = json.loads(json.dumps(settings_of(cell.run.scenario)))

    again = configure(cell.run.name, Overrides(**settings))

    assert ScenarioRun(again).plan_json(cell.seed) == cell.run.plan_json(cell.seed)


def test_what_cannot_be_run_is_told_in_a_line_for_each_reason(
    read: Callable[..., NightMatrix],
) -> None:
    excluded, impossible = read().left_out_lines()

    assert excluded == (
        "left out: 4 of 16 combinations: workload=transactional, faults=partition is excluded."
    )
    assert impossible.startswith(
        "left out: 2 of 16 combinations "
        "(acks=1, workload=transactional, faults=broker_kill,gc_pause): Transactions need"
    )


def test_a_night_in_which_nothing_can_be_run_is_refused(
    read: Callable[..., NightMatrix], tmp_path: Path
) -> None:
    night = read('workload: transactional\nacks: "1"')

    with pytest.raises(UsageError, match="Nothing of this night can be run"):
        spend_night(night, Session(store=tmp_path / "runs"))


def test_a_night_of_a_file_goes_on_with_its_seeds_and_no_other_does(
    machine: Machine, tmp_path: Path, read: Callable[..., NightMatrix]
) -> None:
    end_after(machine, 2)
    spend_night(read(), Session(store=tmp_path))
    end_after(machine, 5)

    summary = spend_night(read(seed=None), Session(store=tmp_path, resume=True))

    assert [r.settings for r in summary.results] == drawn(read(), len(summary.results))
    assert len(summary.results) == 4
    with pytest.raises(UsageError, match="leave out --resume"):
        spend_night(read("acks: all", seed=None), Session(store=tmp_path, resume=True))
    (folder,) = tmp_path.glob("*-nightly-7")
    told = (folder / "summary.md").read_text()
    assert "mixed send_poll acks=all min.isr=2 faults=broker_kill,gc_pause kafka=4.3.1 " in told
    assert any("kafka=3.9.1" in line for line in summary.lines())


def test_the_project_counts_below_the_file(read: Callable[..., NightMatrix]) -> None:
    night = read("acks: all", kafka="3.9.1", duration="90s")

    (_, first) = (cell.run for cell in islice(night.cells(), 2))

    assert first.cluster.kafka == "3.9.1"


# -- what is wrong in a file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- acks", "1:1: The file is to hold settings"),
        ("akcs: all", "1:1: There is no setting akcs. Did you mean acks?"),
        ("acks: [all, many]", "1:1: The setting --acks"),
        ("acks: []", "1:1: acks has no value."),
        ("acks: {all: often}", "1:8: The weight of all is to be a number."),
        ("acks: {all: 0}", "1:8: The weight of all is to be above 0"),
        ("kafka: [4.10, 3.9.1]", "1:1: Write versions in quotes"),
        ("scenario: mixd", "Did you mean 'mixed'?"),
        ("faults: [broker_kil]", "Did you mean 'broker_kill'?"),
        ("duration: 60", "1:1: '60' is not a duration"),
        ("acks: all\nexclude: {acks: all}", "2:1: exclude is to be a list"),
        ("acks: all\nexclude: [{kafka: 3.9.1}]", "2:12: The file sets no kafka"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    read: Callable[..., NightMatrix], text: str, words: str
) -> None:
    with pytest.raises(UsageError) as raised:
        read(text)

    assert words in str(raised.value)
    assert "night.yaml:" in str(raised.value)


# -- the commands ----------------------------------------------------------------------------------


def invoke(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", *words])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_init_writes_a_file_that_nightly_takes_and_never_overwrites_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert invoke(monkeypatch, "init") == 0
    assert (tmp_path / "night.yaml").read_text() == TEMPLATE.read_text()
    night = read_night(Path("night.yaml"), below={}, seed=1)
    night.reject()
    assert {cell["kafka"] for cell in drawn(night, 2)} == {"4.3.1", "3.9.1"}

    assert invoke(monkeypatch, "init") == 2
    assert "is there already" in capfd.readouterr().err


def test_nightly_runs_the_matrix_of_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: Machine
) -> None:
    end_after(machine, 3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SMALL)

    invoke(monkeypatch, "nightly", "mine.yaml", "--seed", "7")

    assert [runner.run.cluster.kafka for runner in machine.runners[:3]] == [
        "4.3.1", "3.9.1", "4.3.1",
    ]  # fmt: skip


@pytest.mark.parametrize("first", [("mine.yaml",), ("--kafka", "3.9.1")])
def test_resume_alone_goes_on_with_the_last_night_whatever_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: Machine, first: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SMALL)
    end_after(machine, 2)
    invoke(monkeypatch, "nightly", *first, "--seed", "7")
    end_after(machine, 5)

    invoke(monkeypatch, "nightly", "--resume")

    # The third was cut short, so it is run again.
    *_, cut, again, fourth, _ = (runner.seed for runner in machine.runners)
    assert cut == again != fourth
    (folder,) = Path("runs").glob("*-nightly-7")
    assert len((folder / "runs.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("asked", "ends", "said"),
    [
        ('{"matrix": {"choices": {"acks": []}}, "seed": 7}', 2, "give its file"),
        ('{"matrix": {"cho', 3, "matrix.json cannot be read as JSON"),
        ("[7]", 3, "matrix.json holds no JSON object"),
    ],
)
def test_a_last_night_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    asked: str,
    ends: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "20261126T220000-nightly-7"
    folder.mkdir(parents=True)
    (folder / "matrix.json").write_text(asked)

    assert invoke(monkeypatch, "nightly", "--resume") == ends
    assert said in " ".join(capfd.readouterr().err.split())


def test_a_flag_beside_a_file_that_says_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SMALL)

    assert invoke(monkeypatch, "nightly", "mine.yaml", "--kafka", "4.3.1") == 2
    assert "leave out --kafka" in " ".join(capfd.readouterr().err.split())
