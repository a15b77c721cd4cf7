"""From the lines of an op history to rows, and what is said of those that are no events."""

import json
from typing import Any

import pytest

from verifiers.ops.parser import OP_COLUMNS, STRETCH_COLUMNS, Parser
from verifiers.ops.schema import (
    BEGIN,
    MOP,
    OP,
    OPEN,
    OPEN_MOP,
    ORPHAN,
)

SEND = [["send", 0, 17], ["poll"]]
SENT = [["send", 0, [41, 17]], ["poll", {"0": [[40, 16], [41, 17]]}]]


def event(index: int, kind: str, value: Any = None, **other: Any) -> dict[str, Any]:
    given = {"index": index, "process": 3, "type": kind, "f": "txn", "value": value}
    return {key: what for key, what in {**given, **other}.items() if what is not ...}


def fed(*lines: Any, first: bool = True, last: bool = False) -> Parser:
    parser = Parser(first=first, last=last)
    parser.feed([line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines])
    parser.finish()
    return parser


def parsed(
    *lines: Any, first: bool = True, last: bool = False
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    parser = fed(*lines, first=first, last=last)
    ops = [dict(zip(OP_COLUMNS, row, strict=True)) for row in parser.ops]
    stretches = [dict(zip(STRETCH_COLUMNS, row, strict=True)) for row in parser.mops]
    mops = [
        {**one, "position": one["position"] + at, "offset": offset, "value": value}
        for one in stretches
        for at, (offset, value) in enumerate(zip(one["offset"], one["value"], strict=True))
    ]
    return ops, mops


def of(kind: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["row"] == kind]


def problem_of(*lines: Any) -> str:
    summary = fed(*lines).summary()
    ((line, words),) = summary["problems"]
    assert summary["problem_count"] == 1
    return f"{line + 1}: {words}"


def test_an_op_has_the_values_of_its_completion() -> None:
    ops, mops = parsed(event(4, "invoke", SEND, time=7), event(9, "ok", SENT, time=8))

    (op,) = of(OP, ops)
    assert (op["op"], op["invoked"], op["process"], op["type"], op["f"]) == (9, 4, 3, "ok", "txn")
    assert (op["invoke_ns"], op["complete_ns"]) == (7, 8)
    assert [
        tuple(mop[c] for c in ("mop", "position", "kind", "key", "offset", "value"))
        for mop in of(MOP, mops)
    ] == [
        (0, 0, "send", "0", 41, 17),
        (1, 1, "poll", "0", 40, 16),
        (1, 2, "poll", "0", 41, 17),
    ]


def test_an_offset_may_be_null_or_left_out() -> None:
    value = [["send", 0, [None, 1]], ["send", 0, 2], ["poll"], ["poll", None]]
    _, mops = parsed(event(0, "invoke", value), event(1, "info", value))

    assert [(mop["offset"], mop["value"]) for mop in mops] == [(None, 1), (None, 2)]


def test_an_op_that_never_completes_may_have_sent_what_it_was_to_send() -> None:
    ops, mops = parsed(event(5, "invoke", SEND))

    (op,) = of(OPEN, ops)
    assert (op["op"], op["invoked"], op["type"], op["complete_ns"]) == (5, 5, "info", None)
    assert [mop["value"] for mop in of(OPEN_MOP, mops)] == [17]


def test_an_op_that_is_open_at_the_end_of_its_file_never_completes() -> None:
    ops, mops = parsed(event(5, "invoke", SEND), last=True)

    (op,) = of(OP, ops)
    assert (op["op"], op["invoked"], op["type"], op["complete_ns"]) == (5, 5, "info", None)
    assert [mop["value"] for mop in of(MOP, mops)] == [17]
    counts = fed(event(5, "invoke", SEND), last=True).summary()["counts"]
    assert counts == [("open", "info", 1), ("pending", "info", 1)]


def test_a_split_tells_what_it_cannot_pair_by_itself() -> None:
    ops, mops = parsed(
        event(5, "ok", SENT), event(6, "invoke", SEND, process=4), event(7, "invoke"), first=False
    )

    assert [(row["op"], row["process"]) for row in of(ORPHAN, ops)] == [(5, 3)]
    assert [(row["op"], row["process"]) for row in of(BEGIN, ops)] == [(6, 4)]
    assert len(of(MOP, mops)) == 3


def test_assigned_keys_and_rebalanced_ones_are_told() -> None:
    assign = event(0, "invoke", [0, 1], f="assign")
    done = event(1, "ok", [0, 1], f="assign", **{"rebalance-log": [{"keys": [1]}, {"keys": [0]}]})
    ops, _ = parsed(assign, done)

    (op,) = of(OP, ops)
    assert (op["keys"], op["rebalanced"]) == (["0", "1"], ["0", "1"])


def test_a_nemesis_and_a_look_at_partitions_are_passed_over() -> None:
    parser = fed(
        event(0, "info", None, process="nemesis", f="kill"),
        event(1, "invoke", None, f="debug-topic-partitions"),
        b"",
    )

    assert (parser.ops, parser.mops, parser.problems) == ([], [], 0)
    assert parser.summary()["lines"] == 3


INVOKED = event(0, "invoke", SEND)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([b'{"index": 0, "pro'], "1: is not JSON"),
        ([b"[1, 2]"], "1: is no event"),
        ([event(..., "invoke")], "1: has no index"),  # type: ignore[arg-type]
        ([INVOKED, event(0, "ok", SENT)], "2: has index 0 after 0"),
        ([event(0, "invoke", SEND, process="3")], "1: has no process"),
        ([event(0, "invoke", SEND, time=1.5)], "1: has a time that is no whole number"),
        ([event(0, "invoke", SEND, f="write")], '1: has f "write": none of send, poll, txn'),
        ([event(0, "done", SEND)], '1: has type "done": none of invoke, ok, fail, info'),
        ([event(0, "ok", SENT)], "1: completes an op of process 3 that was not invoked"),
        (
            [INVOKED, event(1, "ok", SENT), event(2, "ok", SENT)],
            "3: completes an op of process 3 that was not invoked, or is completed already",
        ),
        (
            [INVOKED, event(1, "invoke", SEND), event(2, "ok", SENT)],
            "2: invokes an op of process 3, whose op of index 0 is not completed",
        ),
        (
            [INVOKED, event(1, "ok", [], f="send")],
            "2: completes a send of process 3, which invoked a txn at index 0",
        ),
        ([INVOKED, event(1, "ok", None)], "2: has no list of micro-ops"),
        ([INVOKED, event(1, "ok", [["append", 0, 1]])], "2: has, in a txn, the micro-op"),
        (
            [event(0, "invoke", [], f="poll"), event(1, "ok", [["send", 0, 1]], f="poll")],
            "2: has, in a poll, the micro-op",
        ),
        ([INVOKED, event(1, "ok", [["send", 0]])], "2: has"),
        ([INVOKED, event(1, "ok", [["send", 0, "17"]])], "2: has a value that is no integer"),
        ([INVOKED, event(1, "ok", [["send", 0, True]])], "2: has a value that is no integer"),
        ([INVOKED, event(1, "ok", [["send", 0, 1 << 63]])], "2: has a value that is no integer"),
        ([INVOKED, event(1, "ok", [["send", 0, [1.5, 1]]])], "2: has an offset that is none"),
        ([INVOKED, event(1, "ok", [["send", 1.5, 1]])], "2: has the key 1.5"),
        ([INVOKED, event(1, "ok", [["send", True, 1]])], "2: has the key true"),
        ([INVOKED, event(1, "ok", [["poll", [1]]])], "2: has"),
        ([INVOKED, event(1, "ok", [["poll", {"0": [1]}]])], "2: polled [1] of key 0"),
        ([INVOKED, event(1, "ok", [["poll", {"0": [[1, "a"]]}]])], "2: polled a value that is no"),
        ([INVOKED, event(1, "ok", [["poll", {"0": [[None, 1]]}]])], "2: polled at no offset"),
        ([event(0, "invoke", [["send", 0, "a"]])], "1: has a value that is no integer"),
    ],
)
def test_a_line_that_is_no_event_is_named(lines: list[Any], words: str) -> None:
    assert problem_of(*lines).startswith(words)


def test_problems_are_told_up_to_eight_and_then_counted() -> None:
    summary = fed(*[b"x"] * 20).summary()

    assert len(summary["problems"]) == 8
    assert summary["problem_count"] == 20


def test_types_of_keys_are_told_once_each() -> None:
    parser = fed(
        INVOKED, event(1, "ok", SENT), event(2, "invoke", []), event(3, "ok", [["send", "a", 1]])
    )

    assert parser.summary()["keys"] == {"int": 1, "str": 3}


def test_a_poll_of_numbered_keys_does_not_make_them_strings() -> None:
    parser = fed(INVOKED, event(1, "ok", [["poll", {"0": [[1, 1]]}], ["send", 0, [2, 2]]]))

    assert parser.summary()["keys"] == {"int": 1}
