"""Why outcomes are unknown: counted by error, for one run and for several together."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from harness.core.contract import Contract
from harness.core.op import value_of
from tests.spark.conftest import to_history
from tests.spark.ops import TOPIC, Op, fail, info, ok, txn
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.member import Member
from verifiers.scanning.causes import Cause, causes, told

SPAN = 8


def member(number: int, span: int) -> Member:
    run = RunInput(path=Path(), meta={}, contract=Contract(), faults=(), ends=(), origin_ns=0)
    return Member(run=run, number=number, span=span)


def of(op: Op, **changes: object) -> Op:
    return replace(op, rows=tuple({**row, **changes} for row in op.rows))


def test_sends_and_transactions_are_counted_by_error(spark: SparkSession) -> None:
    history = to_history(
        spark,
        [
            ok(1, 0, 0),
            of(info(1, 1), error="_MSG_TIMED_OUT"),
            of(info(2, 0), error="_MSG_TIMED_OUT"),
            of(fail(1, 2), error="refused"),
            info(1, 3),
            of(txn("info", 3, 0), error="_MSG_TIMED_OUT"),
            of(txn("fail", 3, 1), error="fenced"),
            # A sequence number that was reserved, and never invoked as far as anyone knows.
            of(info(1, 4), invoke_ns=None),
        ],
    )

    found = causes(history, [member(0, 0)])

    assert found == {
        0: (Cause(error="_MSG_TIMED_OUT", sends=2, txns=1), Cause(error=None, sends=1, txns=0))
    }
    assert told(found[0]) == {
        "distinct": 2,
        "causes": [
            {"error": "_MSG_TIMED_OUT", "sends": 2, "txns": 1},
            {"error": None, "sends": 1, "txns": 0},
        ],
    }


def test_runs_that_are_verified_together_have_their_own_causes(spark: SparkSession) -> None:
    def of_member(number: int, op: Op, error: str) -> Op:
        process = (number + 1) * SPAN + 1
        more = {} if op.dataset == "txn" else {
            "topic": f"{number}/{TOPIC}", "value": value_of(1, 0),
        }  # fmt: skip
        return of(op, process=process, error=error, **more)

    history = to_history(
        spark,
        [
            of_member(0, info(1, 0), "timed out"),
            of_member(1, info(1, 0), "disconnected"),
            of_member(1, txn("info", 1, 0), "fenced"),
        ],
    )

    found = causes(history, [member(number, SPAN) for number in range(3)])

    assert found == {
        0: (Cause(error="timed out", sends=1, txns=0),),
        1: (
            Cause(error="disconnected", sends=1, txns=0),
            Cause(error="fenced", sends=0, txns=1),
        ),
    }


def test_where_every_outcome_is_known_there_is_no_cause(spark: SparkSession) -> None:
    assert causes(to_history(spark, [ok(1, 0, 0), fail(1, 1)]), [member(0, 0)]) == {}
    assert told(()) == {"distinct": 0, "causes": []}
