"""All that the plots of op histories show, of many histories at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checking import OpChecked
from verifiers.ops.kept import Kept
from verifiers.ops.plots.axes import Axes, axes_of
from verifiers.ops.plots.lag_series import Lags, lag_series
from verifiers.ops.plots.orders import ANOMALIES, Orders, order_series
from verifiers.ops.plots.unseen import Unseen, unseen_series
from verifiers.ops.reading import OpHistories
from verifiers.ops.versions import versions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What the plots of one history show.

    `axes` is None if it has no op; `lags` are by grouping, and empty if it has no times.
    """

    axes: Axes | None = None
    unseen: Unseen = field(default_factory=Unseen)
    lags: Mapping[str, Lags] = field(default_factory=dict)
    orders: Orders = field(default_factory=Orders)


def series_of(histories: OpHistories, checked: OpChecked) -> Mapping[int, Series]:
    """Return the series of each history that can be judged, by its position.

    An order is looked for only where an offence was found.
    """
    ops, mops = histories.ops, histories.mops
    axes = axes_of(ops, mops)
    unseen = unseen_series(ops, mops, axes)
    lags = lag_series(ops, mops, axes)
    runs = [run for run, found in checked.by_run.items() if set(ANOMALIES) & set(found.counts)]
    orders = _orders(mops, runs, histories) if runs else {}
    return {
        run: Series(
            axes=axes.get(run),
            unseen=unseen.get(run, Unseen()),
            lags=lags.get(run, {}),
            orders=orders.get(run, Orders()),
        )
        for run, described in enumerate(histories.described)
        if not described.problems
    }


def _orders(mops: DataFrame, runs: list[int], histories: OpHistories) -> Mapping[int, Orders]:
    concerned = mops.where(F.col("run").isin(runs))
    described = [histories.described[run] for run in runs]
    indeterminate = sum(file.indeterminate for file in described)
    with Kept() as kept:
        return order_series(concerned, versions_of(concerned, kept, indeterminate=indeterminate))
