"""The lanes: how wide their bins are, and that Spark counts what plain Python counts."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.contract import Contract
from tests.spark.conftest import to_history
from verifiers.frames.history import History
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.gathering import gather
from verifiers.run_folder.member import Member
from verifiers.run_folder.result import Counts
from verifiers.run_folder.schema import HISTORY_SCHEMAS, SEND_SCHEMA
from verifiers.scanning import throughput
from verifiers.scanning.sends import COLUMNS, Sends, SendsWanted
from verifiers.scanning.throughput import (
    FINE_NS,
    MOST_BINS,
    QUANTILES,
    PartitionGap,
    Throughput,
    bin_width_ns,
    throughputs,
)

S = 1_000_000_000
Row = dict[str, Any]


WANTED = SendsWanted(
    moments={("a", 1): [n * S // 10 for n in range(30, 60)]},
    faults={"f1": (3 * S, 4 * S), "f2": (0, 1)},
)


def run_of(seconds: float) -> dict[str, Any]:
    return {"phases": [{"name": "faults", "from_ns": 5 * S, "to_ns": 5 * S + round(seconds * S)}]}


@pytest.mark.parametrize(
    ("seconds", "width_s"),
    [
        (1, 0.1),
        (199.8, 0.1),
        (200, 0.2),
        (399, 0.2),
        (600, 0.5),
        (1500, 1),
        (3600, 2),
        (8 * 3600, 20),
        (100 * 3600, 200),
    ],
)
def test_bins_are_as_fine_as_their_number_allows(seconds: float, width_s: float) -> None:
    width_ns = bin_width_ns(run_of(seconds), 5 * S)

    assert width_ns == round(width_s * S)
    assert seconds * S / width_ns + 2 <= MOST_BINS


def test_a_run_without_any_end_has_bins_of_a_second() -> None:
    assert bin_width_ns({"phases": [{"name": "start", "from_ns": 0, "to_ns": None}]}, 0) == S


def sent(chance: random.Random, length: int) -> list[dict[str, Any]]:
    """Return sends of three producers; some refused, some in doubt, some never invoked."""
    rows, now = [], 3 * S
    for op in range(length):
        now += chance.choice((0, 1, 900_000, 4_000_000, 40_000_000))
        kind = chance.choice(("ok", "ok", "ok", "fail", "info"))
        known = kind == "ok" or chance.random() < 0.5
        invoked = kind != "info" or chance.random() < 0.7
        rows.append(
            {
                "process": op % 3,
                "op": op,
                "type": kind,
                "topic": chance.choice(("a", "b")),
                "partition": chance.randrange(3) if known else None,
                "offset": op if kind == "ok" else None,
                "value": op,
                "invoke_ns": now - chance.randrange(50_000_000) if invoked else None,
                "complete_ns": now if kind == "ok" or chance.random() < 0.9 else None,
                "error": chance.choice((None, "NOT_ENOUGH_REPLICAS")) if kind != "ok" else None,
                "txn": None,
            }
        )
    return rows


def all_that(sends: Sequence[Row]) -> Sends:
    """Return what some sends tell if nobody divides them."""
    told = Sends(attempted=Counter(dict.fromkeys(WANTED.faults, 0)))
    table = pa.Table.from_pylist(sends, schema=to_arrow_schema(SEND_SCHEMA))
    told.look_at(table.select(COLUMNS), WANTED)
    return told


def in_order(told: Sends) -> Sends:
    """Return the same with its sends in one order; no count is as good as none."""
    failed = sorted(told.failed, key=lambda send: (send["invoke_ns"], repr(send)))
    return replace(told, failed=failed, in_flight=+told.in_flight)


def read(length: int) -> list[dict[str, Any]]:
    return [
        {
            "process": 9, "op": n, "position": 0, "topic": "a", "partition": 0, "offset": n,
            "value": n, "time_ns": 3 * S + n * 7_000_000, "problem": None, "txn": None,
        }
        for n in range(length)
    ]  # fmt: skip


def recorded(spark: SparkSession, path: Path, rows: Mapping[str, Sequence[Row]]) -> History:
    """Return a history of three datasets that lie in files, a few rows in each row group."""
    frames, files = {}, {}
    for dataset, some in rows.items():
        schema = HISTORY_SCHEMAS[dataset]
        arrow = pa.schema([f.with_nullable(True) for f in to_arrow_schema(schema, timezone="UTC")])
        names = []
        for process in sorted({row["process"] for row in some}):
            mine = [row for row in some if row["process"] == process]
            name = str(path / f"{dataset}-{process}.parquet")
            pq.write_table(pa.Table.from_pylist(mine, schema=arrow), name, row_group_size=50)
            names.append(name)
        frames[dataset] = spark.read.schema(schema).parquet(*names)
        files[dataset] = tuple(names)
    empty = to_history(spark, [])
    return History(
        sends=frames["send"],
        polls=frames["poll"],
        final=frames["final"],
        txns=empty.txns,
        events=empty.events,
        ends=empty.ends,
        aborted_reads=empty.aborted_reads,
        files=files,
    )


def counted(member: Member, sends: list[Row], polls: list[Row]) -> Throughput:
    """Return the throughput of a run in plain Python."""
    origin, width = member.run.origin_ns, bin_width_ns(member.run.meta, member.run.origin_ns)
    kinds: Counter[str] = Counter()
    bins: dict[int, Counter[str]] = defaultdict(Counter)
    latencies: dict[int, list[int]] = defaultdict(list)
    acks: dict[tuple[str, int], list[int]] = defaultdict(list)
    for send in sends:
        kind = "reserved" if send["type"] == "info" and send["invoke_ns"] is None else send["type"]
        kinds[kind] += 1
        if send["complete_ns"] is None:
            continue
        number = (send["complete_ns"] - origin) // width
        bins[number][kind] += 1
        if kind == "ok" and send["invoke_ns"] is not None:
            latencies[number].append(send["complete_ns"] - send["invoke_ns"])
        if kind == "ok" and send["partition"] is not None:
            acks[send["topic"], send["partition"]].append(send["complete_ns"])
    for poll in polls:
        bins[(poll["time_ns"] - origin) // width]["polled"] += 1
    rows = []
    for number, cell in sorted(bins.items()):
        in_order = sorted(latencies[number])
        marks = [
            round(in_order[math.ceil(q * len(in_order)) - 1] / 1e6, 3) if in_order else None
            for q in QUANTILES
        ]
        told = [cell[name] for name in ("ok", "info", "fail")]
        rows.append((number * width / S, *told, *marks, cell["polled"]))
    every = [time for times in acks.values() for time in times]
    gaps = []
    for (topic, partition), times in sorted(acks.items()):
        times.sort()
        # Acknowledgements in one fine bin are one.
        steps = [
            (one, two)
            for one, two in pairwise([min(every), *times, max(every)])
            if one // FINE_NS != two // FINE_NS or one == min(every) or two == max(every)
        ]
        since, until = max(steps, key=lambda step: step[1] - step[0])
        gaps.append(
            PartitionGap(
                topic=topic, partition=partition, acked=len(times), gap_from_ns=since,
                gap_to_ns=until,
            )
        )  # fmt: skip
    return Throughput(
        origin_ns=origin,
        bin_ns=width,
        rows=tuple(rows),
        partitions=tuple(gaps),
        counts=Counts(
            acked=kinds["ok"], failed=kinds["fail"], indeterminate=kinds["info"],
            sends=kinds["ok"] + kinds["fail"] + kinds["info"], reserved=kinds["reserved"],
            read=len(polls),
        ),
    )  # fmt: skip


def run_at(path: Path, origin_ns: int, seconds: float) -> RunInput:
    return RunInput(
        path=path, meta=run_of(seconds), contract=Contract(), faults=(), ends=(),
        origin_ns=origin_ns,
    )  # fmt: skip


@pytest.mark.parametrize("in_files", [True, False])
@pytest.mark.parametrize("stretch_rows", [30, 10_000])
def test_spark_counts_what_plain_python_counts(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stretch_rows: int,
    in_files: bool,
) -> None:
    monkeypatch.setattr(throughput, "_STRETCH_ROWS", stretch_rows)
    monkeypatch.setattr(throughput, "_FEWEST_ROWS", stretch_rows)
    sends = sent(random.Random(stretch_rows), 400)
    polls = read(90)
    history = recorded(spark, tmp_path, {"send": sends, "poll": polls, "final": read(70)})
    if not in_files:
        history = replace(history, files={})
    member = Member(run=run_at(tmp_path, 2 * S + 3, 100))

    ((found, told),) = throughputs(history, [member], [WANTED]).values()

    assert found == counted(member, sends, polls)
    assert found.bin_ns == S // 10
    assert len(found.partitions) == 6
    assert found.counts.reserved > 0
    assert in_order(told) == in_order(all_that(sends))
    assert told.attempted["f1"] > told.attempted["f2"] == 0
    assert sum(told.unknown.values()) == found.counts.indeterminate
    assert (
        min(*told.unknown.values(), len(told.failed), told.refused, max(told.in_flight.values()))
        > 0
    )


@pytest.mark.parametrize("in_files", [True, False])
def test_runs_that_are_verified_together_are_counted_apart(
    spark: SparkSession, tmp_path: Path, in_files: bool
) -> None:
    members = [
        Member(run=run_at(tmp_path, 2 * S + 3, 100), number=0, span=16),
        Member(run=run_at(tmp_path, 3 * S, 500), number=1, span=16),
        Member(run=run_at(tmp_path, 3 * S, 500), number=2, span=16),
    ]
    sends = [sent(random.Random(1), 100), sent(random.Random(2), 150), []]
    polls, finals = [read(0), read(30), read(40)], [read(20), [], read(5)]
    files: dict[str, tuple[str, ...]] = {}
    histories = []
    for number, member in enumerate(members[:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = {"send": sends[number], "poll": polls[number], "final": finals[number]}
        recorded(spark, folder, rows)
        by_dataset = {
            name: [str(file) for file in sorted(folder.glob(f"{name}-*"))]
            for name in HISTORY_SCHEMAS
        }
        histories.append((member, by_dataset))
    common, failures = gather(histories, str(tmp_path / "together"))
    assert not failures
    files = {name: tuple(common[name]) for name in ("send", "poll", "final")}
    frames = {
        name: spark.read.schema(HISTORY_SCHEMAS[name]).parquet(*paths)
        for name, paths in files.items()
    }
    history = replace(
        to_history(spark, []),
        sends=frames["send"],
        polls=frames["poll"],
        final=frames["final"],
        files=files if in_files else {},
    )

    found = throughputs(history, members, [WANTED] * len(members))

    for n, member in enumerate(members):
        of_run, told = found[member.number]
        assert of_run == counted(member, sends[n], polls[n])
        assert in_order(told) == in_order(all_that(sends[n]))
