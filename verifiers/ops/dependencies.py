"""Cycles in many histories: only stretches that may contain a cycle are searched."""

from collections.abc import Collection, Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.cycles import cycles, empty_graphs
from verifiers.ops.edges import placed, stretches, write_edges

_FEW_RUNS = 1_000
_ENDS = ("run", "from_place", "to_place")


def version_order(log: DataFrame) -> DataFrame:
    """Return the version order with one value for each index: run, key, index, value."""
    order = log.where(F.col("value") == F.col("lowest"))
    return order.select("run", "key", "index", "value")


def places(by_name: Mapping[str, DataFrame], *, ww_deps: bool) -> DataFrame:
    """Return the stretches of the histories that can contain a cycle (`edges.stretches`).

    The shared frame `backward` is what ops polled of writers behind them; with `ww_deps` the log's
    order makes edges as well.
    """
    edges = by_name["backward"].select(*_ENDS)
    if ww_deps:
        written = write_edges(placed(by_name["mops"]), version_order(by_name["log"]))
        edges = edges.unionByName(written.select(*_ENDS))
    return stretches(edges)


def dependencies(
    by_name: Mapping[str, DataFrame],
    where: DataFrame | None,
    *,
    tangled: Collection[int],
    lonely: Collection[int],
    ww_deps: bool,
) -> DataFrame:
    """Return the cycles of some histories, and the histories without any edge.

    Args:
        by_name: the shared frames.
        where: what `places` returned; None if a cycle can be nowhere.
        tangled: the runs that are in it.
        lonely: the runs that `cycles.concurrent` returned; some run is in one of these.
        ww_deps: whether the log's order makes edges as well.

    Returns:
        CYCLES_SCHEMA.
    """

    def of(runs: Collection[int]) -> tuple[DataFrame, DataFrame | None]:
        few = F.col("run").isin(*runs) if len(runs) <= _FEW_RUNS else F.lit(True)
        order = version_order(by_name["log"]).where(few) if ww_deps else None
        return by_name["mops"].where(few), order

    parts = []
    if where is not None and tangled:
        mops, order = of(tangled)
        parts.append(cycles(mops, where, order))
    if lonely:
        runs = by_name["mops"].sparkSession.createDataFrame([(run,) for run in lonely], "run int")
        parts.append(empty_graphs(runs, *of(lonely)))
    return reduce(DataFrame.unionByName, parts)
