"""A run of a claim made up batch by batch, and what the claim's expectation says of it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.lab.claim import find_claim
from harness.lab.finding import Finding, Outcome
from tests.unit import lab_fixture

_CHECKERS = (
    "lost-write", "duplicate", "nonmonotonic-send", "dirty-read", "inconsistent-offsets", "G1a",
    "phantom", "replica-divergence",
)  # fmt: skip


class RecordedFolder:
    """Writes what a run would have left behind, and judges claims by it.

    Args:
        path: an empty folder.
        kafka: version of the brokers.
    """

    def __init__(self, path: Path, kafka: str = "4.3.1") -> None:
        self._path = path
        self._kafka = kafka
        self._lines: list[dict[str, Any]] = []
        self._anomalies: list[dict[str, Any]] = []
        self._final: set[int] = set()
        self._next = 0
        self._end_offset = 0
        self.is_read = True

    def batch(
        self,
        name: str,
        count: int,
        *,
        outcome: str = "ok",
        error: str | None = None,
        offsets: bool = True,
        there: bool | None = None,
    ) -> list[int]:
        """Send a batch, and return its values.

        Args:
            name: as in the script.
            count: of its records.
            outcome: "ok", "fail" or "info", of all its records.
            error: that each met.
            offsets: whether the producer was told the offset of what was acknowledged.
            there: whether the records are in the log; None: if they were acknowledged.
        """
        values = list(range(self._next, self._next + count))
        self._next += count
        there = outcome == "ok" if there is None else there
        answer: dict[str, Any] = {"ok": [], "fail": [], "info": []}
        if outcome == "ok":
            answer["ok"] = [[values[0], self._end_offset if offsets else None, count]]
        else:
            answer[outcome] = [[values[0], count]]
        if there:
            self._end_offset += count
            self._final |= set(values)
        errors = {error: count} if error else {}
        self._lines.append({"event": "batch", "name": name, **answer, "errors": errors})
        return values

    def skip(self, count: int) -> None:
        """Let somebody else's records take so many offsets."""
        self._end_offset += count

    def fact(self, name: str, value: object) -> None:
        """Note a fact."""
        self._lines.append({"event": "fact", "name": name, "value": value})

    def lose(self, values: Collection[int]) -> None:
        """Let the verifier find records lost."""
        self._final -= set(values)
        self.anomaly("lost-write", values)

    def anomaly(self, name: str, values: Collection[int], *, kind: str | None = None) -> None:
        """Let the verifier find an anomaly, once for each value."""
        rows = (lab_fixture.anomaly(name, value) for value in values)
        self._anomalies += [{**row, "kind": kind} for row in rows]

    def judge(self, claim: str) -> Finding:
        """Return what the claim's expectation for this version says of the folder."""
        run = lab_fixture.recorded_run(
            self._path,
            lines=self._lines,
            anomalies=self._anomalies,
            kafka=self._kafka,
            complete=self.is_read,
            checkers=_CHECKERS,
        )
        final = self._path / "history" / "final" / "200.parquet"
        final.parent.mkdir(parents=True)
        pq.write_table(pa.table({"value": pa.array(sorted(self._final), pa.int64())}), final)
        expectation = find_claim(claim)[1].expectation(self._kafka)
        assert expectation is not None
        return expectation.test(run)

    def outcome(self, claim: str) -> Outcome:
        """Return the outcome alone."""
        return self.judge(claim).outcome
