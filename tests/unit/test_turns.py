"""Turns: which combination of settings is next, by weights, parts and what was run before."""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations, product

import pytest

from harness.campaigns.turns import Turns

VALUES = {"kafka": ("old", "new"), "acks": ("1", "all"), "faults": ("kill", "pause", "cut")}
EACH = [dict(zip(VALUES, chosen, strict=True)) for chosen in product(*VALUES.values())]


def taken(
    count: int,
    *,
    weights: Mapping[str, float] | None = None,
    run: Mapping[int, float] | None = None,
) -> list[dict[str, str]]:
    """Return the first combinations; weights are those of versions."""
    turns = Turns([(each, (weights or {}).get(each["kafka"], 1)) for each in EACH], run or {})
    chosen = []
    for _ in range(count):
        number = turns.next_of(range(len(EACH)))
        turns.take(number)
        chosen.append(EACH[number])
    return chosen


def test_each_is_run_once_before_any_is_run_again() -> None:
    assert sorted(map(str, taken(len(EACH)))) == sorted(map(str, EACH))


def test_each_two_settings_come_together_before_half_of_all_combinations_were_run() -> None:
    met = {pair for each in taken(len(EACH) // 2) for pair in combinations(each.items(), 2)}

    assert met == {pair for each in EACH for pair in combinations(each.items(), 2)}


def test_in_the_long_run_weights_decide() -> None:
    runs = Counter(each["kafka"] for each in taken(400, weights={"new": 3}))

    assert runs["new"] == pytest.approx(300, abs=8)


def test_what_has_less_weight_has_its_turns_from_the_beginning() -> None:
    runs = Counter(each["kafka"] for each in taken(8, weights={"new": 9}))

    assert 1 <= runs["old"] <= 2


def test_what_was_run_before_waits_and_so_does_what_is_like_it() -> None:
    first, *_ = taken(1, run={0: 1})

    assert all(first[name] != EACH[0][name] for name in VALUES)


def test_only_those_that_are_asked_about_are_chosen() -> None:
    assert Turns([(each, 1) for each in EACH], {}).next_of([5, 4]) == 5
