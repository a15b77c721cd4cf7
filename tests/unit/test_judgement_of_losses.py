"""What a fault excuses: only one that was injected can have destroyed an acknowledged record."""

import json
from pathlib import Path
from typing import Any

import pytest

from verifiers.checking.execution import Found
from verifiers.judging.judgement import judge_findings
from verifiers.run_folder.folder import read_run

DECIDED = {
    "id": "1", "event": "decided", "time_ns": 1, "fault": "power_loss", "victims": [1],
    "target": "all", "traits": {"destroys_data": True},
}  # fmt: skip
INJECTED = {"id": "1", "event": "injected", "time_ns": 2, "evidence": {"observed": True}}
FAILED = {"id": "1", "event": "failed", "error": "The agent did not answer."}
RUN = {
    "schema": 1, "run": "r", "origin_ns": 0, "kafka": "4.3.1", "topics": [], "state": "complete",
    "contract": {"acks": "all", "min_isr": 1, "replication_factor": 3, "idempotence": True},
}  # fmt: skip


@pytest.mark.parametrize(
    ("journal", "permitted"),
    [([DECIDED, INJECTED], True), ([DECIDED], False), ([DECIDED, FAILED], False), ([], False)],
    ids=["injected", "decided only", "decided and failed", "no fault"],
)
def test_a_loss_under_min_isr_1_is_permitted_only_if_a_fault_that_destroys_data_was_injected(
    journal: list[dict[str, Any]], permitted: bool, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    lines = "".join(json.dumps(line) + "\n" for line in journal)
    (tmp_path / "faults.jsonl").write_text(lines, encoding="utf-8")
    found = Found(counts={("lost-write", None): 1}, examples={})

    judged = judge_findings(read_run(tmp_path), found)

    assert judged["lost-write"].permitted is permitted
