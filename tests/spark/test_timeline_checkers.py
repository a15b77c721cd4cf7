"""What high watermarks, ISRs and bounds forbid, on histories of a few ops a second apart."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.verdict import Verdict
from tests.metadata import batch, no_op, partition, topic, write_metadata
from tests.spark.conftest import Find
from tests.spark.disks import alike, whole, write_disks
from tests.spark.ops import STEP_NS, TOPIC, Folder, Rec, end, filler, final, info, ok, poll
from verifiers.checking.checker import CHECKERS, can_find
from verifiers.judging.job import verify
from verifiers.oracle import Circumstances, rule

S = STEP_NS
PLACE = {"topic": TOPIC, "partition": 0}
Rows = Sequence[dict[str, Any]]


def told(at_s: float, offset: int, *, epoch: int = 0, took_s: float = 0.1) -> dict[str, Any]:
    """Return a sample of a high watermark."""
    asked_ns = round(at_s * S)
    answered_ns = asked_ns + round(took_s * S)
    return {
        **PLACE,
        "leader_epoch": epoch,
        "asked_ns": asked_ns,
        "answered_ns": answered_ns,
        "offset": offset,
    }


def ceiling(from_s: float, to_s: float, offset: int) -> dict[str, Any]:
    return {
        **PLACE,
        "leader_epoch": 0,
        "from_ns": round(from_s * S),
        "to_ns": round(to_s * S),
        "high_watermark": offset,
        "asked_ns": round(to_s * S),
    }


def shortage(from_s: float, to_s: float, *, producers: Sequence[int] = (1,)) -> dict[str, Any]:
    window = {"from_ns": round(from_s * S), "to_ns": round(to_s * S)}
    return {**PLACE, **window, "leader": 1, "isr": "1", "producers": list(producers)}


def demand(from_s: float, to_s: float, bound_s: float) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "from_ns": round(from_s * S),
        "to_ns": round(to_s * S),
        "bound_ns": round(bound_s * S),
    }


# --- hw-regression


def test_a_high_watermark_that_grows_or_stays_is_in_order(find: Find) -> None:
    grown = [told(1, 0), told(2, 5), told(3, 5), told(4, 9, epoch=1)]

    assert find("hw-regression", [], timeline={"watermarks": grown}) == []


def test_a_high_watermark_that_falls_within_an_epoch_is_found(find: Find) -> None:
    fallen = [told(1, 7), told(2, 5), told(3, 6)]

    rows = find("hw-regression", [], timeline={"watermarks": fallen})

    assert [(row["offset"], row["detail"]["was"]) for row in rows] == [(5, "7"), (6, "7")]
    assert rows[0]["time_ns"] == 2 * S


def test_what_another_epoch_told_is_not_compared(find: Find) -> None:
    assert (
        find("hw-regression", [], timeline={"watermarks": [told(1, 7), told(2, 5, epoch=1)]}) == []
    )


def test_answers_that_overlap_are_not_compared(find: Find) -> None:
    # Whoever was asked first may have answered last.
    overlapping = [told(1, 7, took_s=3), told(2, 5)]

    assert find("hw-regression", [], timeline={"watermarks": overlapping}) == []


# --- read-beyond-hw


READS = [ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), ok(1, 1, 1), poll(9, 1, Rec(1, 1, 1))]


def test_records_below_the_high_watermark_may_be_read(find: Find) -> None:
    assert find("read-beyond-hw", READS, timeline={"ceilings": [ceiling(0, 9, 2)]}) == []


def test_a_record_that_was_read_before_it_was_committed_is_found(find: Find) -> None:
    (row,) = find("read-beyond-hw", READS, timeline={"ceilings": [ceiling(0, 9, 1)]})

    assert (row["offset"], row["process"], row["time_ns"]) == (1, 1, 3 * S)
    assert row["detail"]["high_watermark"] == "1"
    assert row["detail"]["reader"] == "9"


def test_a_record_that_was_read_after_the_answer_proves_nothing(find: Find) -> None:
    bounds = [ceiling(0, 3, 1), ceiling(3.5, 9, 1)]

    assert find("read-beyond-hw", READS, timeline={"ceilings": bounds}) == []


def test_what_nobody_sampled_bounds_nothing() -> None:
    empty = {"watermarks", "ceilings", "shortages", "demands"}

    names = ("hw-regression", "read-beyond-hw", "acked-below-min-isr", "unavailable")
    assert not any(can_find(CHECKERS[name], empty) for name in names)


# --- acked-below-min-isr


SENDS = [ok(1, n, n) for n in range(4)]


def test_sends_outside_a_shortage_may_be_acknowledged(find: Find) -> None:
    short = [shortage(10, 20)]

    assert find("acked-below-min-isr", SENDS, timeline={"shortages": short}) == []


def test_a_send_that_was_invoked_and_acknowledged_within_a_shortage_is_found(find: Find) -> None:
    (row,) = find("acked-below-min-isr", SENDS, timeline={"shortages": [shortage(1.9, 2.6)]})

    assert (row["offset"], row["time_ns"]) == (2, 2 * S + S // 2)
    assert (row["detail"]["leader"], row["detail"]["isr"]) == ("1", "1")


def test_a_send_that_reaches_out_of_a_shortage_proves_nothing(find: Find) -> None:
    half = [shortage(1.1, 1.6), shortage(2.0, 2.4)]

    assert find("acked-below-min-isr", SENDS, timeline={"shortages": half}) == []


def test_a_producer_that_asks_for_less_than_all_may_be_acknowledged(find: Find) -> None:
    others = [shortage(0, 9, producers=(2, 3))]

    assert find("acked-below-min-isr", SENDS, timeline={"shortages": others}) == []


def test_a_send_in_doubt_was_not_acknowledged(find: Find) -> None:
    ops = [info(1, 0), info(1, 1)]

    assert find("acked-below-min-isr", ops, timeline={"shortages": [shortage(0, 9)]}) == []


# --- unavailable


def test_a_partition_that_is_written_within_the_bound_is_available(find: Find) -> None:
    assert find("unavailable", SENDS, timeline={"demands": [demand(0, 4, 1.5)]}) == []


def test_a_gap_longer_than_the_bound_is_found(find: Find) -> None:
    ops = [ok(1, 0, 0), info(1, 1), info(1, 2), info(1, 3), ok(1, 4, 1)]

    (row,) = find("unavailable", ops, timeline={"demands": [demand(0, 5, 2)]})

    assert (row["partition"], row["time_ns"]) == (0, S // 2)
    assert (row["detail"]["gap_s"], row["detail"]["bound_s"]) == ("4.0", "2.0")


def test_a_partition_that_is_never_written_again_is_unavailable(find: Find) -> None:
    ops = [ok(1, 0, 0), *(info(1, n) for n in range(1, 6))]

    (row,) = find("unavailable", ops, timeline={"demands": [demand(0, 6, 3)]})

    assert row["detail"]["gap_s"] == "5.5"


def test_a_gap_that_a_fault_explains_is_none(find: Find) -> None:
    # Between 1 s and 4 s the faults leave too few; then the bound begins anew.
    ops = [ok(1, 0, 0), *(info(1, n) for n in range(1, 5)), ok(1, 5, 1)]
    spans = [demand(0, 1, 2), demand(4, 6, 2)]

    assert find("unavailable", ops, timeline={"demands": spans}) == []


# --- the whole way


ERA_MS = 1_700_000_000_000


def sampled(path: Path, *samples: dict[str, Any]) -> Path:
    """Write a run of two consumers' polls, its metadata log, and what was sampled."""
    ops = [*filler(120), *READS, final(Rec(1, 0, 0), Rec(1, 1, 1))]
    folder = Folder(ops, ends=[end(partition=0, high=2), end(partition=1, high=120)]).write(path)
    disks = {**alike(whole(2)), **alike(whole(120, partition=1), partition=1)}
    write_disks(folder, disks)
    log = batch(0, ERA_MS, [topic(TOPIC), partition(0, [1, 2, 3], leader=1)])
    write_metadata(folder, log + batch(2, ERA_MS + 900_000, [no_op()]))
    clocks = [
        {"sample": "clock", "asked_ns": at * S, "answered_ns": at * S + 1_000_000,
         "host_ns": (ERA_MS + at * 1000) * 1_000_000 + 500_000}
        for at in (1, 900)
    ]  # fmt: skip
    lines = [*clocks, *({"sample": "high-watermark", **sample} for sample in samples)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize(("watermark", "verdict"), [(2, Verdict.VALID), (1, Verdict.INVALID)])
def test_a_run_is_judged_by_its_samples(tmp_path: Path, watermark: int, verdict: Verdict) -> None:
    run = sampled(tmp_path / "run", told(500, watermark))

    report = verify(run, master="local[2]", say=lambda _: None)

    assert report.verdict is verdict, report.reasons
    assert ("read-beyond-hw" in report.anomalies) is (verdict is Verdict.INVALID)
    assert report.timeline["source"] == "metadata-log"
    assert report.timeline["judged_s"]["ceilings"] > 400
    assert report.liveness["verdict"] == "UNKNOWN"


def test_old_kafka_is_known_to_give_what_is_not_committed() -> None:
    def ruled(kafka: str) -> str:
        at = Circumstances(contract=Contract(acks="all"), kafka=kafka)
        return rule("read-beyond-hw", None, at).why

    assert "KAFKA-9835" in ruled("2.4.1")
    assert "KAFKA-9835" not in ruled("2.5.1")
