"""Whose turn it is among combinations of settings, each with its weight."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations as chosen_of

_Part = tuple[tuple[str, str], ...]


class Turns:
    """Whose turn it is: that combination of which all parts together were run least.

    Its parts are each of its settings, each two of them, and the whole of it: so no version, and
    no two settings together, wait until all combinations of those with more weight were run.
    """

    def __init__(
        self,
        combinations: Sequence[tuple[Mapping[str, str], float]],
        run: Mapping[int, float],
    ) -> None:
        """Begin after so many runs of each combination, by its number.

        Args:
            combinations: the value of each setting, as a word, and the weight.
            run: those of which there were any.
        """
        self._parts = [_parts(settings) for settings, _ in combinations]
        self._weights: dict[_Part, float] = defaultdict(float)
        self._run: dict[_Part, float] = defaultdict(float)
        for number, (_, weight) in enumerate(combinations):
            for part in self._parts[number]:
                self._weights[part] += weight
            self.take(number, run.get(number, 0))

    def take(self, number: int, times: float = 1) -> None:
        """Count a combination as run."""
        for part in self._parts[number]:
            self._run[part] += times

    def next_of(self, numbers: Sequence[int]) -> int:
        """Return which of some combinations is next; of those that are alike, the first."""
        return min(numbers, key=self._rounds)

    def _rounds(self, number: int) -> float:
        # The sums of floats depend on their order; two that are equal have to be.
        return round(sum(self._run[p] / self._weights[p] for p in self._parts[number]), 9)


def _parts(settings: Mapping[str, str]) -> list[_Part]:
    of = list(settings.items())
    return [*((one,) for one in of), *chosen_of(of, 2), tuple(of)]
