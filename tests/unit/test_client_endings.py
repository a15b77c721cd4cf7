"""How clients end is written down, and read back with what they were told."""

import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.cluster.docker_cluster import DockerCluster
from harness.core.access import Access
from harness.core.errors import HistoryUnreadable
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.workload import ClientSpec
from harness.run.context import Phases, RunContext
from verifiers.run_folder.clients import ClientRecord, read_clients


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """The context of a run without a cluster."""
    run_dir = RunDir.create(tmp_path, scenario="short", seed=7)
    progress = Progress()
    return RunContext(
        cluster=cast(DockerCluster, SimpleNamespace(access=Access("nowhere"))),
        run_dir=run_dir, run_id="0" * 16, seed=7, topics=(), progress=progress,
        phase=Phases(run_dir, progress), stop=threading.Event(),
    )  # fmt: skip


def idle(process: int, **settings: object) -> ClientSpec:
    return ClientSpec(
        process=process, role="producer", module="tests.unit.idle_client", settings=settings
    )


def test_who_asked_a_client_to_end_and_who_killed_it_is_written_down(context: RunContext) -> None:
    asked, killed, struck, left = context.start_clients(
        [idle(1, timeout_s=20), idle(2), idle(3), idle(4)]
    )
    asked.ask_to_stop()
    killed.kill()
    os.kill(struck._process.pid, signal.SIGKILL)
    assert asked.await_end(timeout_s=60)
    assert struck.await_end(timeout_s=60)

    context.abandon_clients()
    context.run_dir.update(run="short")

    assert not left.is_running
    records = read_clients(context.run_dir.path)
    told = {
        record.process: (record.exit_code, record.asked_to_stop, record.killed)
        for record in records
    }
    assert told == {
        1: (0, True, False),
        2: (-9, False, True),
        3: (-9, False, False),
        4: (0, True, False),
    }
    assert all(record.ended_ns for record in records)
    assert [record.txn_timeout_s for record in records] == [20.0, None, None, None]
    assert {record.role for record in records} == {"producer"}


def test_who_waits_for_nothing_that_can_come_is_told_to_end(context: RunContext) -> None:
    quick, waiting = context.start_clients([idle(1), idle(2, waits=True)])

    context.stop_clients("producer", limit_s=60, patience_s=0.5)

    assert [c.is_running for c in (quick, waiting)] == [False, False]
    assert [c.was_killed for c in (quick, waiting)] == [False, False]
    assert context.reasons == []


def test_a_folder_without_endings_still_knows_its_clients(tmp_path: Path) -> None:
    run_dir = RunDir.create(tmp_path, scenario="short", seed=7)
    settings = json.dumps({"role": "producer", "timeout_s": 5})
    (run_dir.path / "clients" / "process-3.json").write_text(settings)
    (run_dir.path / "run.json").write_text("{}")

    assert read_clients(run_dir.path) == (
        ClientRecord(process=3, role="producer", txn_timeout_s=5.0),
    )


def test_a_line_that_tells_of_no_client_is_named(tmp_path: Path) -> None:
    run_dir = RunDir.create(tmp_path, scenario="short", seed=7)
    (run_dir.path / "run.json").write_text("{}")
    (run_dir.path / "clients.jsonl").write_text('{"event": "ended"}\n')

    with pytest.raises(HistoryUnreadable, match=r"clients.jsonl, line 1"):
        read_clients(run_dir.path)
