"""What transaction coordinators know, from the bytes of their logs to the time that is left."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from tests.coordinators import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    batch,
    key,
    state,
    write_coordinators,
)
from verifiers.replicas.coordinators import TransactionalId, read_transactional_ids
from verifiers.run_folder.folder import RunInput
from verifiers.timeline.clock import Clock
from verifiers.timeline.transactions import read_transactions

S = 1_000_000_000
ONGOING_IN = {"orders": [0, 2], "other": [1]}


def known(path: Path) -> dict[str, TransactionalId]:
    manifest = json.loads((path / "cluster" / "replicas.json").read_text())
    read = read_transactional_ids(path / "cluster", manifest)
    assert read is not None
    return {one.name: one for one in read[1]}


@pytest.mark.parametrize("version", [0, 1])
def test_a_state_is_read_in_both_versions(tmp_path: Path, version: int) -> None:
    value = state(
        producer=9, epoch=3, status=ONGOING, partitions=ONGOING_IN, begun_ms=5000, updated_ms=6000,
        timeout_ms=1234, version=version,
    )  # fmt: skip
    write_coordinators(tmp_path, batch(0, [(key("one"), value)]))

    assert known(tmp_path) == {
        "one": TransactionalId(
            name="one", producer_id=9, producer_epoch=3, timeout_ms=1234, state="Ongoing",
            partitions=frozenset({("orders", 0), ("orders", 2), ("other", 1)}),
            updated_ms=6000, begun_ms=5000,
        )
    }  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_a_state_without_partitions_is_read(tmp_path: Path, version: int) -> None:
    write_coordinators(
        tmp_path, batch(0, [(key("one"), state(status=EMPTY, version=version, begun_ms=-1))])
    )

    one = known(tmp_path)["one"]
    assert (one.state, one.partitions, one.begun_ms) == ("Empty", frozenset(), -1)


def test_the_last_record_of_an_id_counts_and_none_takes_it_away(tmp_path: Path) -> None:
    log = batch(0, [(key("one"), state(status=ONGOING)), (key("two"), state(producer=8))])
    log += batch(2, [(key("one"), state(status=COMPLETE_COMMIT)), (key("two"), None)])
    log += batch(4, [(key("three", version=1), b"another kind of record")])
    write_coordinators(tmp_path, log)

    assert {name: one.state for name, one in known(tmp_path).items()} == {"one": "CompleteCommit"}


def test_the_copy_that_reaches_furthest_counts(tmp_path: Path) -> None:
    begin = batch(0, [(key("one"), state(status=ONGOING))])
    write_coordinators(tmp_path, begin, service="broker-1")
    ended = begin + batch(1, [(key("one"), state(status=COMPLETE_COMMIT))])
    write_coordinators(tmp_path, ended, service="broker-2")

    assert known(tmp_path)["one"].state == "CompleteCommit"


@pytest.mark.parametrize("why", [None, "broker-2: its container is not there"])
def test_nothing_is_known_where_a_copy_is_missing(tmp_path: Path, why: str | None) -> None:
    if why:
        write_coordinators(tmp_path, batch(0, [(key("one"), state())]), why=why)
    else:
        (tmp_path / "cluster").mkdir()
        (tmp_path / "cluster" / "replicas.json").write_text('{"reasons": [], "brokers": {}}')

    assert rows(tmp_path) == ([], [])


def test_a_log_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    write_coordinators(tmp_path, batch(0, [(key("one"), b"\x00\x00?")]))

    assert rows(tmp_path) == ([], [])


def rows(
    path: Path, *, healed_s: float | None = None, settings: dict[str, str] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of a run whose two clocks show the same."""
    (path / "run.json").write_text("{}")
    if healed_s is not None:
        lines = [
            {"id": "1", "event": event, "time_ns": round(at_s * S)}
            for event, at_s in (("decided", 0), ("healed", healed_s))
        ]
        (path / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if settings is not None:
        (path / "cluster" / "broker-1" / "effective.json").write_text(json.dumps(settings))
    meta = {"topics": [{"name": "orders", "partitions": 3, "replication_factor": 3}]}
    run = RunInput(path=path, meta=meta, contract=Contract(), faults=(), ends=(), origin_ns=0)
    return read_transactions(run, Clock(readings=((0, 0, 0),)))


def due_s(path: Path, status: int, **more: Any) -> float | None:
    value = state(status=status, partitions=ONGOING_IN, begun_ms=5000, updated_ms=6000)
    write_coordinators(path, batch(0, [(key("one"), value)]), asked_ns=77)
    coordinators, (row,) = rows(path, **more)
    assert coordinators == [{"topic": "orders", "asked_ns": 77}]
    assert (row["topic"], row["partitions"], row["producer_id"]) == ("orders", [0, 2], 7)
    due_ns = row["due_ns"]
    return None if due_ns is None else round(due_ns / S)


def test_an_ongoing_transaction_has_its_timeout_a_look_of_its_coordinator_and_30_s(
    tmp_path: Path,
) -> None:
    name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"

    assert due_s(tmp_path, ONGOING, settings={name: "10000"}) == 5 + 60 + 10 + 30


def test_a_coordinator_of_unknown_settings_looks_once_a_minute(tmp_path: Path) -> None:
    assert due_s(tmp_path, ONGOING) == 5 + 60 + 60 + 30


def test_the_time_counts_from_the_last_healing_where_that_is_later(tmp_path: Path) -> None:
    assert due_s(tmp_path, ONGOING, healed_s=100) == 100 + 60 + 30


def test_a_decided_transaction_has_30_s_for_its_markers(tmp_path: Path) -> None:
    assert due_s(tmp_path, PREPARE_COMMIT) == 6 + 30


def test_a_transaction_that_is_over_has_no_time_left(tmp_path: Path) -> None:
    assert due_s(tmp_path, COMPLETE_COMMIT) is None
