"""Cycles in many histories: those that a look at the edges clears are not searched."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import OP_ANOMALY_SCHEMA
from verifiers.ops.cycles import cycles, empty_graphs
from verifiers.ops.edges import placed, stretches, write_edges

_FEW_RUNS = 1_000
_ENDS = ("run", "from_place", "to_place")


def version_order(log: DataFrame) -> DataFrame:
    """Return the version order, one value an index: run, key, index, value."""
    order = log.where(F.col("value") == F.col("lowest"))
    return order.select("run", "key", "index", "value")


def places(by_name: Mapping[str, DataFrame], *, ww_deps: bool) -> DataFrame:
    """Return where in the histories a cycle can be (`edges.stretches`).

    Args:
        by_name: the shared frames, and `backward`: what ops polled of writers behind them.
        ww_deps: whether the log's order makes edges as well.
    """
    edges = by_name["backward"].select(*_ENDS)
    if ww_deps:
        touched = placed(by_name["ops"], by_name["mops"].drop("invoked"))
        written = write_edges(touched, version_order(by_name["log"]))
        edges = edges.unionByName(written.select(*_ENDS))
    return stretches(edges)


def concurrent(ops: DataFrame) -> DataFrame:
    """Return the runs without any op that was invoked after another had ended OK."""
    acting = ops.where(F.col("f").isin("send", "poll", "txn"))
    completed = F.min(F.when(F.col("type") == "ok", F.col("op")))
    ended = acting.groupBy("run").agg(completed.alias("done"), F.max("invoked").alias("begun"))
    return ended.where(F.coalesce(F.col("done") >= F.col("begun"), F.lit(True))).select("run")


def dependencies(
    by_name: Mapping[str, DataFrame],
    where: DataFrame,
    *,
    tangled: Collection[int],
    lonely: Collection[int],
    ww_deps: bool,
) -> DataFrame:
    """Return the cycles of some histories, and which have no edge at all.

    Args:
        by_name: the shared frames.
        where: what `places` returned.
        tangled: the runs that are in it.
        lonely: the runs that `concurrent` returned.
        ww_deps: whether the log's order makes edges as well.

    Returns:
        OP_ANOMALY_SCHEMA, behind the name of the anomaly.
    """

    def of(runs: Collection[int]) -> tuple[DataFrame, DataFrame, DataFrame | None]:
        few = F.col("run").isin(*runs) if len(runs) <= _FEW_RUNS else F.lit(True)
        order = version_order(by_name["log"]).where(few) if ww_deps else None
        return by_name["ops"].where(few), by_name["mops"].drop("invoked").where(few), order

    ops, mops, order = of(tangled)
    alone = of(lonely)
    found = cycles(ops, mops, where, order).unionByName(empty_graphs(*alone))
    none = F.lit(None)
    given = {
        "key": none.cast("string"),
        "value": none.cast("long"),
        "detail": F.coalesce("detail", F.lit("{}")),
    }
    names = OP_ANOMALY_SCHEMA.names
    return found.select("anomaly", *(given.get(n, F.col(n)).alias(n) for n in names))
