"""One local Spark session for all, and the frames of a history written by hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.contract import Contract
from tests.spark.ops import TOPIC, Op, end, rows_of
from verifiers.frames.history import ANY_PARTITION, History
from verifiers.frames.transactions import aborted_reads, committed_reads
from verifiers.run_folder.folder import End, RunInput
from verifiers.run_folder.member import Member
from verifiers.run_folder.schema import ENDS_SCHEMA, HISTORY_SCHEMAS
from verifiers.spark.session import open_session

SLOWEST_FIRST = (
    "test_self_test.py", "test_several.py", "test_verify.py", "test_op_reference.py",
    "test_op_plots.py", "test_op_metrics.py", "test_run_reference.py", "test_stories.py",
    "test_op_histories.py",
)  # fmt: skip
"""Workers take files in this order, the others after: no long one is left to the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all that lies in this folder, and put the slowest files first."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
    ranks = {here / name: rank for rank, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `verify` finds as well."""
    session = open_session("local[2]")
    # Compiling a plan takes longer than running it on eight rows.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # As for any short history that is judged.
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    session.stop()


def member_at(path: Path, *, high: int) -> Member:
    """Return a run of one partition that is verified alone."""
    read = End(topic=TOPIC, partition=0, low=0, high=high, reached=high, complete=True)
    return Member(
        run=RunInput(path=path, meta={}, contract=Contract(), faults=(), ends=(read,), origin_ns=0)
    )


def to_history(
    spark: SparkSession,
    ops: Sequence[Op],
    *,
    ends: Sequence[dict[str, Any]] | None = None,
    subscribed: frozenset[int] = frozenset(),
    uncommitted: frozenset[int] = frozenset(),
) -> History:
    """Return the frames of some ops; every partition finally read to its end unless told."""
    recorded = {}
    for dataset, rows in rows_of(ops).items():
        schema = HISTORY_SCHEMAS[dataset]
        data = [tuple(row[name] for name in schema.names) for row in rows]
        recorded[dataset] = spark.createDataFrame(data, schema)
    given = [end(partition=p) for p in (0, 1)] if ends is None else ends
    names = ("topic", "partition", "low", "reached", "complete")
    reached = [tuple(e[name] for name in names) for e in given]
    reached.append((TOPIC, ANY_PARTITION, 0, 0, bool(given) and all(e["complete"] for e in given)))
    return History(
        sends=recorded["send"],
        txns=recorded["txn"],
        polls=committed_reads(recorded["poll"], recorded["send"], recorded["final"], uncommitted),
        final=recorded["final"],
        events=recorded["event"],
        ends=spark.createDataFrame(reached, ENDS_SCHEMA),
        aborted_reads=aborted_reads(recorded["poll"], recorded["send"], uncommitted),
        subscribed=subscribed,
    )
