"""How processes of nodes ended: what is recorded, and what no fault explains."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.agent import Agent
from harness.cluster.containers import NodeContainer
from harness.cluster.logs import ClusterLogs
from harness.cluster.processes import processes
from harness.cluster.topology import Topology
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken
from verifiers.run_folder.folder import RunInput
from verifiers.timeline.clock import Clock
from verifiers.timeline.processes import read_processes

S = 1_000_000_000
ERA_MS = 1_795_348_800_000
"""What the brokers' clock shows when ours shows 0: 2026-11-22 12:00:00 UTC."""


class Container:
    """A container of which the engine tells one state."""

    def __init__(self, **state: Any) -> None:
        self.attrs = {
            "State": {
                "Running": True, "ExitCode": 0, "OOMKilled": False, "Error": "",
                "StartedAt": "then", "FinishedAt": "never", **state,
            }
        }  # fmt: skip

    def reload(self) -> None:
        return


class Machine:
    """An agent on a machine that has run for 500 seconds."""

    def ask(self, verb: str, *, container_pid: int = 0) -> dict[str, object]:
        if verb == "clock":
            return {"wall_ns": 1_795_284_381 * S, "up_ns": 500 * S}
        assert verb == "state"
        return {"process": {} if container_pid == 11 else None}


class Notes:
    """What supervisors noted."""

    def exits(self, node: Any) -> list[Mapping[str, float]]:
        if node.node_id == 3:
            raise ClusterBroken("The fault agent could not read.")
        return [{"pid": 7, "status": 137, "uptime_s": 490.0}] if node.node_id == 2 else []


def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    moments = iter([1000 * S, 1000 * S + 1_000_000])
    monkeypatch.setattr("harness.cluster.processes.time.monotonic_ns", lambda: next(moments))
    nodes = [SimpleNamespace(node_id=n, service=f"broker-{n}", kind="broker") for n in (1, 2, 3)]
    containers = {
        n: SimpleNamespace(pid=10 + n, container=Container(OOMKilled=n == 2)) for n in (1, 2, 3)
    }
    return processes(
        cast("Topology", SimpleNamespace(nodes=nodes)),
        cast("Mapping[int, NodeContainer]", containers),
        cast("Agent", Machine()),
        cast("ClusterLogs", Notes()),
    )


def test_an_end_is_placed_on_our_clock_by_the_uptime_of_its_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two, three = recorded(monkeypatch)["nodes"]

    assert (one["running"], one["exits"]) == (True, [])
    (ended,) = two["exits"]
    assert (ended["pid"], ended["status"], two["running"]) == (7, 137, False)
    assert ended["from_ns"] == 990 * S - 200_000_000
    assert ended["to_ns"] == 990 * S + 201_000_000
    assert two["container"]["oom_killed"]
    assert three["why"] == "The fault agent could not read."


RUNS = {"running": True}
TAKEN = (
    "[2026-11-22 12:00:34,000] ERROR Error while creating ephemeral at /brokers/ids/1 (kafka.A)\n"
    "KeeperErrorCode = NodeExists\n"
)


def run_of(
    path: Path,
    *exits: tuple[int, float, int],
    faults: Sequence[Mapping[str, Any]] = (),
    log: str = "",
    container: Mapping[str, Any] = RUNS,
    why: str | None = None,
    metadata: str = "kraft",
) -> list[dict[str, Any]]:
    """Return what is read of a run that began at 10 s: exits are node, second and status."""
    home = path / "cluster" / "broker-1"
    home.mkdir(parents=True)
    (home / "server.log").write_text(log)
    nodes = [
        {
            "node": node, "service": f"broker-{node}", "kind": "broker", "running": True,
            "why": why, "container": container,
            "exits": [
                {"pid": 1, "status": status, "from_ns": round(at * S), "to_ns": round(at * S) + 1}
                for ended, at, status in exits
                if ended == node
            ],
        }
        for node in (1, 2)
    ]  # fmt: skip
    document = {"schema": 1, "asked_ns": 100 * S, "answered_ns": 100 * S, "nodes": nodes}
    (path / "cluster" / "processes.json").write_text(json.dumps(document))
    (path / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in faults))
    (path / "run.json").write_text("{}")
    clock = Clock(readings=((ERA_MS * 1_000_000, -ERA_MS * 1_000_000, -ERA_MS * 1_000_000),))
    meta = {"cluster": {"metadata": metadata}}
    run = RunInput(
        path=path, meta=meta, contract=Contract(), faults=(), ends=(), origin_ns=10 * S
    )  # fmt: skip
    rows = read_processes(run, clock)
    assert [row["node"] for row in rows if row["kind"] is None] == [1, 2]
    return [row for row in rows if row["kind"] is not None]


def kill(
    *victims: int, since: float, until: float | None = None, stops: bool = True, fault_id: str = "1"
) -> list[dict[str, Any]]:
    decided = {
        "id": fault_id, "event": "decided", "time_ns": round(since * S), "fault": "any",
        "victims": list(victims), "traits": {"stops_process": stops},
    }  # fmt: skip
    healed = {"id": fault_id, "event": "healed", "time_ns": round((until or 0) * S)}
    return [decided] if until is None else [decided, healed]


def test_a_run_that_recorded_no_processes_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    run = RunInput(path=tmp_path, meta={}, contract=Contract(), faults=(), ends=(), origin_ns=0)

    assert read_processes(run, Clock()) == []


def test_an_end_is_explained_by_a_fault_that_stops_its_victim(tmp_path: Path) -> None:
    assert run_of(tmp_path, (1, 30, 137), faults=kill(1, since=29, until=40)) == []


def test_an_end_is_explained_by_a_fault_that_was_never_healed(tmp_path: Path) -> None:
    assert run_of(tmp_path, (1, 30, 137), faults=kill(1, since=29)) == []


@pytest.mark.parametrize(
    "faults",
    [
        kill(2, since=29, until=40),
        kill(1, since=31, until=40),
        kill(1, since=20, until=29),
        kill(1, since=29, until=40, stops=False),
    ],
    ids=["another node's", "a later one", "an earlier one", "one that stops nobody"],
)
def test_an_end_is_not_explained_by_another_fault(
    tmp_path: Path, faults: Sequence[Mapping[str, Any]]
) -> None:
    (row,) = run_of(tmp_path, (1, 30, 137), faults=faults)

    assert (row["node"], row["kind"], row["status"]) == (1, "killed", 137)


def test_a_fault_explains_one_end_of_each_victim(tmp_path: Path) -> None:
    faults = kill(1, 2, since=29, until=50)

    (row,) = run_of(tmp_path, (1, 30, 137), (2, 30, 137), (1, 35, 1), faults=faults)

    assert (row["node"], row["kind"], row["from_ns"]) == (1, "exited", 35 * S)


@pytest.mark.parametrize(
    ("metadata", "at_s", "status", "log", "is_told"),
    [
        ("zookeeper", 35, 1, "", False),
        ("zookeeper", 35, 1, TAKEN, False),
        ("zookeeper", 35, 1, TAKEN.replace("NodeExists", "CorruptRecord"), True),
        ("zookeeper", 35, 139, "", True),
        ("zookeeper", 55, 1, TAKEN, True),
        ("kraft", 35, 1, "", True),
    ],
    ids=["taken", "and says so", "says otherwise", "crashed", "after the healing", "KRaft"],
)
def test_a_start_in_vain_is_no_end_while_the_old_session_lasts(
    tmp_path: Path, metadata: str, at_s: int, status: int, log: str, *, is_told: bool
) -> None:
    faults = kill(1, since=29, until=50)

    told = run_of(
        tmp_path, (1, 30, 137), (1, at_s, status), faults=faults, log=log, metadata=metadata
    )

    assert bool(told) is is_told


def test_what_ended_before_the_clients_were_started_is_not_counted(tmp_path: Path) -> None:
    assert run_of(tmp_path, (1, 9, 1)) == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [(0, "exited"), (1, "exited"), (3, "exited"), (134, "crashed"), (139, "crashed"),
     (137, "killed"), (143, "terminated"), (130, "terminated")],
)  # fmt: skip
def test_an_exit_status_tells_how_a_process_ended(tmp_path: Path, status: int, kind: str) -> None:
    (row,) = run_of(tmp_path, (1, 30, status))

    assert (row["kind"], row["said"]) == (kind, None)


def test_the_worst_complaint_before_an_end_is_kept(tmp_path: Path) -> None:
    log = (
        "[2026-11-22 11:59:00,000] ERROR long before (kafka.A)\n"
        "[2026-11-22 12:00:28,000] ERROR Shutdown broker (kafka.B)\n"
        "java.io.IOException: disk gone\n"
        "\tat kafka.B.run\n"
        "[2026-11-22 12:00:29,000] WARN slow (kafka.C)\n"
        "[2026-11-22 12:00:59,000] ERROR afterwards (kafka.D)\n"
    )

    (row,) = run_of(tmp_path, (1, 30, 1), log=log)

    assert row["said"] == "Shutdown broker (kafka.B) java.io.IOException: disk gone"


def test_a_broker_that_found_its_disk_full_has_a_kind_of_its_own(tmp_path: Path) -> None:
    log = (
        "[2026-11-22 12:00:27,000] ERROR Error while appending (kafka.A)\n"
        "java.io.IOException: No space left on device\n"
        "[2026-11-22 12:00:29,000] ERROR Shutdown broker (kafka.B)\n"
    )

    (row,) = run_of(tmp_path, (1, 30, 1), log=log)

    assert row["kind"] == "no-space"


def test_a_node_that_could_not_be_asked_is_told(tmp_path: Path) -> None:
    rows = run_of(tmp_path, why="The fault agent does not answer.")

    assert {(row["kind"], row.get("status"), row["said"]) for row in rows} == {
        ("unasked", None, "The fault agent does not answer.")
    }


def test_a_container_that_ended_is_told(tmp_path: Path) -> None:
    state = {
        "running": False, "exit_code": 137, "oom_killed": True, "started_at": "then",
        "finished_at": "now", "error": "",
    }  # fmt: skip

    rows = run_of(tmp_path, container=state)

    assert {(row["kind"], row.get("status"), row["said"]) for row in rows} == {
        ("container", 137, "its container ended at now, out of memory")
    }
