"""Why outcomes are unknown: counted by error, for one run and for several together."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from harness.core.contract import Contract
from tests.spark.conftest import to_history
from tests.spark.ops import Op, info, txn
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.member import Member
from verifiers.scanning.causes import causes, unknown_txns

SPAN = 8


def member(number: int, span: int) -> Member:
    run = RunInput(path=Path(), meta={}, contract=Contract(), faults=(), ends=(), origin_ns=0)
    return Member(run=run, number=number, span=span)


def of(op: Op, **changes: object) -> Op:
    return replace(op, rows=tuple({**row, **changes} for row in op.rows))


def test_sends_and_transactions_are_told_by_error() -> None:
    found = causes({"_MSG_TIMED_OUT": 2, None: 1}, {"_MSG_TIMED_OUT": 1, "fenced": 1})

    assert found == {
        "distinct": 3,
        "causes": [
            {"error": "_MSG_TIMED_OUT", "sends": 2, "txns": 1},
            {"error": "fenced", "sends": 0, "txns": 1},
            {"error": None, "sends": 1, "txns": 0},
        ],
    }
    assert causes({}, {}) == {"distinct": 0, "causes": []}


def test_transactions_of_unknown_outcome_are_counted_by_error(spark: SparkSession) -> None:
    history = to_history(
        spark,
        [
            of(info(1, 1), error="_MSG_TIMED_OUT"),
            of(txn("info", 3, 0), error="_MSG_TIMED_OUT"),
            of(txn("fail", 3, 1), error="fenced"),
            txn("info", 3, 2),
        ],
    )

    assert unknown_txns(history, [member(0, 0)]) == {0: {"_MSG_TIMED_OUT": 1, None: 1}}


def test_runs_that_are_verified_together_have_their_own_causes(spark: SparkSession) -> None:
    ops = [
        of(txn("info", 1, number), error=error, process=(member_number + 1) * SPAN + 1)
        for number, (member_number, error) in enumerate([(0, "a"), (1, "b"), (1, "b")])
    ]

    found = unknown_txns(to_history(spark, ops), [member(number, SPAN) for number in range(3)])

    assert found == {0: {"a": 1}, 1: {"b": 2}}
