"""The transactor against librdkafka's mock cluster, which keeps no transactions apart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.contract import Contract
from harness.history import seal
from tests.unit.mock_kafka import PARTITIONS, Run, mock_run
from workloads.transactional import Transactional

WORKLOAD = Transactional(
    partitions=PARTITIONS, producers=1, transformers=1, consumers=0, uncommitted=0, subscribers=0,
    rate_per_s=200, abort_share=0.3, takeover_share=0.0,
)  # fmt: skip
SENDING, POLLING = WORKLOAD.clients(Contract())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        yield made


def test_every_send_has_the_outcome_of_its_transaction(run: Run) -> None:
    client = run.start(SENDING)
    client.await_total("committed", 20)
    client.await_total("aborted", 5)

    assert client.stop() == 0

    seal(run.folder)
    outcome = {row["txn"]: row["type"] for row in run.rows("txn")}
    sends = run.rows("send")
    assert set(outcome.values()) == {"ok", "fail"}
    assert [row["type"] for row in sends] == [outcome[row["txn"]] for row in sends]
    assert all(row["offset"] is not None for row in sends if row["type"] == "ok")
    tried = {row["type"]: row["committing"] for row in run.rows("txn")}
    assert tried == {"ok": True, "fail": False}
    partitions = [
        {row["partition"] for row in sends if row["txn"] == txn}
        for txn, kind in outcome.items()
        if kind == "ok"
    ]
    assert max(map(len, partitions)) == PARTITIONS
    assert sorted(row["op"] for row in sends) == list(range(len(sends)))


def test_what_is_polled_in_aborted_transactions_is_polled_again(run: Run) -> None:
    # The mock cluster's transaction markers have no checksum.
    consume = {**POLLING.settings["consume"], "check.crcs": False}
    client = run.start(POLLING, consume=consume)
    client.await_total("aborted", 5)
    client.await_total("polled", 100)

    assert client.stop() == 0

    seal(run.folder)
    outcome = {row["txn"]: row["type"] for row in run.rows("txn")}
    polls = run.rows("poll")
    consumed = [(row["partition"], row["offset"]) for row in polls if outcome[row["txn"]] == "ok"]
    aborted = {(row["partition"], row["offset"]) for row in polls if outcome[row["txn"]] == "fail"}
    events = run.rows("event")
    processed = [(row["partition"], row["offset"]) for row in events if row["f"] == "processed"]
    assert len(consumed) == len(set(consumed))
    assert sorted(processed) == sorted(consumed)
    assert aborted
    assert "seek" in {row["f"] for row in events}
    ends = {p: max(o for at, o in consumed if at == p) + 1 for p, _ in consumed}
    committed = {row["partition"]: row["offset"] for row in events if row["f"] == "committed"}
    assert committed == ends


def test_a_killed_client_leaves_its_transaction_and_its_sends_in_doubt(run: Run) -> None:
    client = run.start(SENDING, abort_share=0.0, rate_per_s=100)
    client.await_total("committed", 10)

    client.process.kill()
    client.process.wait(120)

    seal(run.folder)
    sends = run.rows("send")
    committed = {row["txn"] for row in run.rows("txn") if row["type"] == "ok"}
    assert {row["txn"] for row in sends if row["type"] == "ok"} == committed
    assert {row["type"] for row in sends} == {"ok", "info"}
    assert not committed & {row["txn"] for row in sends if row["type"] == "info"}


def test_the_seed_draws_what_transactions_do(run: Run) -> None:
    fates = []
    for process in (0, 1):
        client = run.start(SENDING, process=0, history=str(run.folder / f"{process}.frames"))
        client.await_total("committed", 10)
        client.stop()
    (run.folder / "history" / "raw").rmdir()
    for process in (0, 1):
        folder = run.folder / f"run-{process}"
        raw = folder / "history" / "raw"
        raw.mkdir(parents=True)
        (run.folder / f"{process}.frames").rename(raw / "0.frames")
        seal(folder)
        other = Run(folder, run.kafka)
        fates.append([row["committing"] for row in other.rows("txn")][:10])

    assert fates[0] == fates[1]


def test_a_takeover_ends_the_transaction_of_the_first_client(run: Run) -> None:
    client = run.start(SENDING, abort_share=0.0, takeover_share=0.5, rate_per_s=50)
    client.await_total("committed", 5)

    assert client.stop() == 0

    seal(run.folder)
    taken = {row["op"] for row in run.rows("event") if row["f"] == "takeover"}
    outcome = {row["txn"]: row["type"] for row in run.rows("txn")}
    assert taken
    assert {outcome[txn] for txn in taken} <= {"fail", "ok"}
