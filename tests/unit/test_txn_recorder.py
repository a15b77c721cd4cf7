"""What is written down of transactions, and what is left of a client that was killed in one."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.core.errors import HistoryUnreadable
from harness.core.op import OpType
from harness.history.format import TXN_SCHEMA
from harness.history.recorder import Identity
from harness.history.seal import seal
from harness.history.transactions import Delivery, TxnRecorder
from tests.unit.test_history import ENCODE, RUN, Stored
from workloads.record import decoder, values_of


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "history" / "raw").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def client(run_dir: Path) -> TxnRecorder:
    identity = Identity(process=3, role="producer", run_id=RUN, topic="orders")
    return TxnRecorder(
        run_dir / "history" / "raw" / "3.frames",
        identity,
        values_of=values_of,
        decode=decoder(run_id=RUN),
    )


def rows(run_dir: Path, dataset: str) -> list[dict[str, Any]]:
    files = sorted((run_dir / "history" / dataset).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def sends(client: TxnRecorder, block: range, count: int) -> None:
    client.pending.add(block[:count], 100)
    for place, value in enumerate(block[:count]):
        client.delivered(value, Delivery(partition=place, offset=place, acked=True))


@pytest.mark.parametrize("kind", [OpType.OK, OpType.FAIL, OpType.INFO])
def test_sends_have_the_outcome_of_their_transaction(
    run_dir: Path, client: TxnRecorder, kind: OpType
) -> None:
    block = client.reserve()
    client.begin()
    sends(client, block, 2)
    assert client.under_way == 2
    client.end(kind, committing=True, error="a reason")
    client.close(used=2)

    seal(run_dir)

    told = [
        (row["type"], row["partition"], row["offset"], row["txn"]) for row in rows(run_dir, "send")
    ]
    assert told == [(str(kind), 0, 0, 0), (str(kind), 1, 1, 0)]
    (txn,) = rows(run_dir, "txn")
    assert (txn["process"], txn["txn"], txn["type"], txn["committing"]) == (3, 0, str(kind), True)
    assert txn["error"] == "a reason"
    assert txn["invoke_ns"] <= txn["complete_ns"]
    assert pq.read_schema(run_dir / "history" / "txn" / "3.parquet").equals(TXN_SCHEMA)


def test_a_send_that_nobody_confirmed_is_in_doubt_even_if_its_transaction_is_not(
    run_dir: Path, client: TxnRecorder
) -> None:
    block = client.reserve()
    client.begin()
    sends(client, block, 1)
    client.pending.add(block[1:2], 100)
    client.end(OpType.OK, committing=True)
    client.close(used=2)

    seal(run_dir)

    assert [row["type"] for row in rows(run_dir, "send")] == ["ok", "info"]


def test_a_refused_send_has_failed_whatever_its_transaction(
    run_dir: Path, client: TxnRecorder
) -> None:
    block = client.reserve()
    number = client.begin()
    sends(client, block, 1)
    client.pending.add(block[1:2], 100)
    client.completed(block[1], OpType.FAIL, error="_QUEUE_FULL", txn=number)
    client.end(OpType.OK, committing=True)
    client.close(used=2)

    seal(run_dir)

    told = {row["op"]: (row["type"], row["txn"]) for row in rows(run_dir, "send")}
    assert told == {0: ("ok", 0), 1: ("fail", 0)}


def test_polls_belong_to_the_transaction_that_is_open(run_dir: Path, client: TxnRecorder) -> None:
    client.polled(0, [Stored(ENCODE(7), 1, 5)])
    client.begin()
    client.polled(1, [Stored(ENCODE(8), 1, 6)])
    client.end(OpType.FAIL, committing=False)
    client.begin()
    client.end(OpType.OK, committing=True)
    client.polled(2, [Stored(ENCODE(8), 1, 6)])
    client.close(used=0)

    seal(run_dir)

    assert [(row["op"], row["offset"], row["txn"]) for row in rows(run_dir, "poll")] == [
        (0, 5, None),
        (1, 6, 0),
        (2, 6, None),
    ]
    assert [(row["txn"], row["type"]) for row in rows(run_dir, "txn")] == [(0, "fail"), (1, "ok")]


def test_a_killed_client_leaves_its_open_transaction_in_doubt(
    run_dir: Path, client: TxnRecorder
) -> None:
    block = client.reserve()
    client.begin()
    sends(client, block, 1)
    client.end(OpType.OK, committing=True)
    client.begin()
    client.pending.add(block[1:3], 300)
    client.flush()
    # Killed here: nothing is closed.

    seal(run_dir)

    kinds = {row["txn"]: (row["type"], row["committing"]) for row in rows(run_dir, "txn")}
    assert kinds == {0: ("ok", True), 1: ("info", True)}
    known = [(row["op"], row["type"], row["txn"]) for row in rows(run_dir, "send")][:4]
    assert known == [(0, "ok", 0), (1, "info", 1), (2, "info", 1), (3, "info", None)]


def test_a_client_that_closes_within_a_transaction_leaves_it_in_doubt(
    run_dir: Path, client: TxnRecorder
) -> None:
    client.begin()
    client.close(used=0)

    seal(run_dir)

    assert [row["type"] for row in rows(run_dir, "txn")] == ["info"]
    assert "crash" not in {row["f"] for row in rows(run_dir, "event")}


def test_a_transaction_that_ends_twice_makes_the_history_unreadable(
    run_dir: Path, client: TxnRecorder
) -> None:
    client.begin()
    client.end(OpType.OK, committing=True)
    client._rows["txn"] *= 2
    client.close(used=0)

    with pytest.raises(HistoryUnreadable, match="ends transaction 0, which was not begun"):
        seal(run_dir)
