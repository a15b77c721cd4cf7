"""Whether a cluster was whole at the end, and who says that it was the active controller."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.errors import HistoryUnreadable
from tests.metadata import batch, leader_change, no_op, write_metadata
from verifiers.run_folder.folder import RunInput
from verifiers.timeline.elections import read_elections
from verifiers.timeline.frames import read_rows
from verifiers.timeline.partition_states import read_timeline
from verifiers.timeline.recovery import recoveries, recovery_in

S = 1_000_000_000
SHORT = {"topic": "orders", "partition": 0, "leader": 1, "isr": [1, 2], "replicas": [1, 2, 3]}


def meta(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    known = {
        "bound_s": 120.0, "from_ns": 0, "to_ns": 120 * S, "left_down": [], "answered": True,
        "whole": False, "unregistered": [], "partitions": list(partitions),
    }  # fmt: skip
    return {"recovery": {**known, **more}}


def told(at_s: float, **ends: int) -> list[dict[str, Any]]:
    """Return the samples of one round: the log end of each broker, as in b1=5."""
    place = {"sample": "replica", "topic": "orders", "partition": 0, "asked_ns": round(at_s * S)}
    return [{**place, "broker": int(name[1:]), "log_end": end} for name, end in ends.items()]


def found(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    first, *others = rows
    assert (first["topic"], first["kind"], first.get("missing")) == ("", None, None)
    return [(row["topic"], row.get("partition"), row["kind"], row.get("missing")) for row in others]


def test_an_older_run_tells_nothing_of_its_recovery() -> None:
    assert recoveries({}, []) == []
    assert recovery_in({}) is None


def test_a_cluster_that_is_whole_lacks_nothing() -> None:
    whole = meta(whole=True)

    assert found(recoveries(whole, [])) == []
    assert recovery_in(whole) == {"bound_s": 120.0, "took_s": 120.0, "whole": True}


def test_a_replica_outside_the_isr_is_behind_unless_it_is_seen_to_hold_all() -> None:
    assert found(recoveries(meta(SHORT), [])) == [("orders", 0, "behind", 3)]


@pytest.mark.parametrize(
    ("first_s", "kind"), [(85, "caught-up"), (95, "behind")], ids=["35 s ago", "25 s ago"]
)
def test_a_replica_has_caught_up_if_it_holds_all_for_30_s(first_s: float, kind: str) -> None:
    samples = [
        *told(first_s - 10, b1=100, b3=50),
        *told(first_s - 5, b1=110, b3=60),
        *told(first_s, b1=120, b3=112),
        *told(110, b1=200, b3=199),
    ]

    (row,) = recoveries(meta(SHORT), samples)[1:]

    assert row["kind"] == kind
    assert row["caught_up_ns"] == (120 - first_s) * S


def test_a_replica_that_falls_behind_again_has_not_caught_up() -> None:
    samples = [*told(10, b1=100, b3=100), *told(20, b1=100, b3=100), *told(110, b1=200, b3=99)]

    assert found(recoveries(meta(SHORT), samples)) == [("orders", 0, "behind", 3)]


def test_a_leader_that_is_not_sampled_proves_nothing() -> None:
    samples = [*told(10, b1=100, b3=100), *told(20, b1=100, b3=100), *told(110, b3=100)]

    assert found(recoveries(meta(SHORT), samples)) == [("orders", 0, "behind", 3)]


def test_a_broker_that_is_not_registered_is_told_once() -> None:
    whole = {**SHORT, "partition": 1, "isr": [1, 2, 3]}

    assert found(recoveries(meta(SHORT, unregistered=[3]), [])) == [
        ("orders", 0, "unregistered", 3)
    ]
    assert found(recoveries(meta(unregistered=[3]), [])) == [("", None, "unregistered", 3)]
    assert found(recoveries(meta(whole, unregistered=[3]), [])) == [("", None, "unregistered", 3)]


def test_a_partition_without_a_leader_is_told_by_itself() -> None:
    assert found(recoveries(meta({**SHORT, "leader": None}), [])) == [
        ("orders", 0, "leaderless", None)
    ]


def test_a_broker_that_was_left_down_on_purpose_is_not_missed() -> None:
    assert found(recoveries(meta({**SHORT, "isr": [1]}, left_down=[3]), [])) == [
        ("orders", 0, "behind", 2)
    ]


def test_a_cluster_that_answers_nobody_is_told_as_such() -> None:
    (row,) = recoveries(meta(answered=False), [])

    assert (row["topic"], row["kind"]) == ("", "unanswered")


@pytest.mark.parametrize(
    ("line", "claim"),
    [
        (
            "[2026-11-22 12:00:00,123] INFO [RaftManager id=102] Completed transition to "
            "Leader(localId=102, epoch=5, epochStartOffset=9, highWatermark=...) from "
            "Candidate(localId=102, epoch=5) (org.apache.kafka.raft.QuorumState)",
            (5, 102),
        ),
        (
            "[2026-11-22 12:00:00,123] INFO [QuorumController id=102] Completed transition to "
            "Leader(localVoterNode=VoterNode(voterKey=ReplicaKey(id=102, directoryId=x)), epoch=6, "
            "epochStartOffset=9) (org.apache.kafka.raft.QuorumState)",
            (6, 102),
        ),
        (
            "[2026-11-22 12:00:00,123] INFO [Controller 102]: Controller 102 incremented epoch to "
            "3 (kafka.controller.KafkaController)",
            (3, 102),
        ),
        (
            "[2026-11-22 12:00:00,123] INFO [Controller id=102] 102 successfully elected as the "
            "controller. Epoch incremented to 4 and epoch zk version is now 4 (kafka.controller)",
            (4, 102),
        ),
        (
            "[2026-11-22 12:00:00,123] INFO [RaftManager id=102] Completed transition to "
            "FollowerState(localId=102, epoch=5, leaderId=101) from Leader(localId=102, epoch=4)",
            None,
        ),
        (
            "[2026-11-22 12:00:00,123] INFO In the new epoch 5, the leader is 101. "
            "(org.apache.kafka.controller.QuorumController)",
            None,
        ),
    ],
)
def test_a_node_claims_an_epoch_in_its_own_words(
    tmp_path: Path, line: str, claim: tuple[int, int] | None
) -> None:
    # A user's own service may have any name.
    home = tmp_path / "cluster" / "kafka-2"
    home.mkdir(parents=True)
    (home / "server.log").write_text(f"what came before\n{line}\n\tat some.where\n")
    (tmp_path / "run.json").write_text("{}")

    claims = read_elections(tmp_path / "cluster", read_timeline(tmp_path))

    assert [(one["epoch"], one["node"]) for one in claims] == ([] if claim is None else [claim])
    assert all(one["at_utc"] == "2026-11-22 12:00:00.123" for one in claims)


def test_every_copy_of_the_metadata_log_tells_who_led_it(tmp_path: Path) -> None:
    for service, node in (("broker-1", 1), ("broker-2", 2)):
        log = leader_change(0, 1000, node, epoch=7) + batch(1, 2000, [no_op()], epoch=7)
        write_metadata(tmp_path, log, service=service)
    (tmp_path / "run.json").write_text("{}")

    claims = read_elections(tmp_path / "cluster", read_timeline(tmp_path))

    assert [(one["epoch"], one["node"], one["told_by"]) for one in claims] == [
        (7, 1, "log of broker-1"),
        (7, 2, "log of broker-2"),
    ]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "cluster" / "processes.json").write_text('{"nodes": [{"node": 1}]}')
    run = RunInput(path=tmp_path, meta={}, contract=Contract(), faults=(), ends=(), origin_ns=0)

    with pytest.raises(HistoryUnreadable, match="does not say how its cluster ended"):
        read_rows(run, ())
