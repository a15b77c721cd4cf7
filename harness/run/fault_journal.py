"""The journal of a run's faults, and beside it a table that can be laid beside anybody's log."""

import csv
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.core.fault import phrase
from harness.core.run_dir import Journal

COLUMNS = ("utc", "id", "event", "fault", "target", "victims", "hold_s", "observed", "details")
"""Of faults.csv: when, by the clock on the wall; which fault; decided, injected, healed or failed;
what, whom (node ids with spaces between), for how long; what its witnesses saw, or the error."""


class FaultJournal(Journal):
    """Writes faults.jsonl, and a row of faults.csv for each of its lines."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "faults.jsonl")
        self._table = (folder / "faults.csv").open("a", encoding="utf-8", newline="")
        self._rows = csv.DictWriter(self._table, COLUMNS, restval="", lineterminator="\n")
        if not self._table.tell():
            self._rows.writeheader()
        self._decided: dict[str, dict[str, Any]] = {}

    def append(self, entry: Mapping[str, Any], *, sync: bool = False) -> None:
        """Write a line and its row; with `sync`, the line is on the disk before this returns."""
        super().append(entry, sync=sync)
        with self._lock:
            self._rows.writerow(self._row(entry))
            self._table.flush()

    def close(self) -> None:
        """Close both files."""
        super().close()
        with self._lock:
            self._table.close()

    def _row(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        number = str(entry["id"])
        if entry["event"] == "decided":
            what = phrase({"name": entry["fault"], "parameters": entry["parameters"]})
            self._decided[number] = {
                "fault": what,
                "target": entry["target"],
                "victims": " ".join(map(str, entry["victims"])),
                "hold_s": entry["hold_s"],
            }
        evidence = entry.get("evidence") or {"observed": None}
        details = evidence.get("details")
        return {
            "utc": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "id": number,
            "event": entry["event"],
            **self._decided.get(number, {}),
            "observed": {True: "yes", False: "no", None: ""}[evidence["observed"]],
            "details": entry.get("error") or (details and json.dumps(details, sort_keys=True)),
        }
