"""The recorded run of a claim, read from its folder and from nowhere else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from harness.core.run_dir import RunDir

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """One batch of a script, by what its producer was told.

    Attributes:
        name: as in the script.
        offsets: offset by value of each acknowledged record; None if it was not told.
        failed: values that were certainly not written.
        unknown: values of which the producer knows nothing.
        errors: how often each error was met.
    """

    name: str
    offsets: Mapping[int, int | None]
    failed: frozenset[int]
    unknown: frozenset[int]
    errors: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, entry: Row) -> "RecordedBatch":
        """Return the batch in a line of lab.jsonl."""
        offsets = {
            value + step: None if offset is None else offset + step
            for value, offset, count in entry["ok"]
            for step in range(count)
        }
        return cls(
            name=entry["name"],
            offsets=offsets,
            failed=frozenset(_values(entry["fail"])),
            unknown=frozenset(_values(entry["info"])),
            errors=entry["errors"],
        )

    @property
    def acked(self) -> frozenset[int]:
        """The values that were acknowledged."""
        return frozenset(self.offsets)

    @property
    def values(self) -> frozenset[int]:
        """All values that were sent."""
        return self.acked | self.failed | self.unknown


def _values(runs: list[list[int]]) -> list[int]:
    return [first + step for first, count in runs for step in range(count)]


class RecordedRun:
    """A verified run, as the test of a claim reads it.

    Args:
        run_dir: a folder that has been verified.
        verdict: what its verdict.json holds.
    """

    def __init__(self, run_dir: RunDir, verdict: Row) -> None:
        self._run_dir = run_dir
        self.verdict = verdict
        self._lines = list(run_dir.lines("lab.jsonl"))

    @cached_property
    def meta(self) -> Row:
        """run.json."""
        return self._run_dir.meta()

    @property
    def kafka(self) -> str:
        """Version of the brokers."""
        return str(self.meta["kafka"])

    @property
    def unmet(self) -> list[str]:
        """Preconditions that were not observed, and faults without a witness, in words."""
        sentences = [str(line["what"]) for line in self._lines if line["event"] == "unmet"]
        if self.meta.get("state") != "complete":
            sentences += self.meta.get("reasons") or ["the run did not end"]
        for fault in self.verdict["faults"]:
            if not fault["evidence"].get("inject", {}).get("observed"):
                sentences.append(f"fault {fault['id']}, {fault['name']}, has no witness")
        return sentences

    @cached_property
    def unchecked(self) -> list[str]:
        """What of the history or of the logs could not be checked, in words.

        Where this is not empty, what was found stands, and what was not found proves nothing.
        """
        sentences = [
            f"the checker {name} crashed"
            for name, state in self.verdict["checkers"].items()
            if state == "crashed"
        ]
        path = self._run_dir.path / "history" / "ends.json"
        ends = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        if not ends:
            sentences.append("there was no final read")
        sentences += [
            f"{end['topic']}-{end['partition']} was read to {end['reached']} of {end['high']}"
            for end in ends
            if not end["complete"]
        ]
        return sentences

    def did_not_look_for(self, anomaly: str) -> bool:
        """Return whether no checker of this name could run: nothing found then proves nothing."""
        return self.verdict["checkers"].get(anomaly) not in ("ran", "skipped")

    @cached_property
    def batches(self) -> Mapping[str, RecordedBatch]:
        """The batches of the script by name."""
        batches = (RecordedBatch.read(line) for line in self._lines if line["event"] == "batch")
        return {batch.name: batch for batch in batches}

    def facts(self, name: str) -> list[Any]:
        """Return what the script has noted under a name, in order."""
        return self.all_facts.get(name, [])

    @cached_property
    def all_facts(self) -> dict[str, list[Any]]:
        """Everything that the script has noted, by name."""
        facts: dict[str, list[Any]] = {}
        for line in self._lines:
            if line["event"] == "fact":
                facts.setdefault(str(line["name"]), []).append(line["value"])
        return facts

    def anomalies(self, name: str) -> list[Row]:
        """Return every occurrence of an anomaly that the verifier has found."""
        return [row for row in self._rows if row["anomaly"] == name]

    @cached_property
    def _rows(self) -> list[Row]:
        folder = self._run_dir.path / "anomalies"
        rows: list[Row] = []
        for file in sorted(folder.glob("*.parquet")):
            for row in pq.read_table(file).to_pylist():
                rows.append({**row, "detail": dict(row["detail"] or [])})
        return rows

    @cached_property
    def lost(self) -> frozenset[int]:
        """Values of the acknowledged records that the verifier found lost."""
        return frozenset(int(row["value"]) for row in self.anomalies("lost-write"))

    @cached_property
    def final(self) -> frozenset[int]:
        """Values that the final read found."""
        files = sorted((self._run_dir.path / "history" / "final").glob("*.parquet"))
        columns = (pq.read_table(file, columns=["value"]).column(0) for file in files)
        return frozenset(value for column in columns for value in column.drop_null().to_pylist())
