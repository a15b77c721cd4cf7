"""Three defects of others that a gate meets now and then, told by their traces (docs/findings.md).

A run that shows one of them is INVALID, and rightly; a test that meets it has found nothing new.
Each is told by what its cause leaves behind, never by the anomaly alone.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds

from harness.core.verdict import Verdict
from tests.suites.recorded import lost_records, values

_SKIPPED_MARKER = re.compile(
    r"Couldn't find leader endpoint for partitions (?:Hash)?Set\(([^)]*)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefects:
    """What known defects have done to a run.

    Attributes:
        sends: the sends that one of them concerns, rows of `history/send`.
        transactions: theirs: process and number.
    """

    sends: tuple[dict[str, Any], ...]

    @property
    def verdict(self) -> Verdict:
        """What a run is in which nothing else was found."""
        return Verdict.INVALID if self.sends else Verdict.VALID

    @property
    def values(self) -> set[int]:
        """The values of these sends."""
        return {send["value"] for send in self.sends}

    @property
    def transactions(self) -> set[tuple[int, int]]:
        """Their transactions: process and number."""
        return {(send["process"], send["txn"]) for send in self.sends}

    def explain(self, offence: dict[str, Any]) -> bool:
        """Return whether a row of `anomalies` is about one of these sends, or its transaction."""
        detail = dict(offence["detail"])
        if offence["value"] in self.values:
            return True
        if "txn" in detail and (offence["process"], int(detail["txn"])) in self.transactions:
            return True
        # A reader that passed over the place of a record that is not there.
        after = detail.get("after_offset")
        return after is not None and any(
            send["partition"] == offence["partition"]
            and send["offset"] is not None
            and int(after) < send["offset"] < offence["offset"]
            for send in self.sends
        )


def known_defects(run_dir: Path) -> KnownDefects:
    """Return what the known defects of librdkafka 2.16 and Kafka 4.3.1 have done to a run."""
    sends = ds.dataset(run_dir / "history" / "send").to_table().to_pylist()
    found = (_purged, _unmarked, _repeated)
    return KnownDefects(sends=tuple(send for of in found for send in of(run_dir, sends)))


def unexplained_offences(run_dir: Path, defects: KnownDefects) -> list[dict[str, Any]]:
    """Return the rows of `anomalies` that are not permitted and that no known defect explains."""
    report = json.loads((run_dir / "verdict.json").read_text())
    forbidden = {name for name, found in report["anomalies"].items() if not found["permitted"]}
    rows = ds.dataset(run_dir / "anomalies").to_table().to_pylist()
    return [row for row in rows if row["anomaly"] in forbidden and not defects.explain(row)]


def assert_nothing_new(run_dir: Path) -> Verdict:
    """Fail where a run is not VALID and no known defect is why; return what its verdict is."""
    known, report = known_defects(run_dir), json.loads((run_dir / "verdict.json").read_text())
    assert unexplained_offences(run_dir, known) == [], report["anomalies"]
    assert report["verdict"] == known.verdict.name, report["reasons"]
    return known.verdict


def _purged(run_dir: Path, sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lost sends before which their process purged one to the same partition.

    librdkafka gives the purged record's sequence number to the next one, though the first may lie
    in the log: the broker takes the second for a repetition.
    """
    lost = lost_records(run_dir)
    purged = [send for send in sends if "_PURGE_QUEUE" in (send["error"] or "")]
    return [
        send
        for send in sends
        if send["value"] in lost
        and any(
            other["process"] == send["process"]
            and other["topic"] == send["topic"]
            and other["partition"] in {None, send["partition"]}
            and other["txn"] < send["txn"]
            for other in purged
        )
    ]


def _unmarked(run_dir: Path, sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sends of aborted transactions that are read where a marker was left out.

    A coordinator of Kafka 4.3.1 takes a partition without a leader for deleted (KAFKA-20734).
    """
    partitions = {
        partition.strip()
        for log in (run_dir / "cluster").glob("broker-*/server.log")
        for skipped in _SKIPPED_MARKER.findall(log.read_text(errors="replace"))
        for partition in skipped.split(",")
    }
    final = values(run_dir, "final")
    return [
        send
        for send in sends
        if send["type"] == "fail"
        and send["value"] in final
        and f"{send['topic']}-{send['partition']}" in partitions
    ]


def _repeated(run_dir: Path, sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sends that lie in the log twice, under two epochs of one producer.

    librdkafka that takes a new epoch sends again, under that, what was not acknowledged yet.
    """
    if max(values(run_dir, "final").values(), default=0) < 2:
        return []
    datasets = [f"{run_dir}/{name}/**/*.parquet" for name in ("history/final", "replicas/batches")]
    found = duckdb.execute(
        """
        SELECT value FROM read_parquet(?) f JOIN read_parquet(?) b
          ON f.topic = b.topic AND f."partition" = b."partition"
         AND f."offset" BETWEEN b.base_offset AND b.last_offset
        GROUP BY value, f.topic, f."partition"
        HAVING count(DISTINCT f."offset") = 2 AND count(DISTINCT b.producer_epoch) = 2
           AND min(b.producer_id) = max(b.producer_id)
        """,
        datasets,
    ).fetchall()
    repeated = {value for (value,) in found}
    return [send for send in sends if send["value"] in repeated]
