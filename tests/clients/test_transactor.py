"""The transactor against librdkafka's mock cluster, which keeps no transactions apart."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from confluent_kafka import KafkaError, Message

from harness.core.contract import Contract
from harness.history.seal import seal
from tests.clients.mock_kafka import PARTITIONS, RUN_ID, TOPIC, MockKafka, Run, mock_run
from workloads.control import Control
from workloads.transaction import Owner, TransactionFailed
from workloads.transactional import Transactional
from workloads.transactor import Transactor, TransactorSettings

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


def test_one_transaction_in_ten_rests_in_its_middle_until_the_client_is_told_to_stop(
    run: Run,
) -> None:
    client = run.start(SENDING, abort_share=0.0, rate_per_s=500, think_s=1.0)
    client.await_total("committed", 60)

    assert client.stop() == 0

    seal(run.folder)
    txns = run.rows("txn")
    took_s = [(row["complete_ns"] - row["invoke_ns"]) / 1e9 for row in txns]
    rested = [seconds for seconds in took_s if seconds > 0.1]
    assert {row["type"] for row in txns} == {"ok"}
    assert len(txns) / 30 < len(rested) < len(txns) / 4
    assert max(rested) > 0.5

    endless = run.start(
        SENDING, history=str(run.folder / "1.frames"), abort_share=0.0, think_s=600.0
    )
    # Whatever it says first, soon one of its transactions rests.
    endless.await_total("committed", 0)
    assert endless.stop() == 0


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
    fenced = {row["op"] for row in run.rows("event") if row["f"] == "fenced"}
    assert taken
    assert {txn: outcome[txn] for txn in taken} == {
        txn: "fail" if txn in fenced else "ok" for txn in taken
    }


class Scripted:
    """A transactional producer whose records are all delivered, and that another one may fence.

    The first that is made is the zombie, the second its successor.
    """

    made: ClassVar[list["Scripted"]] = []
    zombie_is_fenced: ClassVar[bool] = True
    successor_gets_the_id: ClassVar[bool] = True

    def __init__(self, _: Any, owner: Owner, *, limit_s: float) -> None:
        self._owner = owner
        self._sent: list[Delivered] = []
        self.is_successor = bool(self.made)
        self.made.append(self)

    def init(self) -> None:
        if self.is_successor and not self.successor_gets_the_id:
            raise TransactionFailed(KafkaError(KafkaError._TIMED_OUT, "no answer"), "abort")

    def send(self, _: str, payload: bytes, partition: int) -> None:
        self._sent.append(Delivered(payload, partition, len(self._sent)))

    def await_reports(self, enough: Callable[[], bool], *, limit_s: float) -> None:
        for message in self._sent:
            self._owner.reported(None, cast(Message, message))
        assert enough()

    def commit(self) -> None:
        if self.zombie_is_fenced:
            raise TransactionFailed(KafkaError(KafkaError._FENCED, "fenced"), "replace")

    def begin(self) -> None: ...

    def abort(self) -> None: ...

    def serve(self, _: float) -> None: ...

    def discard(self) -> None: ...


class Delivered:
    """A record as a delivery report tells of it."""

    def __init__(self, payload: bytes, partition: int, offset: int) -> None:
        self._told = (payload, partition, offset)

    def value(self) -> bytes:
        return self._told[0]

    def partition(self) -> int:
        return self._told[1]

    def offset(self) -> int:
        return self._told[2]


@pytest.mark.parametrize(
    ("is_fenced", "gets_the_id", "outcome", "events"),
    [
        # The coordinator had given the id away before: a commit that is refused never happened.
        (True, True, "fail", ["takeover", "fenced"]),
        # It must not be acknowledged; where it is, it counts: zombie-commit finds it.
        (False, True, "ok", ["takeover"]),
        # Nobody took over, and nothing was committed.
        (True, False, "fail", []),
    ],
)
def test_a_commit_after_a_takeover_has_failed_for_certain_if_it_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_fenced: bool,
    gets_the_id: bool,
    outcome: str,
    events: list[str],
) -> None:
    monkeypatch.setattr(Scripted, "made", [])
    monkeypatch.setattr(Scripted, "zombie_is_fenced", is_fenced)
    monkeypatch.setattr(Scripted, "successor_gets_the_id", gets_the_id)
    monkeypatch.setattr("workloads.transactor.TransactionalProducer", Scripted)
    raw = tmp_path / "history" / "raw"
    raw.mkdir(parents=True)
    settings = TransactorSettings(
        run_id=RUN_ID, seed=7, process=5, history=str(raw / "5.frames"), bootstrap="",
        topic=TOPIC, partitions=PARTITIONS, record_size_bytes=100, transactional_id="one",
        most_sends=3, abort_share=0.0, takeover_share=1.0, timeout_s=60,
    )  # fmt: skip
    transactor = Transactor(settings, Control())

    transactor.open()
    transactor.transact()
    transactor.recorder.close(used=transactor.used)

    seal(tmp_path)
    done = Run(tmp_path, cast(MockKafka, None))
    assert [row["type"] for row in done.rows("txn")] == [outcome]
    told = [row["f"] for row in done.rows("event") if row["f"] in ("takeover", "fenced", "fatal")]
    assert told == events
    asked = [row["detail"] for row in done.rows("event") if row["f"] == "init"]
    assert [words == "unanswered" for words in asked] == [False, not gets_the_id]
