from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.core.wait import wait_until
from harness.core.workload import ClientSpec
from harness.history.recorder import Recorder
from harness.history.seal import seal
from tests.clients.mock_kafka import (
    PARTITIONS,
    RUN_ID,
    TOPIC,
    MockKafka,
    Run,
    RunningClient,
    mock_run,
)
from workloads.client_config import subscriber_config
from workloads.control import Control
from workloads.group_member import GroupMember, MemberSettings
from workloads.record import encoder
from workloads.settings import read_settings

RECORDS = 40
ENCODE = encoder(run_id=RUN_ID, topic=TOPIC, size_bytes=100)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        for value in range(RECORDS):
            made.kafka.append(ENCODE(value), 0)
        yield made


def member(commits: str, *, process: int = 200, **changes: Any) -> ClientSpec:
    settings = {
        "topic": TOPIC,
        "commits": commits,
        "poll_records": 10,
        "poll_s": 0.5,
        "commit_every": 10,
        "process_s": 0.0,
        "config": subscriber_config("read_uncommitted", group="g one")
        | {"auto.commit.interval.ms": 50},
    }
    return ClientSpec(
        process=process,
        role="consumer",
        module="workloads.group_member",
        settings={**settings, **changes},
    )


def ask(client: RunningClient, what: str) -> dict[str, Any]:
    client.stdin.write(f'{{"do": "{what}", "order": 1}}\n'.encode())
    client.stdin.flush()

    def answer() -> dict[str, Any] | None:
        return next((line for line in client.progress() if line.get("reply") == 1), None)

    return wait_until(answer, timeout_s=120, what="an answer", interval_s=0.02)


def offsets(run: Run, f: str, process: int = 200) -> list[int]:
    return [
        row["offset"]
        for row in run.rows("event")
        if row["f"] == f and row["process"] == process and row["partition"] == 0
    ]


WAYS_TO_COMMIT = (
    ("auto-delivered", False),
    ("auto-stored", False),
    ("before-processing", False),
    ("after-processing", False),
    ("after-processing", True),
)
"""What is committed, and whether it is the consumer's own position."""


def test_a_member_processes_each_record_once_and_commits_them_all(run: Run) -> None:
    # The mock cluster lets a group wait for three seconds: the groups wait side by side.
    clients = {}
    for process, (commits, position) in enumerate(WAYS_TO_COMMIT, start=200):
        group = f"{commits} {position}"
        config = subscriber_config("read_uncommitted", group=group)
        spec = member(
            commits,
            process=process,
            config=config | {"auto.commit.interval.ms": 50},
            commit_position=position,
        )
        clients[process] = run.start(spec)
    for client in clients.values():
        client.await_total("processed", RECORDS)

    assert [client.stop() for client in clients.values()] == [0] * len(clients)

    seal(run.folder)
    for process, (commits, position) in zip(clients, WAYS_TO_COMMIT, strict=True):
        assert offsets(run, "processed", process) == list(range(RECORDS)), commits
        assert offsets(run, "committed", process)[-1] == RECORDS, commits
        events = [row for row in run.rows("event") if row["process"] == process]
        (joined,) = [row for row in events if row["f"] == "subscribe"]
        assert joined["detail"] == f"{commits} {commits} {position}"
        polls = [row for row in run.rows("poll") if row["process"] == process]
        given = {(row["op"], row["offset"]) for row in polls}
        done = {(row["op"], row["offset"]) for row in events if row["f"] == "processed"}
        assert done == given, commits


def test_before_it_subscribes_a_member_asks_where_its_group_is_and_an_auditor_only_asks(
    run: Run,
) -> None:
    first = run.start(member("after-processing"))
    first.await_total("processed", RECORDS)
    first.stop()
    auditor = run.start(replace(member("after-processing", process=350, audit=True), role="reader"))
    second = run.start(member("after-processing", process=201))
    second.await_total("rebalances", 1)
    second.stop()

    assert auditor.process.wait(120) == 0
    seal(run.folder)
    assert offsets(run, "offset-fetch", 200) == [None]
    assert offsets(run, "offset-fetch", 201) == [RECORDS]
    assert offsets(run, "offset-fetch", 350) == [RECORDS]
    asked = [row for row in run.rows("event") if row["f"] == "offset-fetch"]
    assert len(asked) == 3 * PARTITIONS
    assert all(0 < int(row["detail"]) < row["time_ns"] for row in asked)
    audited = [row for row in run.rows("event") if row["process"] == 350]
    assert {row["f"] for row in audited} == {"start", "audit", "offset-fetch", "close"}
    assert next(row["detail"] for row in audited if row["f"] == "audit") == "after-processing g one"


def test_a_member_killed_between_commit_and_processing_has_said_what_was_in_its_hand(
    run: Run,
) -> None:
    client = run.start(
        member("before-processing", hold={"before": "processing", "count": 15}, poll_s=5.0)
    )

    held = ask(client, "held")
    client.process.kill()
    client.process.wait(120)

    seal(run.folder)
    assert held["processed"] == 14
    assert held["unprocessed"] == [[0, offset] for offset in range(14, 20)]
    assert held["uncommitted"] == []
    assert offsets(run, "processed") == list(range(14))
    assert offsets(run, "committed") == [10, 20]
    assert [row["f"] for row in run.rows("event")][-1] == "crash"


def test_a_member_killed_between_processing_and_commit_has_said_so_too(run: Run) -> None:
    client = run.start(
        member("after-processing", hold={"before": "commit", "count": 2}, poll_s=5.0)
    )

    held = ask(client, "held")
    client.process.kill()
    client.process.wait(120)

    seal(run.folder)
    assert held["uncommitted"] == [[0, offset] for offset in range(10, 20)]
    assert held["unprocessed"] == []
    assert offsets(run, "processed") == list(range(20))
    assert offsets(run, "committed") == [10]


def test_a_member_that_holds_goes_on_when_told(run: Run) -> None:
    client = run.start(member("after-processing", hold={"before": "commit", "count": 1}))

    ask(client, "held")
    client.stdin.write(b'{"do": "go", "order": 2}\n')
    client.stdin.flush()

    client.await_total("processed", RECORDS)


def test_a_member_that_is_asked_to_stop_finishes_the_poll_that_it_is_in(run: Run) -> None:
    client = run.start(member("auto-delivered", poll_records=RECORDS, poll_s=5.0, process_s=0.05))
    client.await_total("processed", 1)

    client.stop()

    seal(run.folder)
    given = sorted(row["offset"] for row in run.rows("poll"))
    assert len(given) > 1
    assert offsets(run, "processed") == given
    assert offsets(run, "committed")[-1] == len(given)


def test_that_a_member_is_at_the_end_of_a_partition_is_no_error_of_its_poll(run: Run) -> None:
    config = {**member("after-processing").settings["config"], "enable.partition.eof": True}
    client = run.start(member("after-processing", poll_records=RECORDS + 10, config=config))
    client.await_total("processed", RECORDS)

    assert client.stop() == 0

    seal(run.folder)
    assert offsets(run, "processed") == list(range(RECORDS))
    assert [row["detail"] for row in run.rows("event") if row["f"] == "error"] == []


def test_a_way_to_commit_that_does_not_exist_is_refused(run: Run) -> None:
    client = run.start(member("sometimes"))

    assert client.process.wait(120) == 2


class FakeConsumer:
    """A consumer of librdkafka's whose first commits are refused."""

    def __init__(self, refused: int, *, has_lost: bool = False) -> None:
        self.refused = refused
        self.has_lost = has_lost
        self.place = 0
        self.seeks: list[int] = []

    def consume(self, most: int, wait_s: float) -> list[Any]:
        given = [FakeRecord(offset) for offset in range(self.place, min(self.place + most, 4))]
        self.place += len(given)
        return given

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> list[Any]:
        if self.refused:
            self.refused -= 1
            raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))
        return offsets

    def seek(self, place: Any) -> None:
        if self.has_lost:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.seeks.append(place.offset)
        self.place = place.offset


class FakeRecord:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return ENCODE(self._offset)


def faked(
    tmp_path: Path, commits: str, consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> tuple[GroupMember, Recorder]:
    monkeypatch.setattr("workloads.consumer.Consumer", lambda config: consumer)
    (tmp_path / "history" / "raw").mkdir(parents=True)
    settings = {
        **member(commits, poll_records=4).settings,
        "process": 200, "run_id": RUN_ID, "seed": 7, "bootstrap": "",
        "history": str(tmp_path / "history" / "raw" / "200.arrows"),
    }  # fmt: skip
    made = GroupMember(read_settings(MemberSettings, settings), Control())
    return made, made.recorder


def told(tmp_path: Path, recorder: Recorder, *kinds: str) -> list[tuple[str, int]]:
    recorder.close()
    seal(tmp_path)
    rows = Run(tmp_path, cast(MockKafka, None)).rows("event")
    return [(row["f"], row["offset"]) for row in rows if row["f"] in kinds]


def test_who_commits_first_and_is_refused_goes_back_and_processes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer(refused=1)
    one, recorder = faked(tmp_path, "before-processing", consumer, monkeypatch)

    one.turn()
    assert (one.processed, consumer.seeks) == (0, [0])
    one.turn()

    wanted = ("seek", "committed", "processed")
    assert told(tmp_path, recorder, *wanted) == [
        ("seek", 0), ("committed", 4), *(("processed", offset) for offset in range(4)),
    ]  # fmt: skip


def test_who_has_lost_the_partition_meanwhile_leaves_it_to_its_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer(refused=1, has_lost=True)
    one, recorder = faked(tmp_path, "before-processing", consumer, monkeypatch)

    one.turn()

    assert one.processed == 0
    assert told(tmp_path, recorder, "seek", "committed", "processed") == []


def test_who_commits_afterwards_has_processed_already_and_commits_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer(refused=1)
    one, recorder = faked(tmp_path, "after-processing", consumer, monkeypatch)

    one.turn()
    one.turn()

    assert consumer.seeks == []
    assert told(tmp_path, recorder, "processed", "committed") == [
        *(("processed", offset) for offset in range(4)), ("committed", 4),
    ]  # fmt: skip


def test_a_member_that_is_told_to_hurry_processes_without_taking_its_time(run: Run) -> None:
    # At its own pace it would take minutes.
    client = run.start(member("after-processing", poll_records=1, process_s=5.0))
    client.stdin.write(b'{"do": "hurry", "order": 1}\n')
    client.stdin.flush()

    client.await_total("processed", RECORDS)
