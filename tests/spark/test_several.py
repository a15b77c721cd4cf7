"""Runs that are verified together come to the verdicts that each comes to alone."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.verdict import Verdict
from tests.batches import v2
from tests.spark.disks import Disk, alike, whole, write_disks
from tests.spark.ops import (
    STEP_NS,
    TOPIC,
    Folder,
    Rec,
    end,
    event,
    fail,
    filler,
    final,
    info,
    ok,
    poll,
)
from tests.spark.stories.disks import OTHER, TEN
from tests.spark.stories.groups import FIRST, SECOND, commits, fetches, given, joins, processes
from tests.spark.stories.transactions import whole as transaction
from verifiers.judging import job, verification
from verifiers.judging.job import verify, verify_all
from verifiers.run_folder.result import Report

ALL_THREE = [ok(1, n, n) for n in range(3)]
READ = final(*(Rec(1, n, n) for n in range(3)))
CLIENTS = [
    {"process": 8, "isolation": "read_uncommitted"},
    {"process": 9, "mode": "subscribe"},
]
GROUP = [joins(FIRST, "before-processing"), given(FIRST, 0, 0, 1, 2), commits(FIRST, 3)]

RUNS: Mapping[str, Folder] = {
    "in order": Folder([*filler(120), *ALL_THREE, READ], whole=True),
    "lost": Folder([*filler(120), *ALL_THREE, poll(9, 0, Rec(1, 1, 1)), final(Rec(1, 0, 0))]),
    "damaged": Folder(
        [*ALL_THREE, poll(9, 0, Rec(2, 0, 1)), poll(9, 1, Rec(1, 1, 1, problem="checksum")), READ,
         final(Rec(1, 0, 3)), fail(3, 0), poll(9, 2, Rec(3, 0, 5))]
    ),
    "out of order": Folder(
        [*ALL_THREE, poll(7, 0, Rec(1, 0, 0), Rec(1, 2, 2)), poll(7, 1, Rec(1, 1, 1)),
         poll(7, 2, Rec(1, 2, 2), Rec(1, 0, 0)), poll(9, 0, Rec(1, 0, 0)), event(9, "seek"),
         poll(9, 1, Rec(1, 2, 2)), READ,
         ok(2, 0, 4), ok(2, 1, 3), final(Rec(2, 1, 3), Rec(2, 0, 4)), info(2, 2)],
        meta={"clients": CLIENTS},
    ),
    "skipping group": Folder([*ALL_THREE, READ, *GROUP, processes(FIRST, 0)]),
    "audited group": Folder(
        [*ALL_THREE, READ, joins(FIRST), processes(FIRST, 0), commits(FIRST, 1),
         event(350, "audit", topic=TOPIC, detail="after-processing g one"),
         fetches(350, 2, asked_s=99)]
    ),
    "repeating group": Folder(
        [*ALL_THREE, READ, joins(FIRST), *(processes(FIRST, 0, op=n) for n in range(3)),
         commits(FIRST, 2), joins(SECOND), processes(SECOND, 0), fetches(SECOND, 1, asked_s=99)]
    ),
    "torn": Folder([*transaction("ok"), final(Rec(1, 0, 0))], meta={"clients": CLIENTS}),
    "transactions": Folder(
        [event(1, "takeover", op=0), *transaction("ok"), *transaction("fail", 1),
         poll(8, 0, Rec(1, 0, 0), Rec(1, 2, 2)), final(Rec(1, 0, 0), Rec(1, 1, 1, 1))],
        meta={"clients": CLIENTS},
    ),
    "not read to its end": Folder([*ALL_THREE], ends=[end(partition=0, reached=1)]),
    "nobody waits": Folder(
        [*filler(20), ok(1, 0, 0), *filler(20, producer=51), ok(1, 1, 1)],
        meta={
            "available_within_s": 5,
            "cluster": {"brokers": 3},
            "phases": [
                {"name": "steady", "from_ns": 0, "to_ns": STEP_NS},
                {"name": "faults", "from_ns": STEP_NS, "to_ns": 60 * STEP_NS},
            ],
        },
        faults=[],
    ),
    "nothing at all": Folder([]),
}  # fmt: skip


EVERYTHING = {
    "lost-write", "duplicate", "inconsistent-offsets", "dirty-read", "corrupt-record", "phantom",
    "G1a", "unseen", "int-poll-skip", "int-nonmonotonic-poll", "nonmonotonic-poll", "poll-skip",
    "nonmonotonic-send", "consume-skip", "consume-repeat", "lost-commit", "torn-transaction",
    "zombie-commit", "replica-divergence", "replica-gap", "epoch-disorder", "unavailable",
}  # fmt: skip
"""What is found in one or another of them."""


DIVERGING = "diverging"


def write(runs: Mapping[str, Folder], into: Path) -> dict[str, Path]:
    return {name: runs[name].write(into / name.replace(" ", "-")) for name in runs}


def document(report: object) -> dict[str, Any]:
    assert isinstance(report, Report), report
    return asdict(replace(report, timing_s={}))


def anomalies(path: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(path / "anomalies").to_pylist()
    return sorted(rows, key=str)


def batches(path: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(path / "replicas" / "batches").to_pylist()
    return sorted(rows, key=str)


def diverging(path: Path) -> Path:
    """Write a run whose replicas differ."""
    ends = [end(partition=0, high=10), end(partition=1, high=0)]
    Folder([], ends=ends).write(path)
    disks = {**alike(Disk(content=v2(0, TEN))), **alike(whole(0), partition=1)}
    disks[2, 0] = Disk(content=v2(0, OTHER), epochs=[(0, 0), (3, 2)])
    disks[3, 0] = Disk(content=v2(0, TEN[:5]) + v2(7, TEN[7:]))
    write_disks(path, disks)
    return path


# By day test_stories expects every row of two hundred histories that are judged together.
@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_together_they_come_to_what_each_comes_to_alone(tmp_path: Path) -> None:
    paths = {
        kind: {**write(RUNS, tmp_path / kind), DIVERGING: diverging(tmp_path / kind / DIVERGING)}
        for kind in ("alone", "together")
    }

    told: list[str] = []
    together = paths["together"]
    reports = verify_all(list(together.values()), master="local[2]", say=told.append)

    assert told[0] == f"Gathering {len(together)} runs into one job."
    by_name = dict(zip(together, reports, strict=True))
    for name in together:
        alone, beside = paths["alone"][name], together[name]
        expected = verify(alone, master="local[2]")
        assert document(by_name[name]) == document(expected), name
        assert anomalies(beside) == anomalies(alone)
        assert batches(beside) == batches(alone)
        assert (beside / "lanes.json").read_text() == (alone / "lanes.json").read_text()
        assert not list(beside.glob(".verify-*"))
    found = {name for report in reports for name in document(report)["anomalies"]}
    assert sorted(found ^ EVERYTHING) == []


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", [pytest.param("in order", marks=pytest.mark.nightly), "lost"])
def test_digests_of_several_runs_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(verification, "FEW_ROWS", 1)
    copies = write({f"{name} {number}": RUNS[name] for number in range(3)}, tmp_path)
    paths = list(copies.values())
    paths.append(RUNS["damaged"].write(tmp_path / "damaged"))

    *alike_, damaged = map(document, verify_all(paths, master="local[2]"))

    for one in alike_:
        assert one["anomalies"] == alike_[0]["anomalies"]
    assert set(alike_[0]["anomalies"]) == (
        {"lost-write", "dirty-read"} if name == "lost" else set()
    )
    assert {"duplicate", "inconsistent-offsets", "corrupt-record"} <= set(damaged["anomalies"])


@pytest.mark.usefixtures("spark")
def test_a_folder_that_cannot_be_judged_spoils_no_other(tmp_path: Path) -> None:
    runs = write({name: RUNS[name] for name in ("in order", "lost", "torn")}, tmp_path)
    good, damaged, other = runs.values()
    file = next((damaged / "history" / "send").glob("*.parquet"))
    content = bytearray(file.read_bytes())
    # The footer stays whole: only who reads the pages sees it.
    content[4:60] = b"\xff" * 56
    file.write_bytes(content)
    nowhere = tmp_path / "nowhere"

    reports = verify_all([good, nowhere, damaged, other], master="local[2]")

    assert isinstance(reports[0], Report)
    assert isinstance(reports[1], UsageError)
    assert isinstance(reports[2], HistoryUnreadable)
    assert str(file) in str(reports[2])
    assert isinstance(reports[3], Report)
    assert reports[0].verdict is Verdict.VALID
    assert reports[3].verdict is Verdict.INVALID


# By day the choice is asked for alone, in the unit tests.
@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_long_runs_have_a_job_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "FEW_ROWS", 100)
    names = ("torn", "in order", "skipping group")
    told: list[str] = []

    paths = write({name: RUNS[name] for name in names}, tmp_path)
    reports = verify_all(list(paths.values()), say=told.append)

    assert "Gathering 2 runs into one job." in told
    assert [one.run for one in reports if isinstance(one, Report)] == [
        name.replace(" ", "-") for name in names
    ]


def test_nothing_is_started_for_no_run(tmp_path: Path) -> None:
    (error,) = verify_all([tmp_path / "nowhere"])

    assert isinstance(error, UsageError)
    assert verify_all([]) == ()
