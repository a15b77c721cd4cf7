from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.history.pending import UnderWay


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 2**32)), max_size=12))
def test_it_holds_exactly_what_was_added_and_not_removed(steps: list[tuple[int, int]]) -> None:
    under_way, expected, following = UnderWay(1000), dict[int, int](), 1000
    for time_ns, (count, seed) in enumerate(steps, start=1):
        values = range(following, following + count)
        following += count
        under_way.add(values, time_ns)
        expected |= dict.fromkeys(values, time_ns)
        done = Random(seed).sample(sorted(expected), len(expected) * 2 // 3)

        times = under_way.remove(np.array(done, dtype=np.int64))

        assert times.tolist() == [expected.pop(value) for value in done]
        assert len(under_way) == len(expected)
        left, invoked = under_way.since(0)
        assert dict(zip(left.tolist(), invoked.tolist(), strict=True)) == expected


def test_what_was_withdrawn_can_be_added_anew() -> None:
    under_way = UnderWay(0)
    under_way.add(range(4), 10)

    under_way.withdraw(range(2, 4))
    under_way.add(range(2, 6), 20)

    values, times = under_way.since(1)
    assert values.tolist() == [1, 2, 3, 4, 5]
    assert times.tolist() == [10, 20, 20, 20, 20]


@pytest.mark.parametrize("value", [-1, 4, 100_000])
def test_what_is_not_under_way_cannot_be_completed(value: int) -> None:
    under_way = UnderWay(0)
    under_way.add(range(4), 10)

    with pytest.raises(KeyError, match="not under way"):
        under_way.remove(np.array([value], dtype=np.int64))
