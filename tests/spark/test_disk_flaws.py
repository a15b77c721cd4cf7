"""What is wrong in one replica's own log: holes, overlaps, bytes that changed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.contract import Contract
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from tests.batches import GZIP, old, v2, value_of
from tests.spark.conftest import compared_at
from tests.spark.disks import BROKERS, Disk, Disks, alike, whole, write_disks
from tests.spark.ops import TOPIC, Folder, Rec, end, filler, final, ok, poll
from verifiers.checking.checker import CHECKERS, can_find, frames_wanted
from verifiers.judging.job import verify
from verifiers.oracle import Circumstances, rule
from verifiers.replicas.copied import read_copied
from verifiers.run_folder.schema import HISTORY_SCHEMAS

TEN = [value_of(1, n) for n in range(10)]
META = {"name": TOPIC, "partitions": 1, "replication_factor": 3}
Rows = list[dict[str, Any]]
Look = Callable[..., Rows]


@pytest.fixture
def look(spark: SparkSession, tmp_path: Path) -> Look:
    """Return a function that runs one checker on what lies on three disks."""

    def run(name: str, disks: Disks, *, isr: Sequence[int] = BROKERS, high: int = 10) -> Rows:
        (tmp_path / "run.json").write_text("{}")
        write_disks(tmp_path, disks, isr=isr)
        copied = read_copied(RunDir.open(tmp_path), {"topics": [META]})
        compared = compared_at(spark, copied, tmp_path, high=high)
        nothing = spark.createDataFrame([], HISTORY_SCHEMAS["poll"])
        known = {
            "polls": nothing,
            "final": nothing,
            "damaged": compared.damaged,
            "disjoint": compared.disjoint,
        }
        check = CHECKERS[name]
        if not can_find(check, compared.empty):
            return []
        found = check(**{frame: known[frame] for frame in frames_wanted(check)}).collect()
        rows = [{**row.asDict(), **row["detail"]} for row in found]
        return sorted(rows, key=lambda row: (row["offset"], row["broker"]))

    return run


def gaps(look: Look, disks: Disks, **how: Any) -> Rows:
    return look("replica-gap", disks, **how)


def corrupt(look: Look, disks: Disks, **how: Any) -> Rows:
    return look("corrupt-record", disks, **how)


def hurt(content: bytes, at: int) -> bytes:
    """Return the bytes with one bit of one of them changed."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


ONE, TWO, THREE = v2(0, TEN[:4]), v2(4, TEN[4:7]), v2(7, TEN[7:])


def test_batches_that_follow_each_other_have_no_gap(look: Look) -> None:
    assert gaps(look, alike(Disk(content=ONE + TWO, more=[(7, THREE)]))) == []


def test_empty_logs_have_no_gap(look: Look) -> None:
    assert gaps(look, alike(whole(0)), high=0) == []


def test_offsets_that_another_replica_holds_are_a_gap(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE + THREE)

    (row,) = gaps(look, disks)

    assert (row["kind"], row["broker"], row["offset"]) == ("gap", "2", 7)
    assert (row["missing_from"], row["missing"], row["held_by"]) == ("4", "3", "1,3")


def test_a_gap_between_two_segments_is_one(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO, more=[(7, THREE)]))
    disks[3, 0] = Disk(content=ONE, more=[(7, THREE)])

    assert [(row["kind"], row["broker"]) for row in gaps(look, disks)] == [("gap", "3")]


def test_offsets_that_nobody_holds_are_no_gap(look: Look) -> None:
    assert gaps(look, alike(Disk(content=ONE + THREE))) == []


def test_only_who_holds_a_part_of_the_gap_is_named(look: Look) -> None:
    # Broker 2's log ends before the gap of broker 3; what begins behind a gap is not in it.
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE)
    disks[3, 0] = Disk(content=ONE + THREE)

    (row,) = gaps(look, disks, isr=(1, 3))

    assert (row["broker"], row["held_by"]) == ("3", "1")


def test_offsets_that_lie_twice_overlap(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE + TWO + v2(5, TEN[5:]))

    (row,) = gaps(look, disks)

    assert (row["kind"], row["offset"], row["expected"]) == ("overlap", 5, "7")


def test_a_batch_that_lies_behind_a_later_one_goes_backwards(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE + THREE + TWO)

    rows = gaps(look, disks)

    assert [(row["kind"], row["offset"]) for row in rows] == [("backwards", 4), ("gap", 7)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_gaps_too(look: Look, magic: int) -> None:
    full = old(0, TEN[:4], magic=magic) + old(4, TEN[4:], magic=magic)
    disks = alike(Disk(content=full, epochs=None))
    disks[2, 0] = Disk(
        content=old(0, TEN[:4], magic=magic) + old(7, TEN[7:], magic=magic), epochs=None
    )

    (row,) = gaps(look, disks)

    assert (row["kind"], row["missing_from"], row["offset"]) == ("gap", "4", 7)


def test_the_start_of_a_log_is_no_gap(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[3, 0] = Disk(content=THREE, first=7, epochs=[(0, 7)])

    assert gaps(look, disks) == []


def test_whole_batches_are_not_corrupt(look: Look) -> None:
    assert corrupt(look, alike(Disk(content=ONE + v2(4, TEN[4:], codec=GZIP)))) == []


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_changed_bit_on_a_disk_is_found(look: Look, magic: int) -> None:
    content = v2(0, TEN) if magic == 2 else old(0, TEN, magic=magic)
    disks = alike(Disk(content=content, epochs=None))
    disks[2, 0] = Disk(content=hurt(content, len(content) - 1), epochs=None)

    (row,) = corrupt(look, disks)

    assert (row["kind"], row["broker"], row["problem"]) == ("disk", "2", "checksum")
    assert (row["offset"], row["last_offset"]) == (0 if magic == 2 else 9, "9")


def test_a_changed_bit_outside_the_isr_is_told_apart(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[3, 0] = Disk(content=ONE + hurt(TWO, 90))

    (row,) = corrupt(look, disks, isr=(1, 2))

    assert (row["kind"], row["offset"]) == ("disk-out-of-sync", 4)


def test_a_changed_bit_above_the_high_watermark_is_nobodys(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE + TWO + hurt(THREE, 90))

    assert corrupt(look, disks, high=7) == []


def test_garbage_in_place_of_a_batch_is_corrupt(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[2, 0] = Disk(content=ONE + b"\xff" * len(TWO) + THREE)

    (row,) = corrupt(look, disks)

    assert (row["offset"], row["problem"], row["position"]) == (4, "magic", str(len(ONE)))


def test_half_a_batch_at_the_end_of_a_log_that_lags_is_not(look: Look) -> None:
    disks = alike(Disk(content=ONE + TWO + THREE))
    disks[3, 0] = Disk(content=ONE + TWO[:-5])

    assert corrupt(look, disks, isr=(1, 2)) == []
    (row,) = corrupt(look, disks)
    assert (row["broker"], row["problem"], row["offset"]) == ("3", "truncated", 4)


def test_a_run_with_a_damaged_disk_is_invalid(tmp_path: Path) -> None:
    ends = [end(partition=0, high=10), end(partition=1, high=0)]
    ops = [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))]
    path = Folder(ops, ends=ends).write(tmp_path / "run")
    disks = {**alike(whole(0), partition=1), **alike(Disk(content=ONE + TWO + THREE))}
    disks[2, 0] = Disk(content=ONE + hurt(TWO, 90) + v2(8, TEN[8:]))
    write_disks(path, disks)

    report = verify(path, master="local[2]", say=lambda _: None)

    assert report.verdict is Verdict.INVALID
    assert report.anomalies["corrupt-record"].kinds == {"disk": 1}
    assert report.anomalies["replica-gap"].kinds == {"gap": 1}
    assert not report.anomalies["replica-gap"].permitted


def test_what_lies_damaged_outside_the_isr_is_permitted() -> None:
    at = Circumstances(contract=Contract(acks="all"), kafka="4.3.1")

    assert rule("corrupt-record", "disk-out-of-sync", at).permitted
    assert not rule("corrupt-record", "disk", at).permitted
    assert not rule("replica-gap", "gap", at).permitted
