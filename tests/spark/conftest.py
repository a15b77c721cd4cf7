"""One local Spark session for all, and a checker run on a history written by hand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import Row

from harness.core.contract import Contract
from tests.spark.ops import TOPIC, Op, end, rows_of
from verifiers.checking.checker import CHECKERS, frames_wanted
from verifiers.checking.execution import Found, build, run_checkers
from verifiers.frames import consumption, order, records, transactions
from verifiers.frames.history import ANY_PARTITION, History
from verifiers.frames.transactions import aborted_reads, committed_reads
from verifiers.replicas.comparison import Comparison, compare
from verifiers.replicas.copied import Copied
from verifiers.run_folder.folder import End, RunInput
from verifiers.run_folder.member import Member
from verifiers.run_folder.schema import ENDS_SCHEMA, HISTORY_SCHEMAS
from verifiers.scanning import offsets
from verifiers.spark.session import open_session
from verifiers.timeline.frames import SCHEMAS, frames_of

Find = Callable[..., list[Row]]
FindAll = Callable[..., Found]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all that lies in this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `verify` finds as well."""
    session = open_session("local[2]")
    # Compiling a plan takes longer than running it on eight rows.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    session.stop()


@pytest.fixture
def find(spark: SparkSession, tmp_path: Path) -> Find:
    """Return a function that runs one checker on some ops and returns its rows in order."""

    def run(
        name: str,
        ops: Sequence[Op],
        *,
        ends: Sequence[dict[str, Any]] | None = None,
        subscribed: frozenset[int] = frozenset(),
        uncommitted: frozenset[int] = frozenset(),
        timeline: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> list[Row]:
        history = to_history(spark, ops, ends=ends, subscribed=subscribed, uncommitted=uncommitted)
        check = CHECKERS[name]
        wanted = set(frames_wanted(check))
        built = dict(history.recorded())
        built |= nothing_on_disk(spark, tmp_path).frames(spark, records.values(history))
        built |= frames_of(spark, timeline) if timeline else {}
        if wanted & {"values", "producing", "slots", "parts"}:
            built["values"] = records.values(history)
        if wanted & {"log", "slots"}:
            built["log"] = offsets.log(history)
        if "turns" in wanted:
            built["turns"] = order.turns(history)
        if "producing" in wanted:
            built["producing"] = order.producing(history, built["values"])
        if "slots" in wanted:
            built["slots"] = offsets.slots(history, built["values"], built["log"])
        if "parts" in wanted:
            built["parts"] = transactions.parts(history, built["values"])
        if "transactors" in wanted:
            built["transactors"] = history.txns.select("process").distinct()
        if "processing" in wanted:
            built["processing"] = consumption.processing(history.events)
        found = check(**{frame: built[frame] for frame in wanted}).collect()
        return sorted(found, key=lambda row: (row["partition"] or 0, row["offset"] or 0))

    return run


@pytest.fixture
def find_all(spark: SparkSession, tmp_path: Path) -> FindAll:
    """Return a function that runs every checker on some ops, as a verification does."""

    def run(ops: Sequence[Op], *, uncommitted: frozenset[int] = frozenset()) -> Found:
        built = build(to_history(spark, ops, uncommitted=uncommitted))
        none = nothing_on_disk(spark, tmp_path)
        built = built.with_more(none.frames(spark, built.by_name["values"]), none.empty)
        built = built.with_more(frames_of(spark, {}), frozenset(SCHEMAS))
        try:
            member = member_at(tmp_path)
            with TemporaryDirectory(dir=tmp_path) as scratch:
                return run_checkers(spark, built, [member], Path(scratch))[member.number]
        finally:
            for frame in built.kept:
                frame.unpersist()

    return run


def nothing_on_disk(spark: SparkSession, path: Path) -> Comparison:
    """Return the comparison of a run without replicas."""
    return compare(
        spark, {member_at(path): Copied()}, folder=path, target=path / "replicas" / "batches"
    )


def compared_at(spark: SparkSession, copied: Copied, path: Path, *, high: int) -> Comparison:
    """Return the comparison of what lay on the disks of a run with one partition."""
    read = End(topic=TOPIC, partition=0, low=0, high=high, reached=high, complete=True)
    return compare(
        spark, {member_at(path, read): copied}, folder=path, target=path / "replicas" / "batches"
    )


def member_at(path: Path, *ends: End) -> Member:
    """Return a run that is verified alone."""
    return Member(
        run=RunInput(path=path, meta={}, contract=Contract(), faults=(), ends=ends, origin_ns=0)
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
    reached = [(e["topic"], e["partition"], e["reached"], e["complete"]) for e in given]
    reached.append((TOPIC, ANY_PARTITION, 0, bool(given) and all(e["complete"] for e in given)))
    return History(
        sends=recorded["send"],
        txns=recorded["txn"],
        polls=committed_reads(recorded["poll"], recorded["send"], uncommitted),
        final=recorded["final"],
        events=recorded["event"],
        ends=spark.createDataFrame(reached, ENDS_SCHEMA),
        aborted_reads=aborted_reads(recorded["poll"], recorded["send"], uncommitted),
        subscribed=subscribed,
    )
