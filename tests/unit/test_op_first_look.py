"""The first look at keys of op histories: what it clears, and what it leaves to the checkers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from verifiers.cycles.row_groups import whole_groups
from verifiers.ops import first_look
from verifiers.ops.first_look import FAIL, INFO, OK, POLL, SEND, screened, suspects_of
from verifiers.ops.schema import OPS_SCHEMA


@dataclass(frozen=True)
class Did:
    """What an op of one process sent to, or polled from, one key: pairs of offset and value."""

    kind: int
    op: int
    pairs: Sequence[tuple[int | None, int]]
    process: int = 0
    type: int = OK
    place: int | None = None
    key: str = "0"
    run: int = 0

    def rows(self) -> list[dict[str, Any]]:
        place = self.op if self.place is None else self.place
        return [
            {
                "run": self.run,
                "key": self.key,
                "op": self.op,
                "process": self.process,
                "offset": offset,
                "value": value,
                "position": position,
                "place": place,
                "type": self.type,
                "kind": self.kind,
            }
            for position, (offset, value) in enumerate(self.pairs)
        ]


def sent(op: int, *pairs: tuple[int | None, int], **more: Any) -> Did:
    return Did(SEND, op, pairs, **more)


def polled(op: int, *pairs: tuple[int | None, int], **more: Any) -> Did:
    return Did(POLL, op, pairs, **{"process": 9, **more})


SCHEMA = pa.schema(
    [
        ("run", pa.int32()),
        ("key", pa.string()),
        ("op", pa.int64()),
        ("process", pa.int64()),
        ("offset", pa.int64()),
        ("value", pa.int64()),
        ("position", pa.int32()),
        ("place", pa.int64()),
        ("type", pa.int8()),
        ("kind", pa.int8()),
    ]
)


def looked_at(*did: Did, ww_deps: bool = False, batch_rows: int = 1000) -> list[tuple[Any, ...]]:
    rows = [row for one in did for row in one.rows()]
    rows.sort(key=lambda row: (row["run"], row["key"]))
    table = pa.Table.from_pylist(rows, SCHEMA)
    found = screened(iter(table.to_batches(max_chunksize=batch_rows)), ww_deps=ww_deps)
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


SUSPECTED = [(0, "0", None, None, None)]

# Offset 2 is a marker's: gaps are none.
LOG = ((1, 1), (3, 2), (4, 3))
ALL = (polled(8, *LOG),)
SENDS = (sent(2, (1, 1), (3, 2)), sent(4, (4, 3)))


@pytest.mark.parametrize(
    "did",
    [
        pytest.param([*SENDS, *ALL], id="all is read in order"),
        pytest.param([*SENDS, polled(6, (1, 1)), polled(8, (3, 2), (4, 3))], id="by two polls"),
        pytest.param(
            [*SENDS, polled(5, (1, 1)), polled(6, (3, 2), (4, 3), process=8),
             polled(7, (3, 2), (4, 3))],
            id="by two processes",
        ),
        pytest.param([sent(2, (1, 1), (None, 2)), polled(8, (1, 1), (3, 2))], id="offset unknown"),
        pytest.param([*SENDS, *ALL, sent(6, (5, 4), type=FAIL)], id="a failed send, never read"),
        pytest.param([*SENDS, *ALL, sent(6, (None, 4), type=INFO)], id="unknown, never read"),
        pytest.param(
            [*SENDS, sent(6, (5, 4), type=INFO, place=5), polled(8, *LOG, (5, 4))],
            id="unknown, and read",
        ),
        pytest.param(
            [*SENDS, polled(6, (1, 1)), polled(7, (3, 2), type=FAIL), polled(8, (3, 2), (4, 3))],
            id="an aborted poll is made again",
        ),
        pytest.param(
            [sent(2, (1, 1)), sent(3, (2, 2), process=1), sent(4, (3, 3)),
             polled(8, (1, 1), (2, 2), (3, 3))],
            id="others send between the ops of a process",
        ),
    ],
)  # fmt: skip
def test_a_key_in_order_is_cleared(did: list[Did]) -> None:
    assert looked_at(*did) == []


@pytest.mark.parametrize(
    "did",
    [
        pytest.param([*SENDS, polled(8, (1, 1), (3, 2))], id="unseen"),
        pytest.param([*SENDS, polled(8, (1, 1)), polled(9, (4, 3), process=8)], id="lost"),
        pytest.param([*SENDS, *ALL, sent(6, (3, 7)), polled(10, (5, 7))], id="two offsets"),
        pytest.param(
            [*SENDS, *ALL, sent(6, (3, 7)), polled(9, (3, 7), process=8)], id="offset of two values"
        ),
        pytest.param([*SENDS, *ALL, polled(9, (5, 7))], id="phantom"),
        pytest.param([*SENDS, *ALL, sent(6, (4, 3), process=5)], id="sent twice"),
        pytest.param([*SENDS, sent(5, (5, 4), type=FAIL), polled(8, *LOG, (5, 4))],
                     id="aborted read"),
        pytest.param([*SENDS, *ALL, sent(6, (5, 4), type=INFO)], id="unknown, placed, unread"),
        pytest.param(
            [*SENDS, *ALL, sent(6, (None, 4), type=INFO), polled(9, (5, 4), type=INFO, process=8)],
            id="unknown, and seen only by what is unknown itself",
        ),
        pytest.param([*SENDS, polled(4, *LOG)], id="precommitted read"),
        pytest.param([*SENDS, polled(3, *LOG)], id="read before it was sent"),
        pytest.param([*SENDS, polled(8, (1, 1), (4, 3)), polled(9, (3, 2), process=8)], id="skip"),
        pytest.param([*SENDS, polled(8, *LOG, (3, 2))], id="back"),
        pytest.param([*SENDS, *ALL, polled(9, (4, 3), (4, 3), process=8)], id="again"),
        pytest.param(
            [sent(2, (1, 1), (4, 2)), sent(3, (2, 3), process=1),
             polled(8, (1, 1), (2, 3), (4, 2))],
            id="foreign record between sends",
        ),
        pytest.param([sent(2, (2, 1), (1, 2)), polled(8, (1, 2), (2, 1))], id="sends reversed"),
    ],
)  # fmt: skip
def test_a_key_with_anything_to_say_is_suspected(did: list[Did]) -> None:
    assert looked_at(*did) == SUSPECTED


@pytest.mark.parametrize(
    ("did", "step"),
    [
        ([*SENDS, polled(6, (1, 1)), polled(8, (4, 3)), polled(7, (3, 2), process=8)], (9, 6, 8)),
        ([*SENDS, *ALL, polled(9, (4, 3))], (9, 8, 9)),
        ([*SENDS, *ALL, polled(9, (3, 2), type=FAIL)], (9, 8, 9)),
        ([sent(2, (2, 1)), sent(4, (1, 2)), polled(8, (1, 2), (2, 1))], (0, 2, 4)),
    ],
    ids=["skipped", "again", "back, in an op that failed", "sent in reverse"],
)
def test_a_step_between_ops_is_told_for_the_assigns_to_excuse(
    did: list[Did], step: tuple[int, int, int]
) -> None:
    assert looked_at(*did) == [(0, "0", *step)]


def test_a_key_with_many_strange_steps_is_suspected_outright(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_look, "_MOST_STEPS", 2)
    again = [polled(op, (4, 3)) for op in (9, 10, 11)]

    assert looked_at(*SENDS, *ALL, *again[:2]) == [(0, "0", 9, 8, 9), (0, "0", 9, 9, 10)]
    assert looked_at(*SENDS, *ALL, *again) == SUSPECTED


def test_writers_against_the_log_are_suspected_if_writes_depend_on_each_other() -> None:
    did = [
        sent(2, (2, 1)),
        sent(4, (1, 2), process=1),
        polled(8, (1, 2), (2, 1)),
    ]

    assert looked_at(*did) == []
    assert looked_at(*did, ww_deps=True) == SUSPECTED
    assert looked_at(*SENDS, *ALL, ww_deps=True) == []


def test_each_key_of_each_run_stands_for_itself() -> None:
    lost = [sent(2, (1, 1)), sent(3, (2, 2)), polled(8, (2, 2))]
    keys = [(run, key) for run in (0, 3) for key in ("0", "1", "x")]
    did = [
        Did(**{**vars(one), "run": run, "key": key})
        for run, key in keys
        for one in (lost if (run, key) in {(0, "1"), (3, "x")} else [*SENDS, *ALL])
    ]

    for batch_rows in (1, 4, 1000):
        found = looked_at(*did, batch_rows=batch_rows)
        assert found == [(0, "1", None, None, None), (3, "x", None, None, None)]


def test_a_key_too_long_to_hold_is_suspected_and_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_look, "_TOGETHER", 4)
    monkeypatch.setattr(first_look, "_MOST_ROWS", 10)
    values = [(offset, offset) for offset in range(20)]
    long = [sent(1, *values, key="1"), polled(2, *values, key="1")]
    short = [Did(**{**vars(one), "key": key}) for key in ("0", "2") for one in (*SENDS, *ALL)]

    for batch_rows in (1, 3, 7):
        assert looked_at(*short, *long, batch_rows=batch_rows) == [(0, "1", None, None, None)]


def test_groups_come_whole_however_they_are_cut_into_batches() -> None:
    draw = np.random.default_rng(7)
    for _ in range(200):
        lengths = draw.integers(1, 9, size=6)
        ids = np.repeat(np.arange(6), lengths)
        table = pa.table({"run": ids // 3, "key": ids % 3, "row": np.arange(len(ids))})
        batches = table.to_batches(max_chunksize=int(draw.integers(1, 8)))

        tables = list(whole_groups(batches, ("run", "key"), rows=int(draw.integers(1, 12))))

        assert pa.concat_tables(tables).to_pylist() == table.to_pylist()
        groups = [{(row["run"], row["key"]) for row in one.to_pylist()} for one in tables]
        assert sum(map(len, groups)) == len(set().union(*groups)) == 6


def test_a_group_that_is_too_long_is_cut_and_comes_by_itself() -> None:
    draw = np.random.default_rng(8)
    for _ in range(200):
        lengths = [*draw.integers(1, 4, size=3), 30, *draw.integers(1, 4, size=3)]
        ids = np.repeat(np.arange(7), lengths)
        table = pa.table({"run": ids, "row": np.arange(len(ids))})
        batches = table.to_batches(max_chunksize=int(draw.integers(1, 9)))

        tables = list(whole_groups(batches, ("run",), rows=int(draw.integers(1, 9)), most=9))

        groups = [[row["run"] for row in one.to_pylist()] for one in tables]
        (cut,) = [one for one in groups if 3 in one]
        assert set(cut) == {3}
        assert len(cut) >= 9
        others = [run for one in groups if 3 not in one for run in one]
        assert others == [int(run) for run in ids if run != 3]


def whole(*did: Did) -> pa.Table:
    """The same in the columns in which a file is parsed; sends and polls in transactions."""
    types, kinds = {OK: "ok", INFO: "info", FAIL: "fail"}, {SEND: "send", POLL: "poll"}
    rows = [
        {
            **row,
            "type": types[row["type"]],
            "kind": kinds[row["kind"]],
            "f": "txn",
            "invoked": row["place"],
        }
        for one in did
        for row in one.rows()
    ]
    return pa.Table.from_pylist(rows)


def assigned(*assigns: tuple[int, int, list[str]]) -> pa.Table:
    """Ops that assign keys: the op, its process, the keys; in the columns of ops."""
    rows = [
        {"op": op, "process": process, "f": "assign", "type": "ok", "keys": keys}
        for op, process, keys in assigns
    ]
    return pa.Table.from_pylist(rows, OPS)


OPS = to_arrow_schema(OPS_SCHEMA)
NO_OPS = assigned()
LOST = (sent(2, (1, 1)), sent(3, (2, 2)), polled(8, (2, 2)))


def test_a_whole_history_is_looked_at_key_by_key() -> None:
    keys = {"0": (*SENDS, *ALL), "1": LOST, "x": (*SENDS, *ALL)}
    did = [Did(**{**vars(one), "key": key}) for key, some in keys.items() for one in some]

    # However the ops of the keys lie between each other.
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(did))
        assert suspects_of(NO_OPS, whole(*(did[at] for at in order))) == [("1", False)]


def test_an_op_that_did_not_end_ok_stands_where_it_was_invoked() -> None:
    unknown = sent(9, (5, 4), type=INFO, place=5)

    assert suspects_of(NO_OPS, whole(*SENDS, unknown, polled(8, *LOG, (5, 4)))) == []
    assert looked_at(*SENDS, unknown, polled(8, *LOG, (5, 4))) == []


@pytest.mark.parametrize(
    ("assign", "found"),
    [
        ((9, 9, ["other"]), []),
        ((9, 9, ["0", "other"]), [("0", False)]),
        ((9, 8, ["other"]), [("0", False)]),
        ((7, 9, ["other"]), [("0", False)]),
        ((11, 9, ["other"]), [("0", False)]),
    ],
    ids=["given up", "kept", "another process", "before both", "behind both"],
)
def test_an_assign_without_the_key_excuses_a_step(
    assign: tuple[int, int, list[str]], found: list[tuple[str, bool]]
) -> None:
    assert suspects_of(assigned(assign), whole(*SENDS, *ALL, polled(10, (1, 1)))) == found


def test_writers_against_the_log_are_assigned_to_members() -> None:
    did = [sent(2, (2, 1)), sent(4, (1, 2), process=1), polled(8, (1, 2), (2, 1))]

    assert suspects_of(NO_OPS, whole(*did)) == [("0", True)]


def test_a_history_without_values_has_no_suspects() -> None:
    assert suspects_of(NO_OPS, whole()) == []
