from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.core.errors import HistoryUnreadable, KafkaChaosError
from harness.core.op import OpType, value_of
from harness.history.format import EVENT_SCHEMA, POLL_SCHEMA, SEND_SCHEMA, pack_frame, read_frames
from harness.history.recorder import Identity, Recorder
from harness.history.seal import seal
from harness.history.sends import SendRecorder
from workloads.record import decoder, encoder, values_of

RUN = "00112233445566ff"
ENCODE = encoder(run_id=RUN, topic="orders", size_bytes=40)


@dataclass(frozen=True)
class Stored:
    """A record at its place in a log, as a client library would hand it out."""

    bytes_: bytes
    place: int
    at: int | None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self.place

    def offset(self) -> int | None:
        return self.at

    def value(self) -> bytes:
        return self.bytes_


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "history" / "raw").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def producer(run_dir: Path) -> SendRecorder:
    identity = Identity(process=3, role="producer", run_id=RUN, topic="orders")
    return SendRecorder(raw_file(run_dir), identity, values_of=values_of)


def raw_file(run_dir: Path) -> Path:
    return run_dir / "history" / "raw" / "3.frames"


def rows(run_dir: Path, dataset: str) -> list[dict[str, Any]]:
    files = sorted((run_dir / "history" / dataset).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def invoke(recorder: SendRecorder, values: Sequence[int], *, time_ns: int = 100) -> None:
    recorder.pending.add(range(values[0], values[-1] + 1), time_ns)


def acknowledge(recorder: SendRecorder, value: int, *, offset: int | None, time_ns: int) -> None:
    recorder.acked.append(Stored(ENCODE(value), 1, offset))
    recorder.acked_ns.append(time_ns)


def test_an_acknowledged_send_is_sealed_with_its_place_and_times(
    run_dir: Path, producer: SendRecorder
) -> None:
    value = producer.reserve()[0]
    invoke(producer, [value], time_ns=100)
    acknowledge(producer, value, offset=17, time_ns=250)
    producer.close(used=1)

    seal(run_dir)

    assert rows(run_dir, "send") == [
        {
            "process": 3,
            "op": 0,
            "type": "ok",
            "topic": "orders",
            "partition": 1,
            "offset": 17,
            "value": value_of(3, 0),
            "invoke_ns": 100,
            "complete_ns": 250,
            "error": None,
            "txn": None,
        }
    ]
    assert [event["f"] for event in rows(run_dir, "event")] == ["start", "close"]


def test_an_acknowledgement_without_offset_has_none(run_dir: Path, producer: SendRecorder) -> None:
    value = producer.reserve()[0]
    invoke(producer, [value])
    acknowledge(producer, value, offset=None, time_ns=250)
    producer.close(used=1)

    seal(run_dir)

    assert [row["offset"] for row in rows(run_dir, "send")] == [None]


def test_sends_are_sealed_in_the_order_in_which_they_completed(
    run_dir: Path, producer: SendRecorder
) -> None:
    first, second, third = producer.reserve()[:3]
    invoke(producer, [first, second, third])
    acknowledge(producer, third, offset=5, time_ns=1)
    producer.completed(second, OpType.INFO, partition=0, error="_MSG_TIMED_OUT")
    acknowledge(producer, first, offset=6, time_ns=2**62)
    producer.close(used=3)

    seal(run_dir)

    ended = [(row["op"], row["type"], row["error"]) for row in rows(run_dir, "send")]
    assert ended == [(2, "ok", None), (1, "info", "_MSG_TIMED_OUT"), (0, "ok", None)]


def test_what_is_pending_at_the_end_is_info_and_what_was_not_used_is_nothing(
    run_dir: Path, producer: SendRecorder
) -> None:
    block = producer.reserve()
    invoke(producer, block[:2])
    producer.close(used=2)

    seal(run_dir)

    assert [(row["op"], row["type"], row["invoke_ns"]) for row in rows(run_dir, "send")] == [
        (0, "info", 100),
        (1, "info", 100),
    ]


def test_a_killed_producer_leaves_all_that_it_reserved_in_doubt(
    run_dir: Path, producer: SendRecorder
) -> None:
    block = producer.reserve()
    invoke(producer, block[:3])
    acknowledge(producer, block[1], offset=0, time_ns=250)
    producer.flush()
    # Killed here: nothing is closed.

    seal(run_dir)

    sends = rows(run_dir, "send")
    assert [row["op"] for row in sends if row["type"] == "ok"] == [1]
    doubtful = {row["op"]: row["invoke_ns"] for row in sends if row["type"] == "info"}
    assert set(doubtful) == set(range(len(block))) - {1}
    assert [doubtful[op] for op in (0, 2, 3)] == [100, 100, None]
    assert [event["f"] for event in rows(run_dir, "event")] == ["start", "crash"]


def test_blocks_grow_with_the_speed_of_the_producer(producer: SendRecorder) -> None:
    sizes = [len(producer.reserve()) for _ in range(4)]

    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_a_file_torn_in_mid_write_is_read_to_its_last_whole_frame(
    run_dir: Path, producer: SendRecorder
) -> None:
    values = producer.reserve()[:2]
    invoke(producer, values)
    acknowledge(producer, values[0], offset=0, time_ns=250)
    producer.flush()
    whole = raw_file(run_dir).stat().st_size
    acknowledge(producer, values[1], offset=1, time_ns=260)
    producer.flush()
    complete = raw_file(run_dir).read_bytes()

    for size in [*range(whole + 1, len(complete), 97), len(complete) - 1]:
        raw_file(run_dir).write_bytes(complete[:size])
        seal(run_dir)

        assert [row["op"] for row in rows(run_dir, "send") if row["type"] == "ok"] == [0]
        (crash,) = [event for event in rows(run_dir, "event") if event["f"] == "crash"]
        assert f"{size - whole} bytes" in crash["detail"]


def test_any_damage_before_the_end_is_an_error_that_names_the_file(
    run_dir: Path, producer: SendRecorder
) -> None:
    producer.reserve()
    producer.close(used=0)
    good = raw_file(run_dir).read_bytes()

    for place in range(0, len(good), 29):
        raw_file(run_dir).write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])

        with pytest.raises(HistoryUnreadable, match=r"3\.frames is damaged at byte"):
            seal(run_dir)
        assert not list((run_dir / "history" / "event").iterdir())


def test_garbage_is_no_history(run_dir: Path) -> None:
    raw_file(run_dir).write_bytes(b"garbage")

    with pytest.raises(HistoryUnreadable, match="damaged at byte 0"):
        seal(run_dir)


def test_a_client_that_never_began_leaves_nothing(run_dir: Path) -> None:
    raw_file(run_dir).touch()

    seal(run_dir)

    assert rows(run_dir, "event") == []


def test_a_send_that_completes_twice_makes_the_history_unreadable(
    run_dir: Path, producer: SendRecorder
) -> None:
    value = producer.reserve()[0]
    for _ in range(2):
        invoke(producer, [value])
        acknowledge(producer, value, offset=0, time_ns=250)
        producer.flush()

    with pytest.raises(HistoryUnreadable, match="completes send 0 twice"):
        seal(run_dir)


def test_a_send_that_completes_twice_in_one_frame_makes_the_history_unreadable(
    run_dir: Path, producer: SendRecorder
) -> None:
    block = producer.reserve()
    invoke(producer, block[:3])
    acknowledge(producer, block[1], offset=0, time_ns=250)
    producer.flush()
    acknowledge(producer, block[0], offset=1, time_ns=260)
    producer.flush()
    invoke(producer, [block[5]])
    producer.completed(block[5], OpType.INFO)
    invoke(producer, [block[5]])
    acknowledge(producer, block[5], offset=5, time_ns=270)
    producer.flush()

    with pytest.raises(HistoryUnreadable, match="completes send 5 twice"):
        seal(run_dir)


def test_a_damaged_client_leaves_what_others_recorded_to_be_sealed_later(run_dir: Path) -> None:
    raws = []
    for process in (3, 4, 5):
        raw = run_dir / "history" / "raw" / f"{process}.frames"
        identity = Identity(process=process, role="producer", run_id=RUN, topic="orders")
        producer = SendRecorder(raw, identity, values_of=values_of)
        invoke(producer, producer.reserve()[:1])
        producer.close(used=1)
        raws.append(raw)
    good = raws[1].read_bytes()
    raws[1].write_bytes(good[:40] + bytes([good[40] ^ 4]) + good[41:])

    with pytest.raises(HistoryUnreadable, match=r"4\.frames is damaged"):
        seal(run_dir)
    assert not list((run_dir / "history").rglob("*.draft"))
    raws[1].write_bytes(good)
    seal(run_dir)

    assert [row["process"] for row in rows(run_dir, "send")] == [3, 4, 5]


def test_a_send_that_was_never_reserved_makes_the_history_unreadable(
    run_dir: Path, producer: SendRecorder
) -> None:
    value = producer.reserve()[-1] + 1
    invoke(producer, [value])
    acknowledge(producer, value, offset=0, time_ns=250)
    producer.close(used=65)

    with pytest.raises(HistoryUnreadable, match="never reserved"):
        seal(run_dir)


def test_a_long_history_keeps_every_send_exactly_once(
    run_dir: Path, producer: SendRecorder
) -> None:
    used = 0
    stuck: list[int] = []
    while used < 200_000:
        block = producer.reserve()
        invoke(producer, block)
        used += len(block)
        stuck.append(block[0])
        for value in block[1:]:
            acknowledge(producer, value, offset=used, time_ns=250)
        producer.flush()
    for value in stuck:
        acknowledge(producer, value, offset=used, time_ns=300)
    producer.close(used=used)

    seal(run_dir)

    table = pq.read_table(run_dir / "history" / "send" / "3.parquet")
    assert sorted(table["op"].to_pylist()) == list(range(used))
    assert set(table["type"].to_pylist()) == {"ok"}


def test_a_second_process_may_not_write_into_the_same_history(
    run_dir: Path, producer: SendRecorder
) -> None:
    producer.flush()

    with pytest.raises(KafkaChaosError, match="cannot be begun"):
        Recorder(raw_file(run_dir), producer.identity, decode=decoder(run_id=RUN))


@pytest.mark.parametrize(("role", "dataset"), [("consumer", "poll"), ("reader", "final")])
def test_polled_records_are_sealed_with_their_polls_and_problems(
    run_dir: Path, role: Any, dataset: str
) -> None:
    identity = Identity(process=100, role=role, run_id=RUN)
    recorder = Recorder(raw_file(run_dir), identity, decode=decoder(run_id=RUN))
    recorder.polled(0, [Stored(ENCODE(8), 0, 5), Stored(b"?", 0, 6)])
    recorder.polled(1, [])
    recorder.polled(2, [Stored(ENCODE(9), 2, 1)])
    recorder.close()

    seal(run_dir)

    seen = [
        (row["op"], row["position"], row["partition"], row["offset"], row["value"], row["problem"])
        for row in rows(run_dir, dataset)
    ]
    assert seen == [(0, 0, 0, 5, 8, None), (0, 1, 0, 6, None, "format"), (2, 0, 2, 1, 9, None)]


def test_the_sealed_files_have_the_declared_columns(run_dir: Path, producer: SendRecorder) -> None:
    value = producer.reserve()[0]
    invoke(producer, [value])
    producer.close(used=1)
    polls = Recorder(
        run_dir / "history" / "raw" / "100",
        Identity(process=100, role="consumer", run_id=RUN),
        decode=decoder(run_id=RUN),
    )
    polls.polled(0, [Stored(ENCODE(8), 0, 5)])
    polls.close()

    seal(run_dir)

    history = run_dir / "history"
    assert pq.read_schema(history / "send" / "3.parquet").equals(SEND_SCHEMA)
    assert pq.read_schema(history / "poll" / "100.parquet").equals(POLL_SCHEMA)
    assert pq.read_schema(history / "event" / "3.parquet").equals(EVENT_SCHEMA)


def test_sealing_again_changes_nothing(run_dir: Path, producer: SendRecorder) -> None:
    producer.close(used=0)
    seal(run_dir)
    before = snapshot(run_dir)

    seal(run_dir)

    assert snapshot(run_dir) == before


def test_the_ends_of_all_readers_become_one_list(run_dir: Path) -> None:
    raw = run_dir / "history" / "raw"
    (raw / "300.ends.json").write_text('[{"topic": "orders", "partition": 2}]')
    (raw / "301.ends.json").write_text('[{"topic": "orders", "partition": 1}]')

    seal(run_dir)

    ends = (run_dir / "history" / "ends.json").read_text()
    assert ends.index('"partition": 1') < ends.index('"partition": 2')


def test_a_draft_that_a_killed_reader_left_is_passed_over(run_dir: Path) -> None:
    (run_dir / "history" / "raw" / ".300.ends.json.draft").write_text("[{")

    seal(run_dir)

    assert (run_dir / "history" / "ends.json").read_text() == "[]\n"


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnreadable, match="no folder history/raw"):
        seal(tmp_path)


def snapshot(run_dir: Path) -> dict[Path, tuple[int, bytes]]:
    files: Callable[[str], Any] = (run_dir / "history").rglob
    return {file: (file.stat().st_ino, file.read_bytes()) for file in files("*.parquet")}


def test_raw_files_of_before_there_were_transactions_are_sealed(
    run_dir: Path, producer: SendRecorder
) -> None:
    value = producer.reserve()[0]
    invoke(producer, [value, value + 1])
    acknowledge(producer, value, offset=17, time_ns=250)
    producer.flush()
    batches = [batch for _, batch in read_frames(raw_file(run_dir))]
    raw_file(run_dir).write_bytes(
        b"".join(
            pack_frame(batch.drop_columns(["txn"]) if "txn" in batch.schema.names else batch)
            for batch in batches
        )
    )

    seal(run_dir)

    sends = [row for row in rows(run_dir, "send") if row["invoke_ns"] is not None]
    assert [(row["type"], row["txn"]) for row in sends] == [("ok", None), ("info", None)]
