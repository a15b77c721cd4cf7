"""How many batches brokers refused for their checksums: what is recorded, and what is read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.agent import Agent
from harness.cluster.containers import NodeContainer
from harness.cluster.refusals import refusals
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken
from verifiers.run_folder.folder import RunInput
from verifiers.timeline.refusals import read_refusals

COUNTER = "kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec"


class Jvms:
    """An agent that knows three JVMs: of a broker, of one before 2.4, and of none."""

    def mbeans(self, container_pid: int, names: Sequence[str]) -> dict[tuple[str, str], float]:
        if container_pid == 13:
            raise ClusterBroken("There is no JVM.")
        runtime = "java.lang:type=Runtime"
        values = {(runtime, "StartTime"): 7000.0, (runtime, "Uptime"): 5.0}
        if container_pid == 11:
            values |= {(COUNTER, "Count"): 4.0, (COUNTER, "MeanRate"): 0.1}
        return {about: value for about, value in values.items() if about[0] in names}


def test_each_broker_is_asked_what_its_process_has_refused() -> None:
    containers = {node: SimpleNamespace(pid=10 + node) for node in (2, 1, 3)}

    told = refusals(cast("Mapping[int, NodeContainer]", containers), cast("Agent", Jvms()))

    assert told["brokers"] == [
        {"node": 1, "started_ms": 7000, "batches": 4, "why": None},
        {"node": 2, "started_ms": 7000, "batches": None, "why": None},
        {"node": 3, "started_ms": None, "batches": None, "why": "There is no JVM."},
    ]


def broker(node: int, started_ms: int | None, batches: int | None) -> dict[str, Any]:
    return {"node": node, "started_ms": started_ms, "batches": batches, "why": None}


def read(
    path: Path, *lines: Sequence[dict[str, Any]], faults: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return what is read of a run whose brokers were asked every second."""
    asked = [{"asked_ns": number, "brokers": line} for number, line in enumerate(lines, start=1)]
    if asked:
        (path / "cluster").mkdir()
        file = path / "cluster" / "refusals.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in asked))
    (path / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in faults))
    (path / "run.json").write_text("{}")
    run = RunInput(path=path, meta={}, contract=Contract(), faults=(), ends=(), origin_ns=10)
    return read_refusals(run)


@pytest.mark.parametrize(
    ("counts", "batches", "at_ns"),
    [
        ([(7, 4), (7, 6), (7, 6)], 2, 2),
        ([(7, 4), (9, 0), (9, 3)], 3, 3),
        ([(7, 4), (7, 5), (None, None), (9, 3), (9, 3)], 4, 4),
        ([(7, 4), (7, 4), (9, 0)], 0, 3),
    ],
    ids=[
        "since the run began",
        "of a process that began in the run",
        "of a process that ended, and of its successor",
        "none",
    ],
)
def test_what_a_broker_refused_before_the_run_does_not_count(
    counts: list[tuple[int | None, int | None]], batches: int, at_ns: int, tmp_path: Path
) -> None:
    (row,) = read(tmp_path, *([broker(1, *count)] for count in counts))

    assert row == {"topic": "", "node": 1, "kind": None, "at_ns": at_ns, "batches": batches}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [[]],
        [[broker(1, 7, 4)]],
        [[broker(1, 7, None)], [broker(1, 7, 4)]],
        [[broker(1, 7, 4)], [broker(1, None, None)]],
    ],
    ids=[
        "nobody asked",
        "nobody answered",
        "not later",
        "not known at the beginning",
        "not known later",
    ],
)
def test_where_a_count_is_not_known_nothing_is_told(
    lines: list[list[dict[str, Any]]], tmp_path: Path
) -> None:
    assert read(tmp_path, *lines) == []


def test_a_fault_that_may_change_bytes_is_told(tmp_path: Path) -> None:
    fault = {
        "id": "1", "event": "decided", "time_ns": 1, "fault": "any", "victims": [1],
        "traits": {"damages_data": True},
    }  # fmt: skip

    (row,) = read(tmp_path, [broker(1, 7, 0)], [broker(1, 7, 1)], faults=[fault])

    assert row["kind"] == "damaged"
