"""Whole runs whose replicas were copied: what is compared, and where a lost record still lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.core.contract import Contract
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from tests.batches import v2
from tests.spark.conftest import member_at
from tests.spark.disks import BROKERS, Disk, Disks, alike, whole, write_disks
from tests.spark.evidence import add_evidence
from tests.spark.ops import TOPIC, Folder, Op, Rec, end, filler, final, ok, poll
from tests.spark.stories.disks import ONE, OTHER, TEN, THREE, TWO, hurt
from verifiers.judging.job import Report, verify_all
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.row import Row
from verifiers.oracle.table import rule
from verifiers.replicas.comparison import compare
from verifiers.replicas.copied import read_copied

IN_ORDER = [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))]
LOST = [*IN_ORDER, *(ok(1, n, n) for n in range(5, 8))]
_TEN = [Rec(1, n, n) for n in range(10)]
WHOLE = [*filler(120), *(ok(1, n, n) for n in range(10)), poll(9, 0, *_TEN), final(*_TEN)]
CUT = (
    "[2026-11-21 14:08:18,021] INFO [UnifiedLog partition=orders-0, dir=/d] "
    "Truncating to offset 5 (…)\n"
)
KEPT = v2(0, TEN[:5]) + v2(5, OTHER[:5], epoch=1)
LEADING = Disk(content=KEPT, epochs=[(0, 0), (1, 5)])


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, and how its partition 0 lies on the disks; None if nothing was copied."""

    disks: Disks | None
    ops: Sequence[Op] = tuple(IN_ORDER)
    isr: Sequence[int] = BROKERS

    def write(self, path: Path) -> Path:
        if self.ops is WHOLE:
            folder = Folder(WHOLE, whole=True).write(path, disks=False)
            if self.disks is not None:
                logs = {**alike(whole(120, partition=1), partition=1), **self.disks}
                write_disks(folder, logs, isr=self.isr)
                add_evidence(folder, len(WHOLE))
            return folder
        ends = [end(partition=0, high=10), end(partition=1, high=0)]
        folder = Folder(self.ops, ends=ends).write(path)
        if self.disks is None:
            (folder / "cluster" / "replicas.json").unlink()
        else:
            write_disks(folder, {**alike(whole(0), partition=1), **self.disks}, isr=self.isr)
        return folder


RUNS = {
    "agree": Run(ops=WHOLE, disks=alike(Disk(content=v2(0, TEN[:4]) + v2(4, TEN[4:])))),
    "differ": Run(disks={**alike(Disk(content=v2(0, TEN))), (2, 0): Disk(content=v2(0, OTHER))}),
    "lags": Run(
        ops=WHOLE,
        isr=(1, 2),
        disks={**alike(Disk(content=v2(0, TEN))), (3, 0): Disk(content=v2(0, TEN)[:-5])},
    ),
    "not copied": Run(ops=WHOLE, disks=None),
    "cut": Run(
        ops=LOST,
        isr=(1, 2),
        disks={
            (1, 0): LEADING,
            (2, 0): Disk(content=KEPT, epochs=LEADING.epochs, server_log=CUT),
            (3, 0): Disk(content=v2(0, TEN[:5]) + v2(5, TEN[5:7])),
        },
    ),
    "not cut": Run(ops=LOST, disks=alike(Disk(content=v2(0, TEN[:5]) + v2(5, OTHER[:5])))),
    "without offset": Run(
        ops=[*IN_ORDER, *(ok(1, n, None) for n in range(5, 8))],
        disks=alike(Disk(content=v2(0, TEN))),
    ),
    "damaged": Run(
        disks={
            **alike(Disk(content=ONE + TWO + THREE)),
            (2, 0): Disk(content=ONE + hurt(TWO, 90) + v2(8, TEN[8:])),
        }
    ),
}


@pytest.fixture(scope="module")
def reports(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Report]:
    """The verdicts on all of them, which were verified together."""
    folder = tmp_path_factory.mktemp("replicas")
    paths = [run.write(folder / name.replace(" ", "-")) for name, run in RUNS.items()]
    judged = verify_all(paths, master="local[2]", say=lambda _: None)
    found = {}
    for name, report in zip(RUNS, judged, strict=True):
        assert isinstance(report, Report), report
        found[name] = report
    return found


def lost(report: Report) -> list[dict[str, str]]:
    """Return the details of the lost records, in the order of their offsets."""
    return [dict(one.detail) for one in report.anomalies["lost-write"].examples]


def test_a_run_whose_replicas_agree_is_valid(reports: Mapping[str, Report]) -> None:
    report = reports["agree"]

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())
    assert report.replicas["compared"] is True
    assert report.replicas["located"] == {}
    mine = report.replicas["brokers"]["2"]["orders-0"]
    assert (mine["leo"], mine["batches"], mine["epochs"]) == (10, 2, [[0, 0]])


def test_a_run_whose_replicas_differ_is_invalid(reports: Mapping[str, Report]) -> None:
    report = reports["differ"]

    assert report.verdict is Verdict.INVALID
    assert report.anomalies["replica-divergence"].kinds == {"in-sync": 1}
    assert report.anomalies["epoch-disorder"].kinds == {"ambiguous": 1}


def test_half_a_batch_outside_the_isr_is_told_and_costs_no_verdict(
    reports: Mapping[str, Report],
) -> None:
    report = reports["lags"]

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())
    assert report.replicas["compared"] is True
    assert "truncated" in report.replicas["brokers"]["3"]["orders-0"]["problem"]


def test_a_run_without_copies_is_unknown(reports: Mapping[str, Report]) -> None:
    report = reports["not copied"]

    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("The brokers' logs were not copied: replicas are not compared.",)


def test_a_run_with_a_damaged_disk_is_invalid(reports: Mapping[str, Report]) -> None:
    report = reports["damaged"]

    assert report.verdict is Verdict.INVALID
    assert report.anomalies["corrupt-record"].kinds == {"disk": 1}
    assert report.anomalies["replica-gap"].kinds == {"gap": 1}
    assert not report.anomalies["replica-gap"].permitted


def test_a_lost_record_is_located(reports: Mapping[str, Report]) -> None:
    report = reports["cut"]

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


def test_a_lost_record_that_nobody_cut_is_told_without(reports: Mapping[str, Report]) -> None:
    row = lost(reports["not cut"])[0]

    assert (row["held_by"], row["lacking"]) == ("", "1,2,3")
    assert "cut_by" not in row


def test_a_lost_record_without_an_offset_is_lost_all_the_same(
    reports: Mapping[str, Report],
) -> None:
    report = reports["without offset"]

    assert report.anomalies["lost-write"].count == 3
    assert report.replicas["located"]["unplaced"] == 3


def test_equal_replicas_leave_nothing_for_checkers_and_their_batches_can_be_asked(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text("{}")
    write_disks(tmp_path, alike(Disk(content=v2(0, TEN))))
    meta = {"topics": [{"name": TOPIC, "partitions": 1, "replication_factor": 3}]}
    copied = read_copied(RunDir.open(tmp_path), meta)

    comparison = compare(
        spark,
        {member_at(tmp_path, high=10): copied},
        target=str(tmp_path / "replicas" / "batches"),
    )

    assert comparison.empty == {
        "differences", "disordered", "damaged", "disjoint", "unmarked",
    }  # fmt: skip
    rows = pq.read_table(tmp_path / "replicas" / "batches").to_pylist()
    assert {row["broker"] for row in rows} == set(BROKERS)
    assert rows[0]["segment"] == "cluster/broker-1/data/orders-0/00000000000000000000.log"


def ruling(anomaly: str, kind: str, kafka: str) -> Row:
    """Return what is ruled of something that was found on the disks of a Kafka."""
    contract = Contract(acks="all", min_isr=2, replication_factor=3)
    return rule(anomaly, kind, Circumstances(contract=contract, kafka=kafka))


def ruled(anomaly: str, kind: str, kafka: str) -> bool:
    """Return whether what was found on disks is permitted on a Kafka."""
    return ruling(anomaly, kind, kafka).permitted


def test_no_kafka_may_diverge_within_the_isr() -> None:
    assert not ruled("replica-divergence", "in-sync", "0.10.2.2")
    assert not ruled("replica-divergence", "partly-destroyed", "3.9.1")
    assert ruled("replica-divergence", "out-of-sync", "4.3.1")


@pytest.mark.parametrize(
    ("anomaly", "kind", "kafka", "source"),
    [
        ("replica-divergence", "in-sync", "0.10.2.2", "scenario 2"),
        ("replica-divergence", "in-sync", "1.1.1", "KIP-279"),
        ("replica-divergence", "in-sync", "2.0.1", "KIP-101"),
        ("epoch-disorder", "renamed", "0.11.0.3", "KIP-279"),
        ("epoch-disorder", "renamed", "2.0.1", "KIP-101"),
        ("epoch-disorder", "ambiguous", "0.11.0.3", "KIP-101"),
    ],
)
def test_what_differs_is_laid_to_what_a_kafka_is_known_for(
    anomaly: str, kind: str, kafka: str, source: str
) -> None:
    found = ruling(anomaly, kind, kafka)
    assert source in found.why.source
    assert not found.permitted


def test_what_lies_damaged_outside_the_isr_is_permitted() -> None:
    assert ruled("corrupt-record", "disk-out-of-sync", "4.3.1")
    assert not ruled("corrupt-record", "disk", "4.3.1")
    assert not ruled("replica-gap", "gap", "4.3.1")
