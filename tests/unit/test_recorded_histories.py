"""Op histories that recorders have written, merged; and those that are made of records."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.history.op_history import OpHistoryFile, merge
from kafka_chaos.records import Read, RecordHistory, Sent
from kafka_chaos.runs import verify
from verifiers.ops.judgement import OpOptions
from verifiers.ops.parser import Parser

Line = dict[str, Any]


def line(time: int, process: int, kind: str, value: Any, f: str = "send", **more: Any) -> Line:
    return {"time": time, "process": process, "type": kind, "f": f, "value": value, **more}


def written(path: Path, lines: Sequence[Line], *, clock: str = "c", torn: bytes = b"") -> Path:
    mark = line(0, 0, "info", {"clock": clock}, "recorder") | {"process": "nemesis"}
    numbered = [{"index": n, **event} for n, event in enumerate((mark, *lines))]
    path.write_bytes("".join(json.dumps(e) + "\n" for e in numbered).encode() + torn)
    return path


def merged(*paths: Path) -> list[Line]:
    into = merge(paths, paths[0].with_name("merged.jsonl"))
    lines = into.read_bytes().splitlines()
    parser = Parser(first=True)
    parser.feed(lines)
    assert parser.summary()["problems"] == [], "the verifier can read it"
    events = [json.loads(text) for text in lines]
    assert [event["index"] for event in events] == list(range(len(events)))
    return [event for event in events if event["process"] != "nemesis"]


def mops(events: Sequence[Line]) -> list[tuple[int, str, Any]]:
    return [(event["process"], event["type"], event["value"]) for event in events]


def test_sends_that_overlapped_stand_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        [
            line(1, 1, "invoke", [["send", "t-0", 7]], producer=9),
            line(2, 2, "invoke", [["send", "t-0", 8]], producer=9),
            line(3, 2, "ok", [["send", "t-0", [0, 8]]]),
            line(4, 1, "ok", [["send", "t-0", [1, 7]]]),
            line(5, 3, "invoke", [["send", "t-0", 9]], producer=9),
        ],
        torn=b'{"index": 6, "proc',
    )

    assert mops(merged(path)) == [
        (9, "invoke", [["send", "t-0", 7]]),
        (9, "ok", [["send", "t-0", [1, 7]]]),
        (9, "invoke", [["send", "t-0", 8]]),
        (9, "ok", [["send", "t-0", [0, 8]]]),
        (9, "invoke", [["send", "t-0", 9]]),
        (9, "info", [["send", "t-0", 9]]),
    ]


def test_several_files_are_merged_by_time(tmp_path: Path) -> None:
    a = written(
        tmp_path / "a.jsonl",
        [
            line(1, 1, "invoke", [["send", "t-0", 7]], producer=1),
            line(9, 1, "ok", [["send", "t-0", [0, 7]]]),
        ],
    )
    b = written(
        tmp_path / "b.jsonl",
        [
            line(2, 5, "invoke", [["poll"]], "poll"),
            line(5, 5, "ok", [["poll", {"t-0": [[0, 7]]}]], "poll"),
        ],
    )

    assert [event["f"] for event in merged(b, a)] == ["send", "send", "poll", "poll"]
    elsewhere = written(tmp_path / "c.jsonl", [], clock="another")
    with pytest.raises(UsageError, match="different clocks"):
        merge([a, elsewhere], tmp_path / "merged.jsonl")


def test_a_transaction_is_one_op_and_what_it_did_not_take_is_another(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        [
            line(1, 1, "invoke", [["send", "t-0", 7]], producer=9, txn=0),
            line(2, 2, "invoke", [["send", "t-1", 8]], producer=9, txn=0),
            line(3, 2, "fail", [["send", "t-1", [None, 8]]], error="MSG_SIZE_TOO_LARGE"),
            line(4, 2, "invoke", [["send", "t-1", 9]], producer=9, txn=0),
            line(5, 1, "ok", [["send", "t-0", [0, 7]]]),
            line(6, 2, "ok", [["send", "t-1", [0, 9]]]),
            line(7, 1, "invoke", [["send", "t-0", 10]], producer=9, txn=1),
        ],
    )

    assert mops(merged(path)) == [
        (9, "invoke", [["send", "t-0", 7], ["send", "t-1", 9]]),
        (2, "invoke", [["send", "t-1", 8]]),
        (2, "fail", [["send", "t-1", [None, 8]]]),
        (9, "ok", [["send", "t-0", [0, 7]], ["send", "t-1", [0, 9]]]),
        (9, "invoke", [["send", "t-0", 10]]),
    ]


def test_an_unknown_partition_is_told_by_where_the_record_was_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        [
            line(1, 1, "invoke", [["send", "t-?", 7]], producer=9),
            line(2, 2, "invoke", [["send", "u-?", 7]], producer=9),
            line(3, 5, "invoke", [["poll"]], "poll"),
            line(3, 5, "ok", [["poll", {"t-3": [[0, 7]]}]], "poll"),
        ],
    )

    sends = [event["value"][0][1] for event in merged(path) if event["f"] == "send"]
    assert sends == ["t-3", "t-3", "u-?", "u-?"]


def test_a_line_that_no_recorder_wrote_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [line(1, 1, "ok", [])])
    with pytest.raises(UsageError, match=r"a\.jsonl, line 2, is nothing that a recorder wrote"):
        merge([path], path)


def test_a_history_is_closed_once(tmp_path: Path) -> None:
    history = OpHistoryFile(tmp_path / "a.jsonl", 3)
    history.close()
    history.close()
    assert len((tmp_path / "a.jsonl").read_bytes().splitlines()) == 2
    with pytest.raises(UsageError, match="is closed"):
        history.write({})


def events_of(sent: Sequence[Sent], read: Sequence[Read], folder: Path) -> list[Line]:
    path = RecordHistory(sent, read).write(folder / "records.jsonl")
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_records_become_ops_of_their_clients(tmp_path: Path) -> None:
    events = events_of(
        [
            Sent(topic="t", partition=0, offset=5, value=b"a"),
            Sent(topic="t", value="b", outcome="info"),
            Sent(topic="t", value="c", outcome="fail", producer="other"),
        ],
        [
            Read(topic="t", partition=0, offset=5, value=b"a", consumer="x"),
            Read(topic="t", partition=2, offset=0, value="b"),
        ],
        tmp_path,
    )

    assert mops([event for event in events if event["type"] != "invoke"]) == [
        (0, "ok", [["send", "t-0", [5, 0]]]),
        (0, "info", [["send", "t-2", [None, 1]]]),
        (1, "fail", [["send", "t-?", [None, 2]]]),
        (2, "ok", [["poll", {"t-0": [[5, 0]]}]]),
        (3, "ok", [["poll", {"t-2": [[0, 1]]}]]),
    ]


def test_records_that_cannot_be_are_rejected() -> None:
    with pytest.raises(UsageError, match="outcome='maybe' is none of ok, fail, info"):
        Sent(topic="t", value=1, outcome="maybe")  # type: ignore[arg-type]  # nor is it for mypy
    with pytest.raises(UsageError, match="offset=-1 of a record in 't' is no offset"):
        Sent(topic="t", value=1, offset=-1)
    with pytest.raises(UsageError, match="partition=None of a record in 't' is no partition"):
        Read(topic="t", value=1, offset=0, partition=None)  # type: ignore[arg-type]  # nor this
    with pytest.raises(UsageError, match="must be hashable"):
        Sent(topic="t", value=[1])  # type: ignore[arg-type]  # nor this
    with pytest.raises(UsageError, match=r"is no Sent \(kafka_chaos\.Sent\)"):
        RecordHistory([("t", 1)], [])  # type: ignore[list-item]  # nor this


def test_what_verify_is_asked_for_must_go_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes the path of what was recorded, or both"):
        verify(sent=[])
    with pytest.raises(UsageError, match="not both"):
        verify(tmp_path, sent=[], read=[])
    with pytest.raises(UsageError, match="has a contract of its own"):
        verify(tmp_path, contract=Contract())


def test_a_contract_permits_in_an_op_history_what_it_permits_in_a_run() -> None:
    leader = OpOptions(contract=Contract(acks="1", retries=0))
    unclean = OpOptions(contract=Contract(unclean_election=True))
    whole = OpOptions(contract=Contract())

    for name in ("lost-write", "unseen"):
        assert "only the leader has the record" in (leader.permits(name, ["unexplained"]) or "")
        assert whole.permits(name, ["unexplained"]) is None
        assert OpOptions().permits(name) is None
    assert leader.permits("inconsistent-offsets", ["acks"])
    assert not leader.permits("inconsistent-offsets", ["acks", "reads"])
    assert not whole.permits("inconsistent-offsets", ["acks"])
    assert unclean.permits("inconsistent-offsets", ["acks", "reads"])
    assert leader.permits("nonmonotonic-send", ["lost"])
    assert not leader.permits("nonmonotonic-send", ["lost", None])
    assert OpOptions(contract=Contract(idempotence=False)).permits("duplicate", ["log"])
    for name in ("duplicate", "phantom", "G1a", "int-poll-skip", "G1c", "empty-transaction-graph"):
        assert whole.permits(name) is None
    assert whole.permits("int-send-skip")
