"""Replicas compared, and lost records located, on logs with real bytes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.verdict import Verdict
from tests.batches import GZIP, old, v2, value_of
from tests.spark.disks import BROKERS, Disk, Disks, alike, whole, write_disks
from tests.spark.ops import Folder, Rec, end, filler, final, info, ok, poll
from verifiers.job import Report, verify

IN_ORDER = [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))]
TEN = [value_of(1, n) for n in range(10)]
OTHER = [value_of(2, n) for n in range(10)]

pytestmark = pytest.mark.usefixtures("spark")


def judged(
    tmp_path: Path,
    disks: Disks,
    *,
    isr: Sequence[int] = BROKERS,
    high: int = 10,
    ops: Sequence[Any] = IN_ORDER,
    **changes: Any,
) -> Report:
    """Return the verdict on a run whose partition 0 lies on the disks like this."""
    ends = [end(partition=0, high=high), end(partition=1, high=0)]
    path = Folder(list(ops), ends=ends, **changes).write(tmp_path / "run")
    for old_log in path.glob("cluster/*/data/orders-*/*"):
        old_log.unlink()
    write_disks(path, {**alike(whole(0), partition=1), **disks}, isr=isr)
    return verify(path, master="local[2]", say=lambda _: None)


def found(report: Report, anomaly: str) -> list[dict[str, Any]]:
    """Return the examples of an anomaly, each with its detail beside the columns."""
    finding = report.anomalies.get(anomaly)
    if finding is None:
        return []
    return [
        {"offset": one.offset, "kind": one.kind, "value": one.value, **one.detail}
        for one in finding.examples
    ]


def test_equal_replicas_are_compared_and_nothing_is_found(tmp_path: Path) -> None:
    report = judged(tmp_path, alike(Disk(content=v2(0, TEN[:4]) + v2(4, TEN[4:]))))

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())
    assert report.replicas["compared"] is True
    mine = report.replicas["brokers"]["2"]["orders-0"]
    assert (mine["leo"], mine["batches"], mine["epochs"]) == (10, 2, [[0, 0]])


def test_empty_logs_are_equal(tmp_path: Path) -> None:
    report = judged(tmp_path, alike(whole(0)), high=0)

    assert report.verdict is Verdict.VALID
    assert report.replicas["brokers"]["1"]["orders-0"]["leo"] == 0


@pytest.mark.parametrize("codec", [0, GZIP])
def test_other_records_in_an_in_sync_replica_are_a_divergence(tmp_path: Path, codec: int) -> None:
    ours = v2(0, TEN[:5]) + v2(5, TEN[5:], epoch=1, codec=codec)
    theirs = v2(0, TEN[:5]) + v2(5, OTHER[:5], epoch=0, codec=codec)
    disks = alike(Disk(content=ours, epochs=[(0, 0), (1, 5)]))
    disks[2, 0] = Disk(content=theirs)

    report = judged(tmp_path, disks)

    assert report.verdict is Verdict.INVALID
    (one,) = found(report, "replica-divergence")
    assert (one["offset"], one["last_offset"], one["kind"]) == (5, "9", "in-sync")
    assert (one["broker"], one["other_broker"]) == ("1", "2")
    assert (one["holds"], one["other_holds"]) == ("1:5 1:6 1:7 1:8 1:9", "2:0 2:1 2:2 2:3 2:4")
    assert (one["value"], int(one["other_value"])) == (TEN[5], OTHER[0])
    assert (one["epoch"], one["other_epoch"]) == ("1", "0")
    assert found(report, "epoch-disorder") == []


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_diverge_message_by_message(tmp_path: Path, magic: int) -> None:
    disks = alike(Disk(content=old(0, TEN, magic=magic), epochs=None))
    disks[3, 0] = Disk(content=old(0, [*TEN[:7], *OTHER[:3]], magic=magic), epochs=None)

    report = judged(tmp_path, disks, meta={"kafka": "0.10.2.2"})

    rows = found(report, "replica-divergence")
    assert [(row["offset"], row["holds"], row["other_holds"]) for row in rows] == [
        (7, "1:7", "2:0"), (8, "1:8", "2:1"), (9, "1:9", "2:2"),
    ]  # fmt: skip
    assert report.anomalies["replica-divergence"].permitted is True
    assert "KIP-101" in report.anomalies["replica-divergence"].why


def test_batches_cut_at_other_places_are_told_as_they_overlap(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[2, 0] = Disk(content=v2(0, TEN[:3]) + v2(3, OTHER[:7]))

    rows = found(judged(tmp_path, disks), "replica-divergence")

    assert [(row["offset"], row["last_offset"]) for row in rows] == [
        (0, "2"), (3, "5"), (6, "9"),
    ]  # fmt: skip


def test_an_in_sync_replica_that_lacks_the_end_diverges(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[3, 0] = Disk(content=v2(0, TEN[:6]))

    (one,) = found(judged(tmp_path, disks), "replica-divergence")

    assert (one["offset"], one["other_holds"], one["kind"]) == (6, "nothing", "in-sync")


def test_a_replica_outside_the_isr_may_lag(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[3, 0] = Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])[:-5])

    report = judged(tmp_path, disks, isr=(1, 2))

    assert report.anomalies == {}
    assert report.verdict is Verdict.VALID
    assert "truncated" in report.replicas["brokers"]["3"]["orders-0"]["problem"]


def test_a_replica_outside_the_isr_that_holds_others_is_named_and_permitted(
    tmp_path: Path,
) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    disks[3, 0] = Disk(content=v2(0, OTHER))

    report = judged(tmp_path, disks, isr=(1, 2))

    (one,) = found(report, "replica-divergence")
    assert one["kind"] == "out-of-sync"
    assert report.anomalies["replica-divergence"].permitted is True


def test_what_lies_above_the_high_watermark_is_not_compared(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[2, 0] = Disk(content=v2(0, TEN[:6]) + v2(6, OTHER[:4]))

    assert judged(tmp_path, disks, high=6).anomalies == {}


def test_half_a_batch_in_an_in_sync_replica_leaves_it_unknown(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    disks[2, 0] = Disk(content=v2(0, TEN) + v2(10, TEN)[:-9])

    report = judged(tmp_path, disks)

    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons[0].startswith("The log of orders-0 on broker 2 cannot be read to its end")
    assert report.replicas["compared"] is False


def test_a_replica_that_was_not_copied_leaves_it_unknown(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    del disks[2, 0]

    report = judged(tmp_path, disks)

    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == (
        "Not all replicas could be compared: orders-0 has 2 of its 3 replicas on disk.",
    )


def test_a_run_without_copies_is_unknown(tmp_path: Path) -> None:
    path = Folder(IN_ORDER).write(tmp_path / "run")
    (path / "cluster" / "replicas.json").unlink()

    report = verify(path, master="local[2]", say=lambda _: None)

    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("The brokers' logs were not copied: replicas are not compared.",)


def test_a_log_shorter_than_what_was_read_leaves_it_unknown(tmp_path: Path) -> None:
    report = judged(tmp_path, alike(Disk(content=v2(0, TEN[:5]))))

    assert report.verdict is Verdict.UNKNOWN
    assert "ends at 5, below the high watermark of 10" in report.reasons[0]


# -- epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "epochs", "kinds"),
    [
        (v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2), [(1, 0), (2, 5), (4, 10)], []),
        (v2(0, TEN[:5], epoch=2) + v2(5, TEN[5:], epoch=1), [(1, 0), (2, 5)],
         ["checkpoint", "decreases", "checkpoint"]),
        (v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2), [(1, 0), (2, 7)], ["checkpoint"]),
        (v2(0, TEN, epoch=1), [(0, 0)], ["checkpoint"]),
        (v2(0, TEN, epoch=1), None, []),
    ],
)  # fmt: skip
def test_epochs_grow_as_the_checkpoint_says(
    tmp_path: Path, content: bytes, epochs: Any, kinds: list[str]
) -> None:
    report = judged(tmp_path, alike(Disk(content=content, epochs=epochs)))

    rows = [row for row in found(report, "epoch-disorder") if row["broker"] == "2"]
    assert sorted(row["kind"] for row in rows) == sorted(kinds)
    assert (report.verdict is Verdict.VALID) == (not kinds)


def test_one_epoch_and_offset_name_one_batch(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN, epoch=0)))
    disks[2, 0] = Disk(content=v2(0, OTHER, epoch=0))

    report = judged(tmp_path, disks)

    assert [row["kind"] for row in found(report, "epoch-disorder")] == ["ambiguous"]


def test_one_batch_has_one_epoch(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN, epoch=0)))
    disks[2, 0] = Disk(content=v2(0, TEN, epoch=3), epochs=[(3, 0)])

    report = judged(tmp_path, disks)

    assert [row["kind"] for row in found(report, "epoch-disorder")] == ["renamed"]
    assert found(report, "replica-divergence") == []


# -- lost records ----------------------------------------------------------------------------------

CUT = (
    "[2026-11-21 14:08:18,021] INFO [UnifiedLog partition=orders-0, dir=/d] "
    "Truncating to offset 5 (…)\n"
)
LOST = [*IN_ORDER, *(ok(1, n, n) for n in range(5, 8))]


def test_a_lost_record_is_located(tmp_path: Path) -> None:
    kept = v2(0, TEN[:5]) + v2(5, OTHER[:5], epoch=1)
    disks = alike(Disk(content=kept, epochs=[(0, 0), (1, 5)]))
    disks[2, 0] = Disk(content=kept, epochs=[(0, 0), (1, 5)], server_log=CUT)
    disks[3, 0] = Disk(content=v2(0, TEN[:5]) + v2(5, TEN[5:7]))

    report = judged(tmp_path, disks, isr=(1, 2), ops=LOST)

    first, second, third = found(report, "lost-write")
    assert (first["held_by"], first["lacking"]) == ("3", "1,2")
    assert (first["cut_by"], first["cut_to"]) == ("2", "5")
    assert first["cut_at_utc"] == "2026-11-21 14:08:18.021"
    assert first["cut_epoch"] == "1"
    assert (second["held_by"], third["held_by"]) == ("3", "")
    located = report.replicas["located"]
    assert (located["lost"], located["held"], located["gone"]) == (3, 2, 1)
    assert [(s["first"], s["last"], s["count"]) for s in located["stretches"]] == [
        (5, 6, 2), (7, 7, 1),
    ]  # fmt: skip


def test_a_lost_record_that_nobody_cut_is_told_without(tmp_path: Path) -> None:
    report = judged(tmp_path, alike(Disk(content=v2(0, TEN[:5]) + v2(5, OTHER[:5]))), ops=LOST)

    row = found(report, "lost-write")[0]
    assert (row["held_by"], row["lacking"]) == ("", "1,2,3")
    assert "cut_by" not in row


def test_a_lost_record_without_an_offset_is_lost_all_the_same(tmp_path: Path) -> None:
    sent = [ok(1, n, None) for n in range(5, 8)]

    report = judged(tmp_path, alike(Disk(content=v2(0, TEN))), ops=[*IN_ORDER, *sent])

    assert report.anomalies["lost-write"].count == 3
    assert report.replicas["located"]["unplaced"] == 3


def test_nobody_asks_where_an_indeterminate_record_lies(tmp_path: Path) -> None:
    report = judged(
        tmp_path, alike(Disk(content=v2(0, TEN))), ops=[*IN_ORDER, info(1, 5), info(1, 6)]
    )

    assert report.replicas["located"] == {}


def test_the_batches_can_be_asked_afterwards(tmp_path: Path, spark: SparkSession) -> None:
    judged(tmp_path, alike(Disk(content=v2(0, TEN))))

    rows = spark.read.parquet(str(tmp_path / "run" / "replicas" / "batches")).collect()
    assert {row["broker"] for row in rows} == set(BROKERS)
    assert rows[0]["segment"] == "cluster/broker-1/data/orders-0/00000000000000000000.log"
    assert json.dumps(rows[0]["crc"])
