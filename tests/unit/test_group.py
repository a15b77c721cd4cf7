"""What the verifier makes of members.jsonl."""

from typing import Any

import pytest

from harness.core.errors import HistoryUnreadable
from verifiers.run_folder.group import GroupRecord, read_group

META = {
    "group": {"name": "g", "assignor": "range", "commits": "after-processing", "churn_s": 5.0},
}
COUNTS = {"event": "counts", "time_ns": 9, "processed": 10, "rebalances": 4}
END = {"event": "caught-up", "time_ns": 8, "committed": {"0": 5}, "ends": {"0": 5}}


def move(number: str, kind: str, *, seen: bool = True) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {"event": "decided", "id": number, "time_ns": 1, "move": kind, "process": 200, "at_s": 1.0},
        {"event": "made", "id": number, "time_ns": 2_000_000_000},
    ]
    if seen:
        evidence = {"observed": True, "details": {"exit_code": -9}}
        lines.append({"event": "seen", "id": number, "time_ns": 3, "evidence": evidence})
    return lines


def read(*lines: dict[str, Any]) -> GroupRecord:
    group = read_group(META, lines, 1_000_000_000)
    assert group is not None
    return group


def test_a_run_without_a_group_has_none() -> None:
    assert read_group({}, [], 0) is None


def test_a_group_that_was_disturbed_and_came_to_the_end_keeps_nothing_from_a_pass() -> None:
    group = read(*move("m1", "join"), *move("m2", "crash"), END, COUNTS)

    assert group.why_not() == []
    assert group.moves[1].made_at_s == 1.0
    assert group.to_json() == {
        "name": "g",
        "assignor": "range",
        "commits": "after-processing",
        "seen": {"joined": 1, "left": 0, "killed": 1},
        "moves": 2,
        "rebalances": 4,
        "processed": 10,
        "caught_up": True,
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*move("m1", "join"), END, COUNTS], "No member of the group left or died"),
        ([*move("m1", "crash"), END], "processed nothing"),
        ([*move("m1", "crash", seen=False), END, COUNTS], "member 200 was killed"),
        ([*move("m1", "crash"), *move("m2", "join", seen=False), END, COUNTS], "never told of"),
        (
            [
                *move("m1", "crash"), END, COUNTS,
                {"event": "failed", "id": "m2", "time_ns": 1, "error": "nobody was there"},
            ],
            "nobody was there",
        ),
        ([], "processed nothing"),
    ],
)  # fmt: skip
def test_what_was_not_seen_or_not_done_is_said(lines: list[dict[str, Any]], words: str) -> None:
    assert any(words in why for why in read(*lines).why_not())


BEHIND = {
    "event": "behind", "time_ns": 1, "committed": {"1": 3}, "ends": {"0": 2, "1": 3},
    "still_s": 80.0, "bound_s": 76.0, "working": [200], "silent": [], "strangers": [],
    "state": "STABLE", "brokers_well": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "stalled"),
        ({"working": [], "silent": [200]}, "nobody"),
        ({"strangers": ["intruder"]}, "strangers"),
        ({"brokers_well": False}, "unwell"),
        ({"still_s": 2.0}, "slow"),
    ],
)
def test_where_a_group_is_behind_stands_why(changes: dict[str, Any], why: str) -> None:
    first, second = read({**BEHIND, **changes}).ends

    assert (first.partition, first.committed, first.end, first.why) == (0, None, 2, why)
    assert (second.partition, second.committed, second.why) == (1, 3, None)


@pytest.mark.parametrize(
    "lines",
    [[], [{"event": "behind", "time_ns": 1, "committed": {}, "ends": {}}]],
    ids=["nobody waited", "nobody knows the ends"],
)
def test_a_group_that_nobody_asked_for_is_told_as_such(lines: list[dict[str, Any]]) -> None:
    (end,) = read(*lines).ends

    assert (end.partition, end.why) == (None, "unasked")


def test_an_older_folder_does_not_say_why_a_group_is_behind() -> None:
    old = {name: BEHIND[name] for name in ("event", "time_ns", "committed", "ends")}

    assert [end.why for end in read(old).ends] == ["unasked", None]


def test_a_line_that_is_no_event_is_named() -> None:
    with pytest.raises(HistoryUnreadable, match=r"members.jsonl, line 2"):
        read(COUNTS, {"event": "seen"})
