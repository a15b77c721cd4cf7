"""The document of a report: what was written is read again, and nothing else is taken for one."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import RunDir, canonical_json
from harness.core.verdict import Verdict
from verifiers.run_folder.result import (
    AnomalyFinding,
    Counts,
    JudgedFault,
    OffenceExample,
    Report,
    read_verdict,
    write_verdict,
)

LOST = OffenceExample(
    topic="orders", partition=0, offset=41, value=7 << 40 | 9, process=3, time_ns=12_000_000_000,
    kind=None, detail={"lost_by": "broker 1 lost the lead of orders-0"},
)  # fmt: skip
UNPLACED = OffenceExample(
    topic=None, partition=None, offset=None, value=None, process=None, time_ns=None,
    kind="unexplained", detail={},
)  # fmt: skip


def whole_report() -> Report:
    """Return a report in which no field is left at its default."""
    return Report(
        run="a-run", scenario="mixed", seed=None, kafka="4.3.1", verdict=Verdict.INVALID,
        reasons=("It lost records.", "A fault was not felt."),
        anomalies={
            "lost-write": AnomalyFinding(
                count=2, permitted=False, why="acks=all", kinds={"": 1, "unexplained": 1},
                examples=(LOST, UNPLACED), severity=1, phrase="were lost", means="It is gone.",
                permits="", first_ns=1, last_ns=2, undecided=False, forbidden_kinds=("",),
            ),
            "duplicate": AnomalyFinding(
                count=1, permitted=True, why="acks=1", kinds={"": 1}, examples=(), undecided=True,
            ),
        },
        counts=Counts(sends=9, acked=8, failed=1, indeterminate=2, reserved=3, read=7, final=6),
        faults=(
            JudgedFault(
                id="1", name="power_loss", target="leader", victims=(1, 2), injected_at_s=3.0,
                healed_at_s=9.5, proven=True, evidence={"inject": {"seen": [1]}},
                destroys_data=True, felt="felt", signs=("broker 1 lost the lead",),
            ),
            JudgedFault(
                id="2", name="gc_pause", target="any", victims=(), injected_at_s=None,
                healed_at_s=None, proven=False, error="nobody was there",
            ),
        ),
        checkers={"lost-write": "ran"}, timing_s={"start": 8.0, "verify": 7.5},
        adequacy={"readers-read": {"state": "held", "reasons": [], "figures": {"share": 1.0}}},
        replicas={"compared": True}, timeline={"faults": {"1": {"shrink_s": 1.5}}},
        liveness={"widest": {"gap_s": 12.5}}, metrics={"causes": [None]}, group={"name": "g"},
        situations={"leader-lost-by-crash": {"count": 1, "faults": ["1"], "first_s": 3.1}},
    )  # fmt: skip


def test_a_report_that_was_written_is_read_as_it_was() -> None:
    report = whole_report()

    again = Report.read(json.loads(canonical_json(report.to_json())))

    assert again == report
    assert again.to_json() == report.to_json()


def test_what_an_older_report_does_not_say_has_its_default() -> None:
    document = whole_report().to_json()
    del document["situations"], document["group"]
    document["what a later one says"] = 1

    report = Report.read(document)

    assert (report.situations, report.group) == ({}, {})
    least = {"schema": 1, "verdict": "UNKNOWN", "anomalies": {"G1a": {"count": 1}}}
    assert Report.read(least) == Report(
        verdict=Verdict.UNKNOWN, anomalies={"G1a": AnomalyFinding(count=1)}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "GREEN"},
        {"verdict": None},
        {"schema": 2},
        {"schema": None},
        {"counts": {"sends": "many"}},
        {"faults": 3},
        {"faults": ["one"]},
        {"faults": [{"name": "gc_pause", "felt": "felt"}]},
        {"anomalies": {"lost-write": 3}},
    ],
    ids=str,
)
def test_what_is_no_report_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(HistoryUnreadable):
        Report.read({**whole_report().to_json(), **change})
    with pytest.raises(HistoryUnreadable):
        Report.read({})


def test_the_verdict_of_a_run_is_read_from_its_folder(tmp_path: Path) -> None:
    run_dir = RunDir.create(tmp_path, scenario="mixed", seed=3)
    run_dir.update(seed=3)
    with pytest.raises(UsageError, match="has no verdict yet: `kafka-chaos verify "):
        read_verdict(run_dir)
    path = write_verdict(run_dir.path, whole_report())

    assert read_verdict(run_dir) == whole_report()

    path.write_text('{"verdict": "VALID"}')
    with pytest.raises(HistoryUnreadable, match=r"`kafka-chaos verify .*` writes it again"):
        read_verdict(run_dir)
