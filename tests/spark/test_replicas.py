"""Replicas compared, and lost records located, on logs with real bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.core.contract import Contract
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from tests.batches import GZIP, old, v2, value_of
from tests.spark.conftest import compared_at, member_at
from tests.spark.disks import BROKERS, Disk, Disks, alike, whole, write_disks
from tests.spark.ops import TOPIC, Folder, Op, Rec, end, filler, final, ok, poll
from verifiers.checking.checker import CHECKERS, can_find, frames_wanted
from verifiers.judging.job import Report, verify
from verifiers.oracle import Circumstances, rule
from verifiers.replicas.comparison import Comparison, Told
from verifiers.replicas.copied import read_copied

IN_ORDER = [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))]
TEN = [value_of(1, n) for n in range(10)]
OTHER = [value_of(2, n) for n in range(10)]

pytestmark = pytest.mark.usefixtures("spark")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What came of a comparison: itself, and the rows of both its checkers."""

    comparison: Comparison
    told: Told
    divergences: list[dict[str, Any]]
    disorders: list[dict[str, Any]]

    @property
    def nothing(self) -> bool:
        return not (self.divergences or self.disorders or self.told.reasons)


Look = Callable[..., Seen]


@pytest.fixture
def look(spark: SparkSession, tmp_path: Path) -> Look:
    """Return a function that compares replicas of one partition, as a verification does."""

    def run(disks: Disks, *, isr: Sequence[int] = BROKERS, high: int = 10) -> Seen:
        (tmp_path / "run.json").write_text("{}")
        write_disks(tmp_path, disks, isr=isr)
        copied = read_copied(RunDir.open(tmp_path), {"topics": [META]})
        comparison = compared_at(spark, copied, tmp_path, high=high)
        known = {
            "differences": comparison.differences,
            "disordered": comparison.disordered,
            "epochs": comparison.epochs,
        }

        def rows(name: str) -> list[dict[str, Any]]:
            check = CHECKERS[name]
            if not can_find(check, comparison.empty):
                return []
            found = check(**{frame: known[frame] for frame in frames_wanted(check)}).collect()
            flat = [{**row.asDict(), **row["detail"]} for row in found]
            return sorted(flat, key=lambda row: (row["offset"], row["kind"]))

        return Seen(
            comparison=comparison,
            told=comparison.told(member_at(tmp_path)),
            divergences=rows("replica-divergence"),
            disorders=rows("epoch-disorder"),
        )

    return run


META = {"name": TOPIC, "partitions": 1, "replication_factor": 3}


def ruled(kind: str, kafka: str) -> bool:
    """Return whether a divergence of one kind is permitted on a Kafka."""
    contract = Contract(acks="all", min_isr=2, replication_factor=3)
    at = Circumstances(contract=contract, kafka=kafka)
    return rule("replica-divergence", kind, at).permitted


def judged(
    tmp_path: Path,
    disks: Disks,
    *,
    isr: Sequence[int] = BROKERS,
    ops: Sequence[Op] = IN_ORDER,
) -> Report:
    """Return the verdict on a whole run whose partition 0 lies on the disks like this."""
    ends = [end(partition=0, high=10), end(partition=1, high=0)]
    path = Folder(list(ops), ends=ends).write(tmp_path / "run")
    write_disks(path, {**alike(whole(0), partition=1), **disks}, isr=isr)
    return verify(path, master="local[2]", say=lambda _: None)


def lost(report: Report) -> list[dict[str, str]]:
    """Return the details of the lost records, in the order of their offsets."""
    return [dict(one.detail) for one in report.anomalies["lost-write"].examples]


def test_a_run_whose_replicas_agree_is_valid(tmp_path: Path) -> None:
    report = judged(tmp_path, alike(Disk(content=v2(0, TEN[:4]) + v2(4, TEN[4:]))))

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())
    assert report.replicas["compared"] is True
    assert report.replicas["located"] == {}
    mine = report.replicas["brokers"]["2"]["orders-0"]
    assert (mine["leo"], mine["batches"], mine["epochs"]) == (10, 2, [[0, 0]])


def test_a_run_whose_replicas_differ_is_invalid(tmp_path: Path) -> None:
    disks = alike(Disk(content=v2(0, TEN, epoch=0)))
    disks[2, 0] = Disk(content=v2(0, OTHER, epoch=0))

    report = judged(tmp_path, disks)

    assert report.verdict is Verdict.INVALID
    assert report.anomalies["replica-divergence"].kinds == {"in-sync": 1}
    assert report.anomalies["epoch-disorder"].kinds == {"ambiguous": 1}


def test_equal_replicas_have_nothing_to_tell(look: Look) -> None:
    seen = look(alike(Disk(content=v2(0, TEN[:4]) + v2(4, TEN[4:]))))

    assert seen.nothing
    assert seen.comparison.empty == {"differences", "disordered", "damaged", "disjoint"}


def test_empty_logs_are_equal(look: Look) -> None:
    seen = look(alike(whole(0)), high=0)

    assert seen.nothing
    assert [one.end for one in seen.comparison.summaries] == [0, 0, 0]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_other_records_in_an_in_sync_replica_are_a_divergence(look: Look, codec: int) -> None:
    ours = v2(0, TEN[:5]) + v2(5, TEN[5:], epoch=1, codec=codec)
    theirs = v2(0, TEN[:5]) + v2(5, OTHER[:5], epoch=0, codec=codec)
    disks = alike(Disk(content=ours, epochs=[(0, 0), (1, 5)]))
    disks[2, 0] = Disk(content=theirs)

    seen = look(disks)

    (one,) = seen.divergences
    assert (one["offset"], one["last_offset"], one["kind"]) == (5, "9", "in-sync")
    assert (one["broker"], one["other_broker"]) == ("1", "2")
    assert (one["holds"], one["other_holds"]) == ("1:5 1:6 1:7 1:8 1:9", "2:0 2:1 2:2 2:3 2:4")
    assert (one["value"], int(one["other_value"])) == (TEN[5], OTHER[0])
    assert (one["epoch"], one["other_epoch"]) == ("1", "0")
    assert seen.disorders == []


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_diverge_message_by_message(look: Look, magic: int) -> None:
    disks = alike(Disk(content=old(0, TEN, magic=magic), epochs=None))
    disks[3, 0] = Disk(content=old(0, [*TEN[:7], *OTHER[:3]], magic=magic), epochs=None)

    rows = look(disks).divergences

    assert [(row["offset"], row["holds"], row["other_holds"]) for row in rows] == [
        (7, "1:7", "2:0"), (8, "1:8", "2:1"), (9, "1:9", "2:2"),
    ]  # fmt: skip


def test_only_old_kafka_may_diverge_within_the_isr() -> None:
    assert ruled("in-sync", "0.10.2.2")
    assert not ruled("in-sync", "0.11.0.3")
    assert ruled("out-of-sync", "4.3.1")


def test_batches_cut_at_other_places_are_told_as_they_overlap(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[2, 0] = Disk(content=v2(0, TEN[:3]) + v2(3, OTHER[:7]))

    rows = look(disks).divergences

    assert [(row["offset"], row["last_offset"]) for row in rows] == [
        (0, "2"), (3, "5"), (6, "9"),
    ]  # fmt: skip


def test_an_in_sync_replica_that_lacks_the_end_diverges(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[3, 0] = Disk(content=v2(0, TEN[:6]))

    (one,) = look(disks).divergences

    assert (one["offset"], one["other_holds"], one["kind"]) == (6, "nothing", "in-sync")


def test_a_replica_outside_the_isr_may_lag(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[3, 0] = Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])[:-5])

    seen = look(disks, isr=(1, 2))

    assert seen.nothing
    assert "truncated" in str(seen.comparison.summaries[2].problem)


def test_a_replica_outside_the_isr_that_holds_others_is_named(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    disks[3, 0] = Disk(content=v2(0, OTHER))

    assert [row["kind"] for row in look(disks, isr=(1, 2)).divergences] == ["out-of-sync"]


def test_what_lies_above_the_high_watermark_is_not_compared(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[2, 0] = Disk(content=v2(0, TEN[:6]) + v2(6, OTHER[:4]))

    assert look(disks, high=6).nothing


def test_a_log_that_begins_later_is_compared_from_there(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN[:6]) + v2(6, TEN[6:])))
    disks[3, 0] = Disk(content=v2(6, TEN[6:]), epochs=[(0, 6)], first=6)

    assert look(disks).nothing


def test_half_a_batch_in_an_in_sync_replica_leaves_it_unknown(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    disks[2, 0] = Disk(content=v2(0, TEN) + v2(10, TEN)[:-9])

    told = look(disks).told

    assert told.document["compared"] is False
    (reason,) = told.reasons
    assert reason.startswith("The log of orders-0 on broker 2 cannot be read to its end")


def test_a_replica_that_was_not_copied_is_a_reason(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN)))
    del disks[2, 0]

    assert look(disks).told.reasons == (
        "Not all replicas could be compared: orders-0 has 2 of its 3 replicas on disk.",
    )


def test_a_run_without_copies_is_unknown(tmp_path: Path) -> None:
    path = Folder(IN_ORDER).write(tmp_path / "run")
    (path / "cluster" / "replicas.json").unlink()

    report = verify(path, master="local[2]", say=lambda _: None)

    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("The brokers' logs were not copied: replicas are not compared.",)


def test_a_log_shorter_than_what_was_read_is_a_reason(look: Look) -> None:
    (reason,) = look(alike(Disk(content=v2(0, TEN[:5])))).told.reasons

    assert "ends at 5, below the high watermark of 10" in reason


def test_the_batches_can_be_asked_afterwards(look: Look, tmp_path: Path) -> None:
    look(alike(Disk(content=v2(0, TEN))))

    rows = pq.read_table(tmp_path / "replicas" / "batches").to_pylist()
    assert {row["broker"] for row in rows} == set(BROKERS)
    assert rows[0]["segment"] == "cluster/broker-1/data/orders-0/00000000000000000000.log"


# -- epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "epochs", "kinds"),
    [
        (v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2), [(1, 0), (2, 5), (4, 10)], []),
        (v2(0, TEN[:5], epoch=2) + v2(5, TEN[5:], epoch=1), [(1, 0), (2, 5)],
         ["checkpoint", "checkpoint", "decreases"]),
        (v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2), [(1, 0), (2, 7)], ["checkpoint"]),
        (v2(0, TEN, epoch=1), [(0, 0)], ["checkpoint"]),
        (v2(0, TEN, epoch=1), None, []),
    ],
)  # fmt: skip
def test_epochs_grow_as_the_checkpoint_says(
    look: Look, content: bytes, epochs: Any, kinds: list[str]
) -> None:
    rows = look(alike(Disk(content=content, epochs=epochs))).disorders

    assert sorted(row["kind"] for row in rows if row["broker"] == "2") == kinds


def test_one_epoch_and_offset_name_one_batch(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN, epoch=0)))
    disks[2, 0] = Disk(content=v2(0, OTHER, epoch=0))

    assert [row["kind"] for row in look(disks).disorders] == ["ambiguous"]


def test_one_batch_has_one_epoch(look: Look) -> None:
    disks = alike(Disk(content=v2(0, TEN, epoch=0)))
    disks[2, 0] = Disk(content=v2(0, TEN, epoch=3), epochs=[(3, 0)])

    seen = look(disks)

    assert [row["kind"] for row in seen.disorders] == ["renamed"]
    assert seen.divergences == []


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

    first, second, third = lost(report)
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

    row = lost(report)[0]
    assert (row["held_by"], row["lacking"]) == ("", "1,2,3")
    assert "cut_by" not in row


def test_a_lost_record_without_an_offset_is_lost_all_the_same(tmp_path: Path) -> None:
    sent = [ok(1, n, None) for n in range(5, 8)]

    report = judged(tmp_path, alike(Disk(content=v2(0, TEN))), ops=[*IN_ORDER, *sent])

    assert report.anomalies["lost-write"].count == 3
    assert report.replicas["located"]["unplaced"] == 3
