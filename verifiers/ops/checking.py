"""Running the op checkers on all histories in one job."""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import frames_wanted
from verifiers.checking.execution import MOST_EXAMPLES
from verifiers.ops.checker import OP_ANOMALY_SCHEMA, OP_CHECKERS, OpChecker, can_find
from verifiers.ops.crashes import Crashes
from verifiers.ops.cycles import concurrent, dependencies, places
from verifiers.ops.measured import Measured
from verifiers.ops.metrics import MEASURES, marked, measure_of
from verifiers.ops.neighbours import remembered, suspicious_steps
from verifiers.ops.reading import OpHistories
from verifiers.ops.suspect_keys import first_look, known_suspects, suspect_frame, suspects
from verifiers.ops.versions import versions_of
from verifiers.spark.columns import converted, in_columns
from verifiers.spark.errors import SPARK_ERRORS
from verifiers.spark.plans import keep, union

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpExample:
    """One offence; the columns of OP_ANOMALY_SCHEMA, the detail parsed."""

    key: str | None
    value: int | None
    op: int | None
    detail: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the offence as it stands in the document."""
        named = {"key": self.key, "value": self.value, "op": self.op}
        return {name: what for name, what in named.items() if what is not None} | dict(self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFound:
    """The findings in one history: offences by anomaly, and at most 32 examples of each.

    `repeated` is how many values were sent more than once to one key; what was measured is never an
    offence.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[OpExample, ...]] = field(default_factory=dict)
    repeated: int = 0
    measured: Measured = field(default_factory=Measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChecked:
    """The findings in all histories, by the position of each that has any.

    `checkers` is "ran" or "crashed", by name; `crashes` is one sentence for each that crashed,
    `unmeasured` one for each measure that did, by name.
    """

    by_run: Mapping[int, OpFound]
    checkers: Mapping[str, str]
    crashes: tuple[str, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    def found_in(self, run: int) -> OpFound:
        """Return what was found in one history, by its position."""
        return self.by_run.get(run, OpFound(measured=Measured(crashes=self.unmeasured)))


_REPEATED, _TANGLED, _LONELY = "\0repeated", "\0tangled", "\0lonely"
"""Rows among the anomalies that are none: values that were sent twice, histories that may have a
cycle, and histories whose ops are all concurrent."""

_CYCLES = "cycles"
_LOOKED_FOR = {_REPEATED: "repeated-values", _TANGLED: _CYCLES, _LONELY: _CYCLES}


def check_histories(
    histories: OpHistories, *, ww_deps: bool = False, exact: bool = False
) -> OpChecked:
    """Run every op checker over all histories at once.

    A first look at each key (first_look.py) clears the keys that are in order; the checkers run on
    the others. A checker that crashes leaves its traceback in a file that its sentence names, and
    stops no other checker: if the one job fails, each checker runs in a job of its own. Metrics are
    no part of the verdict, and neither is a metric that crashes.

    With `ww_deps` a write depends on the one before it in the log; `exact` leaves out the first
    look, and the verdicts are the same.
    """
    kept: list[DataFrame] = []
    may_be_spared = not any(map(can_find, OP_CHECKERS.values()))
    if may_be_spared and not exact and _is_clear(histories, ww_deps=ww_deps):
        return _run(_history(histories), None, ww_deps=ww_deps)
    try:
        keys = None if exact else _suspects(histories, kept, ww_deps=ww_deps)
        if may_be_spared and keys is not None and keys.isEmpty():
            return _run(_history(histories), None, ww_deps=ww_deps)
        by_name = _frames(histories, keys, kept)
        where = keep(places(by_name, ww_deps=ww_deps))
        kept.append(where)
        return _run(by_name, where, ww_deps=ww_deps)
    finally:
        for frame in kept:
            frame.unpersist()


def _is_clear(histories: OpHistories, *, ww_deps: bool) -> bool:
    """Tell whether it is known without Spark that no key of any history is suspected.

    With `ww_deps` a history whose ops are all concurrent is suspected too, and Spark tells which.
    """
    known = known_suspects(histories.described, ww_deps=ww_deps)
    return not (known or histories.divided or ww_deps)


def _suspects(histories: OpHistories, kept: list[DataFrame], *, ww_deps: bool) -> DataFrame | None:
    """Return the suspected keys: run, key; None if the first look failed."""
    mops = histories.mops
    found = suspect_frame(known_suspects(histories.described, ww_deps=ww_deps), mops)
    if divided := histories.divided:
        looked_at = keep(first_look(mops.where(F.col("run").isin(divided)), ww_deps=ww_deps))
        kept.append(looked_at)
        found = found.unionByName(looked_at)
    elif not ww_deps:
        return found.select("run", "key")
    keys = keep(suspects(found, histories.ops, mops, ww_deps=ww_deps))
    kept.append(keys)
    try:
        keys.isEmpty()
    except SPARK_ERRORS:
        _LOG.warning("The first look at the keys crashed: all are checked.", exc_info=True)
        return None
    return keys


def _history(histories: OpHistories) -> dict[str, DataFrame]:
    return {"ops": histories.ops, "mops": histories.mops, "lags": histories.lags}


def _frames(
    histories: OpHistories, keys: DataFrame | None, kept: list[DataFrame]
) -> dict[str, DataFrame]:
    """Return the shared frames by name; `keys` as for `versions_of`."""
    indeterminate = sum(history.indeterminate for history in histories.described)
    shared = versions_of(histories.mops, indeterminate=indeterminate, keys=keys)
    suspicious = keep(suspicious_steps(shared.mops, shared.values))
    kept += [*shared.kept, suspicious]
    names = ("log", "values", "versions", "writers", "committed")
    return {
        **_history(histories),
        **{name: getattr(shared, name) for name in names},
        "reads": suspicious.where(F.col("kind") == "poll"),
        "steps": remembered(suspicious.where(F.col("delta") != 1), histories.ops),
        "backward": suspicious.where("backward"),
    }


def _run(by_name: Mapping[str, DataFrame], where: DataFrame | None, *, ww_deps: bool) -> OpChecked:
    """Run metrics and checkers; `where` is None if no checker has to run."""
    crashes = Crashes()
    plans = _plans({marked(part): check for part, check in MEASURES.items()}, by_name, crashes)
    if where is not None:
        plans |= _plans(OP_CHECKERS, by_name, crashes)
        plans[_REPEATED] = _named(_bare(by_name["values"].where(F.col("sends") > 1)), _REPEATED)
        plans[_TANGLED] = _named(_bare(where.select("run").distinct()), _TANGLED)
    plans[_LONELY] = _named(_bare(concurrent(by_name["ops"])), _LONELY)
    rows = _rows_of(plans, crashes)
    tangled = {row["run"] for row in rows if row["anomaly"] == _TANGLED}
    lonely = {row["run"] for row in rows if row["anomaly"] == _LONELY}
    if tangled or lonely:
        found = dependencies(by_name, where, tangled=tangled, lonely=lonely, ww_deps=ww_deps)
        rows += _rows_of({_CYCLES: found}, crashes)
    unmeasured = {
        part: crashes.sentences[name]
        for name in list(crashes.sentences)
        if (part := measure_of(name)) is not None
    }
    # If the search for places of cycles crashed, it is unknown whether there are cycles.
    crashed = {
        _CYCLES if name in (_TANGLED, _LONELY) else name: sentence
        for name, sentence in crashes.sentences.items()
        if measure_of(name) is None
    }
    return OpChecked(
        by_run=_by_run(rows, unmeasured),
        checkers={
            name: "crashed" if name in crashed else "ran" for name in (*OP_CHECKERS, _CYCLES)
        },
        crashes=tuple(crashed.values()),
        unmeasured=unmeasured,
    )


def _plans(
    checks: Mapping[str, OpChecker], by_name: Mapping[str, DataFrame], crashes: Crashes
) -> dict[str, DataFrame]:
    plans: dict[str, DataFrame] = {}
    for name, check in checks.items():
        try:
            found = check(**{wanted: by_name[wanted] for wanted in frames_wanted(check)})
            plans[name] = found if measure_of(name) else _named(found, name)
        except Exception as error:  # noqa: BLE001  (a checker may raise anything; it is recorded)
            _note(crashes, name, error)
    return plans


def _note(crashes: Crashes, name: str, error: Exception) -> None:
    measure = measure_of(name)
    if measure is None:
        crashes.note(name, error, kind="checker", called=_LOOKED_FOR.get(name, name))
    else:
        crashes.note(name, error, kind="metric", called=measure)


def _rows_of(plans: Mapping[str, DataFrame], crashes: Crashes) -> list[Any]:
    """Return the rows of all plans from one job; if it fails, each plan runs in its own job."""
    try:
        return _first(list(plans.values()))
    except SPARK_ERRORS:
        # One plan failed on the data: to learn which one, each runs in a job of its own.
        rows: list[Any] = []
        for name, plan in plans.items():
            try:
                rows += _first([plan])
            except SPARK_ERRORS as error:
                _note(crashes, name, error)
        return rows


def _bare(rows: DataFrame) -> DataFrame:
    """Return rows in the columns of OP_ANOMALY_SCHEMA; columns that they lack are null."""
    known = {name: F.col(name) for name in rows.columns}
    return in_columns(rows, OP_ANOMALY_SCHEMA, {"detail": F.lit("{}"), **known})


def _named(found: DataFrame, name: str) -> DataFrame:
    columns = [converted(field.name, field) for field in OP_ANOMALY_SCHEMA.fields]
    return found.select(F.lit(name).alias("anomaly"), *columns)


def _first(plans: Sequence[DataFrame]) -> list[Any]:
    """Return the first offences of each anomaly and history, each with the total count."""
    alike = Window.partitionBy("run", "anomaly")
    order = alike.orderBy(
        F.col("detail") == "{}", F.col("key").asc_nulls_last(), "op", "value", "detail"
    )
    return (
        union(plans)
        .withColumn("count", F.count("*").over(alike))
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= MOST_EXAMPLES)
        .collect()
    )


def _by_run(rows: Sequence[Any], unmeasured: Mapping[str, str]) -> dict[int, OpFound]:
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    examples: dict[tuple[int, str], list[OpExample]] = defaultdict(list)
    records: dict[int, dict[str, list[Mapping[str, Any]]]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: (row["run"], row["anomaly"], row["rank"])):
        detail = json.loads(row["detail"])
        measure = measure_of(row["anomaly"])
        if measure is not None:
            records[row["run"]].setdefault(measure, []).append(detail)
            continue
        counts[row["run"]][row["anomaly"]] = row["count"]
        examples[row["run"], row["anomaly"]].append(
            OpExample(key=row["key"], value=row["value"], op=row["op"], detail=detail)
        )
    return {
        run: OpFound(
            counts={name: count for name, count in counts[run].items() if name[0] != "\0"},
            examples={name: tuple(examples[run, name]) for name in counts[run] if name[0] != "\0"},
            repeated=counts[run].get(_REPEATED, 0),
            measured=Measured(records=records[run], crashes=unmeasured),
        )
        for run in {*counts, *records}
    }
