"""Spreads and shares of what runs measured, and whether two sides differ by more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, prod
from statistics import median

import numpy as np
import numpy.typing as npt

FEWEST = 5
"""With fewer runs on a side nothing is said of a difference."""

LEVEL = 0.01
"""Differences that chance makes more often than this are not called any.

Five quantities are compared: at this level chance alone makes one of them differ in at most one
comparison of twenty.
"""

_DRAWS = 9999
_MOST_AT_ONCE = 2_000_000
_TAIL = 0.025
"""On either side of an interval of 95 %."""

Stratum = str
"""A group of runs that are alike in what is not compared."""

Values = Mapping[Stratum, Sequence[Sequence[float]]]
"""Of one side, by stratum: what each run measured; no run measured nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What one side measured of a quantity.

    The spread is that between the quartiles: least and most grow apart with the number of values
    alone, so two sides of different size could not be compared by them.

    Attributes:
        n: how many values there are.
        runs: how many runs measured them.
        median: of the values; each stratum counts as much on this side as on the other one.
        low: the lower quartile, likewise.
        high: the upper quartile, likewise.
    """

    n: int
    runs: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """In how many of some runs something was seen.

    Attributes:
        count: in how many.
        of: of how many.
    """

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true share lies with 95 % confidence, by Clopper and Pearson.

        Their interval is never too narrow, however few the runs are: none in 12 runs may still be
        a quarter of all. Of no runs, everything from 0 to 1.
        """
        from scipy.special import betaincinv

        missing = self.of - self.count
        low = betaincinv(self.count, missing + 1, _TAIL) if self.count else 0.0
        high = betaincinv(self.count + 1, missing, 1 - _TAIL) if missing else 1.0
        return float(low), float(high)

    def __str__(self) -> str:
        if not self.of:
            return "no such run"
        low, high = self.interval
        return f"{self.count} of {self.of} ({low:.0%} to {high:.0%})"


def spreads(a: Values, b: Values) -> tuple[Spread | None, Spread | None]:
    """Return the spread of each side, over the strata in which both have measured something.

    Returns:
        None for both if there is no such stratum.
    """
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None, None
    weights = {s: min(sum(map(len, a[s])), sum(map(len, b[s]))) for s in shared}
    return _spread(a, weights), _spread(b, weights)


def _spread(side: Values, weights: Mapping[Stratum, int]) -> Spread:
    pairs = []
    for stratum, weight in weights.items():
        values = [value for run in side[stratum] for value in run]
        pairs += [(value, weight / len(values)) for value in values]
    ordered, each = np.array(sorted(pairs)).T
    # Each value stands in the middle of its weight: with equal weights the usual median.
    places = (np.cumsum(each) - each / 2) / each.sum()
    low, middle, high = np.interp([0.25, 0.5, 0.75], places, ordered)
    return Spread(
        n=len(pairs),
        runs=sum(len(side[stratum]) for stratum in weights),
        median=float(middle),
        low=float(low),
        high=float(high),
    )


def chance(a: Values, b: Values) -> tuple[float, int] | None:
    """Return how likely chance alone makes the sides differ so much, and in which direction.

    Values of one run hang together, so that each run counts once, with the median of its own. Runs
    are ranked within each stratum, and the ranks are dealt to the two sides anew 9999 times, by one
    seed: the probability is the share of deals in which the ranks of the sides lie at least as far
    apart. Nothing is assumed of how the values are distributed.

    Returns:
        The probability, both directions counted, and the sign of B minus A; None if that is too few
        to tell: fewer than five runs on a side, or so few in each stratum that no outcome at all
        would be rarer than `LEVEL`.

    Source: P. van Elteren, "On the combination of independent two-sample tests of Wilcoxon" (1960).
    """
    strata = [
        ([median(run) for run in a[s]], [median(run) for run in b[s]])
        for s in sorted(a.keys() & b.keys())
    ]
    sizes = [(len(of_a), len(of_b)) for of_a, of_b in strata]
    if min((sum(side) for side in zip(*sizes, strict=True)), default=0) < FEWEST:
        return None
    if 2 / prod(comb(n + m, m) for n, m in sizes) >= LEVEL:
        return None
    random = np.random.default_rng(0)
    seen, drawn = 0.0, np.zeros(_DRAWS)
    for of_a, of_b in strata:
        count = len(of_a) + len(of_b)
        # Ranks around 0, and of a stratum's size: in large ones they are not to count for more.
        ranks = (_ranks(of_a + of_b) - (count + 1) / 2) / (count + 1)
        seen += ranks[len(of_a) :].sum()
        drawn += _dealt(ranks, len(of_b), random)
    extreme = int((abs(drawn) >= abs(seen) - 1e-9).sum())
    return (1 + extreme) / (1 + _DRAWS), int(np.sign(round(seen, 9)))


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the rank of each value, from 1; equal ones share the middle of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middles: npt.NDArray[np.float64] = np.cumsum(count) - (count - 1) / 2
    return middles[place]


def _dealt(
    ranks: npt.NDArray[np.float64], count: int, random: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return the sums of so many ranks, dealt by chance, of each deal."""
    at_once = max(1, _MOST_AT_ONCE // len(ranks))
    sums = [
        random.permuted(np.tile(ranks, (min(at_once, _DRAWS - done), 1)), axis=1)[:, :count].sum(1)
        for done in range(0, _DRAWS, at_once)
    ]
    return np.concatenate(sums)
