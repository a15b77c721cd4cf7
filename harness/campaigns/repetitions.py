"""Runs that found something are made again at once: how often it comes again tells what it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.campaigns.campaign import Cell, key_of
from harness.campaigns.scenario_result import ScenarioResult

REPEATS = 3
AGAIN = "again"
"""What the settings of a repetition have more than those of the run that it repeats: its number."""


def with_repetitions(
    cells: Iterator[Cell[ScenarioResult]],
    *,
    results: Callable[[], Sequence[ScenarioResult]],
    is_wanted: Callable[[ScenarioResult], bool],
) -> Iterator[Cell[ScenarioResult]]:
    """Yield cells, and as soon as a run has found something that run again a few times.

    Args:
        cells: what is run; those that have no `again` are not repeated.
        results: returns those that there are by now.
        is_wanted: whether what a run found is worth it.
    """
    waiting: list[Cell[ScenarioResult]] = []
    for cell in cells:
        yield cell
        waiting.append(cell)
        judged = {key_of(result.settings): result for result in results()}
        for made in tuple(waiting):
            result = judged.get(made.key)
            if result is None:
                continue
            waiting.remove(made)
            if made.again is not None and is_wanted(result):
                yield from map(made.again, range(1, REPEATS + 1))


def numbered(settings: Mapping[str, Any], again: int | None) -> dict[str, Any]:
    """Return the settings of a run, or of its repetition of that number."""
    return {**settings} if again is None else {**settings, AGAIN: again}


def topic_of(number: int, again: int | None) -> str:
    """Return the name of the topic of a run, or of its repetition: runs share clusters."""
    return f"run-{number}" if again is None else f"run-{number}-again-{again}"


def firsts(results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """Return the runs that repeat no other."""
    return [result for result in results if AGAIN not in result.settings]


def repetitions(run: ScenarioResult, results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """Return the runs that repeat a run."""
    own = key_of(run.settings)
    return [
        result
        for result in results
        if AGAIN in result.settings
        and key_of({k: v for k, v in result.settings.items() if k != AGAIN}) == own
    ]
