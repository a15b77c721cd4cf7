"""Running the checkers on op histories, all of them in one job."""

import inspect
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.core.grouping import by_key
from verifiers.checking.checker import CHECKERS, checkers_of_ops, looked_at
from verifiers.checking.crashes import Crashes
from verifiers.checking.details import columns
from verifiers.checking.execution import MOST_EXAMPLES, in_one_job, plans_of
from verifiers.ops.cycles import concurrent, dependencies, places
from verifiers.ops.frames import FRAMES, as_op_anomalies, frames_of
from verifiers.ops.kept import Kept
from verifiers.ops.metrics import MEASURES, Record, marked, measure_of
from verifiers.ops.neighbours import suspicious_steps
from verifiers.ops.reading import OpHistories
from verifiers.ops.schema import NAMED_ANOMALY_SCHEMA
from verifiers.ops.suspect_keys import first_look, known_suspects, suspect_frame, suspects
from verifiers.ops.versions import versions_of
from verifiers.spark.columns import in_columns
from verifiers.spark.errors import SPARK_ERRORS
from verifiers.spark.plans import union

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpExample:
    """One offence; the columns of NAMED_ANOMALY_SCHEMA, the detail parsed."""

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

    `kinds` are those of the offences, None for offences of no kind. `repeated` is how many values
    were sent more than once to one key; `measured` are records by measure, which are no offences.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[OpExample, ...]] = field(default_factory=dict)
    kinds: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    repeated: int = 0
    measured: Mapping[str, Sequence[Record]] = field(default_factory=dict)


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
        return self.by_run.get(run, OpFound())


_REPEATED, _TANGLED, _LONELY = "\0repeated", "\0tangled", "\0lonely"
"""Rows among the anomalies that are none: values that were sent twice, histories that may have a
cycle, and histories whose ops are all concurrent."""

_CYCLES = "cycles"
_LOOKED_FOR = {_REPEATED: "repeated-values", _TANGLED: _CYCLES, _LONELY: _CYCLES}
_NUMBER_OR_LIST = re.compile(r"-?\d+|\[.*\]")
_OF_ALL_KEYS = frozenset({"ops", "mops"})
"""The frames that are not of suspected keys only."""


def check_histories(
    histories: OpHistories, *, ww_deps: bool = False, exact: bool = False
) -> OpChecked:
    """Run every checker that applies to op histories over all of them at once.

    A first look at each key (first_look.py) clears the keys that are in order; the checkers run on
    the others. A checker that crashes leaves its traceback in a file that its sentence names, and
    stops no other checker: if the one job fails, each checker runs in a job of its own. Metrics are
    no part of the verdict, and neither is a metric that crashes.

    With `ww_deps` a write depends on the one before it in the log; `exact` leaves out the first
    look, and the verdicts are the same.
    """
    # The first look rules out what our own checkers find, and no more.
    may_be_spared = all(_OF_ALL_KEYS.isdisjoint(looked_at(check)) for check in CHECKERS.values())
    history = {"ops": histories.ops, "mops": histories.mops, "lags": histories.lags}
    known = known_suspects(histories.described, ww_deps=ww_deps)
    # With `ww_deps` those are suspected too whose ops are all concurrent, and Spark tells which.
    is_clear = not (known or histories.divided or ww_deps)
    if may_be_spared and is_clear and not exact:
        return _run(history, {}, ww_deps=ww_deps)
    with Kept() as kept:
        keys = None if exact else _suspects(histories, known, kept, ww_deps=ww_deps)
        if may_be_spared and keys is not None and keys.isEmpty():
            return _run(history, {}, ww_deps=ww_deps)
        indeterminate = sum(described.indeterminate for described in histories.described)
        shared = versions_of(histories.mops, kept, indeterminate=indeterminate, keys=keys)
        suspicious = kept.keep(suspicious_steps(shared.mops, shared.values))
        frames = frames_of(histories, shared, suspicious, kept)
        history |= {"log": shared.log, "values": shared.values}
        history["backward"] = suspicious.where("backward")
        history["places"] = kept.keep(places(history, ww_deps=ww_deps))
        return _run(history, frames, ww_deps=ww_deps)


def _suspects(
    histories: OpHistories,
    known: Collection[tuple[int, str | None]],
    kept: Kept,
    *,
    ww_deps: bool,
) -> DataFrame | None:
    """Return the suspected keys: run, key; None if the first look failed."""
    mops = histories.mops
    found = suspect_frame(known, mops)
    if divided := histories.divided:
        screened = first_look(mops.where(F.col("run").isin(divided)), ww_deps=ww_deps)
        found = found.unionByName(kept.keep(screened))
    elif not ww_deps:
        return found.select("run", "key")
    keys = kept.keep(suspects(found, histories.ops, mops, ww_deps=ww_deps))
    try:
        keys.isEmpty()
    except SPARK_ERRORS:
        _LOG.warning("The first look at the keys crashed: all are checked.", exc_info=True)
        return None
    return keys


def _run(
    history: Mapping[str, DataFrame], frames: Mapping[str, DataFrame], *, ww_deps: bool
) -> OpChecked:
    """Run metrics and checkers; there are no `frames` if no checker has to run."""
    crashes = Crashes()
    note = partial(_note, crashes)
    rows: list[Any] = []
    checks = checkers_of_ops(FRAMES)
    plans = _measures(history, note)
    if frames:
        plans |= plans_of(checks, frames, crashes, as_op_anomalies)
        plans[_REPEATED] = _bare(history["values"].where(F.col("sends") > 1), _REPEATED)
        plans[_TANGLED] = _bare(history["places"].select("run").distinct(), _TANGLED)
    plans[_LONELY] = _bare(concurrent(history["ops"]), _LONELY)
    in_one_job(plans, lambda plans: rows.extend(_first(plans)), note)
    tangled = {row["run"] for row in rows if row["anomaly"] == _TANGLED}
    lonely = {row["run"] for row in rows if row["anomaly"] == _LONELY}
    if tangled or lonely:
        found = dependencies(history, tangled=tangled, lonely=lonely, ww_deps=ww_deps)
        in_one_job({_CYCLES: found}, lambda plans: rows.extend(_first(plans)), note)
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
    in_order = sorted(rows, key=lambda row: (row["anomaly"], row["rank"], row["kind"] or ""))
    return OpChecked(
        by_run={run: _found(of_run) for run, of_run in by_key(in_order, itemgetter("run")).items()},
        checkers={name: "crashed" if name in crashed else "ran" for name in (*checks, _CYCLES)},
        crashes=tuple(crashed.values()),
        unmeasured=unmeasured,
    )


def _measures(
    history: Mapping[str, DataFrame], note: Callable[[str, Exception], None]
) -> dict[str, DataFrame]:
    plans: dict[str, DataFrame] = {}
    for part, measure in MEASURES.items():
        try:
            wanted = inspect.signature(measure).parameters
            plans[marked(part)] = measure(**{name: history[name] for name in wanted})
        except Exception as error:  # noqa: BLE001  (whatever it is, the verdicts must be told)
            note(marked(part), error)
    return plans


def _note(crashes: Crashes, name: str, error: Exception) -> None:
    measure = measure_of(name)
    kind = "checker" if measure is None else "metric"
    crashes.note(name, error, kind=kind, called=measure or _LOOKED_FOR.get(name))


def _bare(rows: DataFrame, name: str) -> DataFrame:
    """Return rows under a name, in the columns of NAMED_ANOMALY_SCHEMA; what they lack is null."""
    bare = {"anomaly": F.lit(name), "detail": F.lit("{}")}
    return in_columns(rows, NAMED_ANOMALY_SCHEMA, columns(*rows.columns) | bare)


def _first(plans: Sequence[DataFrame]) -> list[Any]:
    """Return the first offences of each anomaly, kind and history, each with its kind's count."""
    alike = Window.partitionBy("run", "anomaly", "kind")
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


def _found(rows: Sequence[Any]) -> OpFound:
    """Return what was found in the history that all of these rows are of."""
    by_name = by_key(rows, itemgetter("anomaly"))
    measured = {
        measure: [json.loads(row["detail"]) for row in of_measure]
        for name, of_measure in by_name.items()
        if (measure := measure_of(name)) is not None
    }
    counts = {
        name: sum({row["kind"]: row["count"] for row in alike}.values())
        for name, alike in by_name.items()
    }
    anomalies = {name: alike for name, alike in by_name.items() if not name.startswith("\0")}
    return OpFound(
        counts={name: counts[name] for name in anomalies},
        examples={
            name: tuple(_example(row) for row in alike[:MOST_EXAMPLES])
            for name, alike in anomalies.items()
        },
        kinds={name: frozenset(row["kind"] for row in alike) for name, alike in anomalies.items()},
        repeated=counts.get(_REPEATED, 0),
        measured=measured,
    )


def _example(row: Any) -> OpExample:  # noqa: ANN401  (a Row)
    detail = {name: _fact(fact) for name, fact in json.loads(row["detail"]).items()}
    return OpExample(key=row["key"], value=row["value"], op=row["op"], detail=detail)


def _fact(fact: Any) -> Any:  # noqa: ANN401  (of JSON)
    """Return a fact of an example: checkers tell numbers and lists as texts."""
    return json.loads(fact) if isinstance(fact, str) and _NUMBER_OR_LIST.fullmatch(fact) else fact
