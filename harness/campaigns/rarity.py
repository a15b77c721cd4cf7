"""What runs led to situations that few others reached: it is to come more often."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def promises(
    dealt: Mapping[int, Collection[K]], reached: Mapping[int, Collection[str]]
) -> dict[K, float]:
    """Return how rare the situations were that runs with each kind reached; 1.0 is the mean.

    Args:
        dealt: of each run, by its number, the kinds: whatever runs have in common.
        reached: the situations that each of them reached.
    """
    times = Counter(name for names in reached.values() for name in names)
    if not times:
        return {}
    mean = len(times) / len(reached)
    rarity = {number: sum(1 / times[s] for s in names) / mean for number, names in reached.items()}
    found: dict[K, list[float]] = {}
    for number, kinds in dealt.items():
        for kind in kinds:
            found.setdefault(kind, []).append(rarity[number])
    # One run more, of the mean, keeps a kind that was seen once from counting for much.
    return {kind: (sum(of) + 1) / (len(of) + 1) for kind, of in found.items()}
