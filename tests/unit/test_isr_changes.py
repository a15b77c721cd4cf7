import pytest

from verifiers.replicas.isr_changes import isr_changes_in

OLDEST = (
    "[2026-11-21 14:31:26,804] INFO Partition [two-words-a,0] on broker 1: Shrinking ISR for "
    "partition [two-words-a,0] from 1,2,3 to 1,2 (kafka.cluster.Partition)"
)
OLD = (
    "[2026-11-21 14:31:26,804] INFO Partition [two-words-a,0] on broker 1: Shrinking ISR from "
    "1,2,3 to 1,2 (kafka.cluster.Partition)"
)
NEW = (
    "[2026-11-21 14:31:26,804] INFO [Partition two-words-a-0 broker=1] Shrinking ISR from 1,2,3 "
    "to 1,2 (kafka.cluster.Partition)"
)
NEWEST = (
    "[2026-11-21 14:29:27,641] INFO [Partition two-words-a-1 broker=1] Shrinking ISR from 3,2,1 "
    "to 1,2. Leader: (highWatermark: 10, endOffset: 11). Out of sync replicas: (brokerId: 3, "
    "endOffset: 10, lastCaughtUpTimeMs: 1795271362223). (kafka.cluster.Partition)"
)


@pytest.mark.parametrize("line", [OLDEST, OLD, NEW])
def test_a_shrink_is_read_in_the_words_of_every_generation(line: str) -> None:
    (seen,) = isr_changes_in(line)

    assert (seen.topic, seen.partition, seen.left) == ("two-words-a", 0, frozenset({3}))
    assert seen.at_ms % 1000 == 804
    assert not seen.caught_up_ms


def test_the_newest_tell_how_long_the_follower_was_behind() -> None:
    (seen,) = isr_changes_in(NEWEST)

    assert seen.left == {3}
    assert seen.at_ms - seen.caught_up_ms[3] == 5418


def test_an_expansion_is_read_as_one() -> None:
    line = NEW.replace("Shrinking", "Expanding").replace("1,2,3 to 1,2", "1,2 to 1,2,3")

    (seen,) = isr_changes_in(f"something else\n{line}\n")

    assert (seen.after - seen.before, seen.left) == (frozenset({3}), frozenset())
