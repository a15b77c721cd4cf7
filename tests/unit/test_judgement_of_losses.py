"""What a fault explains: only one that was injected can have destroyed an acknowledged record."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verifiers.checking.execution import Found
from verifiers.judging.judgement import judge_findings
from verifiers.run_folder.folder import RunInput, read_run

DECIDED = {
    "id": "1", "event": "decided", "time_ns": 1, "fault": "power_loss", "victims": [1],
    "target": "all", "traits": {"destroys_data": True},
}  # fmt: skip
INJECTED = {"id": "1", "event": "injected", "time_ns": 2, "evidence": {"observed": True}}
FAILED = {"id": "1", "event": "failed", "error": "The agent did not answer."}
RUN = {
    "schema": 1, "run": "r", "origin_ns": 0, "kafka": "3.9.1", "topics": [], "state": "complete",
    "contract": {"acks": "all", "min_isr": 1, "replication_factor": 3, "idempotence": True},
}  # fmt: skip


@pytest.mark.parametrize(
    ("journal", "known"),
    [([DECIDED, INJECTED], True), ([DECIDED], False), ([DECIDED, FAILED], False), ([], False)],
    ids=["injected", "decided only", "decided and failed", "no fault"],
)
def test_a_loss_is_that_of_a_last_replica_only_if_a_fault_that_destroys_data_was_injected(
    journal: list[dict[str, Any]], known: bool, tmp_path: Path
) -> None:
    run = folder_with(journal, tmp_path)

    judged = judge_findings(run, Found(counts={("lost-write", "partly-destroyed"): 1}, examples={}))

    assert not judged["lost-write"].permitted
    assert ("last replica standing" in judged["lost-write"].why) is known


@pytest.mark.parametrize(
    ("journal", "led", "known"),
    [
        ([DECIDED, INJECTED], True, True),
        ([DECIDED, INJECTED], False, False),
        ([], True, False),
    ],
    ids=["lost its power and led on", "led by nobody without an ISR", "no fault"],
)
@pytest.mark.parametrize(
    ("anomaly", "kind"),
    [
        ("consume-repeat", "partly-destroyed"),
        ("lost-commit", "partly-destroyed"),
        ("dirty-read", None),
    ],
)
def test_what_a_last_known_leader_had_lost_is_told_as_such(
    anomaly: str,
    kind: str | None,
    journal: list[dict[str, Any]],
    led: bool,
    known: bool,
    tmp_path: Path,
) -> None:
    run = folder_with(journal, tmp_path)
    run = replace(run, meta={**run.meta, "kafka": "4.3.1"})
    found = Found(counts={(anomaly, kind): 1}, examples={})

    judged = judge_findings(run, found, last_known_led=led)

    assert not judged[anomaly].permitted
    assert ("last known leader" in judged[anomaly].why) is known


@pytest.mark.parametrize("gone", [True, False])
def test_a_loss_of_what_no_copy_was_left_of_is_permitted(gone: bool, tmp_path: Path) -> None:
    run = folder_with([DECIDED, INJECTED], tmp_path)
    found = Found(counts={("lost-write", "destroyed"): 1, ("dirty-read", None): 1}, examples={})

    judged = judge_findings(run, found, copies_destroyed=gone)

    assert judged["lost-write"].permitted is judged["dirty-read"].permitted is gone


@pytest.mark.parametrize(
    ("client", "suspected"),
    [(None, True), ("librdkafka:2.13.0", True), ("java:3.9.1", True), ("java:4.3.1", False)],
)
def test_a_late_request_is_suspected_of_what_clients_with_one_epoch_read(
    client: str | None, suspected: bool, tmp_path: Path
) -> None:
    run = folder_with([], tmp_path)
    run = replace(run, meta={**run.meta, "kafka": "4.3.1", "client": client})
    found = Found(counts={("G1a", "read_committed"): 1}, examples={})

    judged = judge_findings(run, found)["G1a"]

    assert not judged.permitted
    assert ("KAFKA-17754" in judged.why) is suspected


def folder_with(journal: list[dict[str, Any]], path: Path) -> RunInput:
    (path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    lines = "".join(json.dumps(line) + "\n" for line in journal)
    (path / "faults.jsonl").write_text(lines, encoding="utf-8")
    return read_run(path)
