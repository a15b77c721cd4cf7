"""Whole runs that are judged by their samples: high watermarks against what consumers read."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.verdict import Verdict
from tests.metadata import batch, change, no_op, partition, topic, write_metadata
from tests.spark.disks import alike, whole, write_disks
from tests.spark.evidence import write_end_of_run
from tests.spark.ops import STEP_NS, TOPIC, Folder, Rec, end, filler, final, ok, poll
from tests.spark.stories.timeline import told
from verifiers.checking.checker import CHECKERS, can_find
from verifiers.judging.job import Report, verify_all
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.table import rule

S = STEP_NS
READS = [ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), ok(1, 1, 1), poll(9, 1, Rec(1, 1, 1))]


def test_what_nobody_sampled_bounds_nothing() -> None:
    empty = {"watermarks", "ceilings", "shortages", "demands"}

    names = ("hw-regression", "read-beyond-hw", "acked-below-min-isr", "unavailable")
    assert not any(can_find(CHECKERS[name], empty) for name in names)


ERA_MS = 1_700_000_000_000


def sampled(path: Path, *samples: dict[str, Any]) -> Path:
    """Write a run of two consumers' polls, its metadata log, and what was sampled."""
    ops = [*filler(120), *READS, final(Rec(1, 0, 0), Rec(1, 1, 1))]
    folder = Folder(ops, ends=[end(partition=0, high=2), end(partition=1, high=120)]).write(path)
    disks = {**alike(whole(2)), **alike(whole(120, partition=1), partition=1)}
    write_disks(folder, disks)
    places = [partition(number, [1, 2, 3], leader=1) for number in (0, 1)]
    log = batch(0, ERA_MS, [topic(TOPIC), *places])
    # The fault that hits broker 2 is felt.
    log += batch(3, ERA_MS + 5_000, [change(0, isr=[1, 3])])
    log += batch(4, ERA_MS + 6_000, [change(0, isr=[1, 2, 3])])
    write_metadata(folder, log + batch(5, ERA_MS + 900_000, [no_op()]))
    clocks = [
        {"sample": "clock", "asked_ns": at * S, "answered_ns": at * S + 1_000_000,
         "host_ns": (ERA_MS + at * 1000) * 1_000_000 + 500_000}
        for at in (1, 900)
    ]  # fmt: skip
    write_end_of_run(folder)
    other = {**told(500, 120), "partition": 1}
    lines = [
        *clocks,
        {"sample": "high-watermark", **other},
        *({"sample": "high-watermark", **sample} for sample in samples),
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.mark.usefixtures("spark")
def test_a_run_is_judged_by_its_samples(tmp_path: Path) -> None:
    runs = [sampled(tmp_path / f"high-watermark-{high}", told(500, high)) for high in (2, 1)]

    reports = verify_all(runs, master="local[2]", say=lambda _: None)

    for report, verdict in zip(reports, (Verdict.VALID, Verdict.INVALID), strict=True):
        assert isinstance(report, Report), report
        assert report.verdict is verdict, report.reasons
        assert ("read-beyond-hw" in report.anomalies) is (verdict is Verdict.INVALID)
        assert report.timeline["source"] == "metadata-log"
        assert report.timeline["judged_s"]["ceilings"] > 400
        assert report.liveness["verdict"] == "UNKNOWN"


def test_old_kafka_is_known_to_give_what_is_not_committed() -> None:
    def ruled(kafka: str) -> str:
        at = Circumstances(contract=Contract(acks="all"), kafka=kafka)
        return str(rule("read-beyond-hw", None, at).why)

    assert "KAFKA-9835" in ruled("2.4.1")
    assert "KAFKA-9835" not in ruled("2.5.1")
