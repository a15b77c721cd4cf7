"""Events: what has happened between two looks at a cluster, and what has not."""

from typing import Any

import pytest

from faults.events import (
    BrokerAnswers,
    CaughtUp,
    CommitsRest,
    CommitsResume,
    ControllerElected,
    CoordinatorElected,
    GroupRebalances,
    Healed,
    IsrGrew,
    IsrShrank,
    LeaderElected,
    TransactionCoordinatorElected,
    TransactionPrepared,
)
from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.core.errors import UsageError
from harness.core.event import EVENTS, Event, topics_of
from harness.core.view import CommittedEnd, PartitionState, View

PLACE = ("orders", 0)


def partition(leader: int | None, *isr: int, epoch: int | None = None) -> View:
    state = PartitionState(leader=leader, isr=isr, replicas=(1, 2, 3), leader_epoch=epoch)
    return View(partitions={PLACE: state})


def coordinating(
    topic: str, partitions: int, *, epoch: int | None = None, **leaders: int | None
) -> View:
    """An internal topic that broker 1 leads, but for some partitions: p5=2."""
    return View(
        partitions={
            (topic, number): PartitionState(
                leader=leaders.get(f"p{number}", 1), isr=(1,), replicas=(1,), leader_epoch=epoch
            )
            for number in range(partitions)
        }
    )


def of_groups(partitions: int, *, epoch: int | None = None, **leaders: int | None) -> View:
    return coordinating(OFFSETS_TOPIC, partitions, epoch=epoch, **leaders)


def of_transactions(partitions: int, **leaders: int | None) -> View:
    return coordinating(TRANSACTIONS_TOPIC, partitions, **leaders)


def committed(offset: int, rested_s: float) -> View:
    return View(committed={PLACE: CommittedEnd(offset=offset, rested_s=rested_s)})


def group(state: str) -> View:
    return View(group_states={"g": state})


FULL = partition(1, 1, 2, 3)
# Java's hash lays both names into partition 5 of 6, and into partition 17 of 50.
GROUP, ID = CoordinatorElected("orders-group"), TransactionCoordinatorElected("orders-group")

CASES: list[tuple[Event, View, View, bool]] = [
    (LeaderElected("orders"), FULL, partition(2, 2, 3), True),
    (LeaderElected("orders"), FULL, partition(None, 2, 3), False),
    (LeaderElected("orders"), partition(None), FULL, True),
    (LeaderElected("orders"), FULL, partition(1, 1), False),
    # Elected again, and we looked too late to see it gone.
    (LeaderElected("orders"), partition(1, 1, epoch=4), partition(1, 1, epoch=5), True),
    (LeaderElected("orders", 1), FULL, partition(2, 2, 3), False),
    (LeaderElected("orders"), View(), FULL, False),
    (ControllerElected(), View(controller=1), View(controller=2), True),
    (ControllerElected(), View(controller=1), View(controller=None), False),
    (GROUP, of_groups(6), of_groups(6, p5=2), True),
    (GROUP, of_groups(6), of_groups(6, p4=2), False),
    (GROUP, of_groups(50), of_groups(50, p17=2), True),
    (GROUP, of_groups(50), of_groups(50, p5=2), False),
    (GROUP, of_groups(6), of_groups(6, p5=None), False),
    (GROUP, of_groups(6, p5=None), of_groups(6), True),
    (GROUP, of_groups(6, epoch=4), of_groups(6, epoch=5), True),
    (GROUP, of_transactions(6), of_transactions(6, p5=2), False),
    (GROUP, View(), of_groups(6), False),
    (GROUP, View(), View(), False),
    (CoordinatorElected(), of_groups(6), of_groups(6, p5=2), False),
    (ID, of_transactions(6), of_transactions(6, p5=2), True),
    (ID, of_transactions(6), of_transactions(6, p4=2), False),
    (ID, of_groups(6), of_groups(6, p5=2), False),
    (IsrShrank("orders"), FULL, partition(1, 1, 2), True),
    (IsrShrank("orders"), partition(1, 1, 2), FULL, False),
    (IsrShrank("orders"), View(), partition(1, 1), False),
    (IsrShrank("orders", replicas=1), FULL, partition(1, 1, 2), False),
    (IsrShrank("orders", replicas=1), partition(1, 1, 2), partition(1, 1), True),
    (IsrGrew("orders"), partition(1, 1), partition(1, 1, 2), True),
    (IsrGrew("orders"), FULL, partition(1, 1), False),
    (CaughtUp("orders"), partition(1, 1, 2), FULL, True),
    (CaughtUp("orders"), partition(1, 1), partition(1, 1, 2), False),
    (CaughtUp("orders"), FULL, FULL, False),
    (BrokerAnswers(), View(answering=frozenset({1})), View(answering=frozenset({1, 2})), True),
    (BrokerAnswers(), View(answering=frozenset({1, 2})), View(answering=frozenset({1})), False),
    (Healed(), View(healed=1), View(healed=2), True),
    (Healed(), View(healed=2), View(healed=2), False),
    (CommitsRest("orders", for_s=2), committed(5, 1.0), committed(5, 2.1), True),
    (CommitsRest("orders", for_s=2), committed(5, 1.0), committed(5, 1.9), False),
    (CommitsResume("orders", idle_s=3), committed(5, 3.1), committed(6, 0.0), True),
    (CommitsResume("orders", idle_s=3), committed(5, 1.0), committed(6, 0.0), False),
    (CommitsResume("orders", idle_s=3), committed(5, 3.1), committed(5, 3.3), False),
    (GroupRebalances("g"), group("STABLE"), group("PREPARING_REBALANCING"), True),
    (GroupRebalances("g"), group("PREPARING_REBALANCING"), group("COMPLETING_REBALANCING"), False),
    (GroupRebalances("g"), group("COMPLETING_REBALANCING"), group("STABLE"), False),
    (GroupRebalances(), group("STABLE"), group("PREPARING_REBALANCING"), False),
    (TransactionPrepared(), View(prepared=3), View(prepared=4), True),
    (TransactionPrepared(), View(prepared=3), View(prepared=3), False),
]  # fmt: skip


@pytest.mark.parametrize(("event", "before", "after", "happens"), CASES)
def test_an_event_is_seen_between_two_looks(
    event: Event, before: View, after: View, happens: bool
) -> None:
    assert event.happens(before, after) is happens


def test_every_event_has_its_cases() -> None:
    seen = {(type(event), happens) for event, *_, happens in CASES}

    assert seen == {(kind, happens) for kind in EVENTS.values() for happens in (True, False)}


@pytest.mark.parametrize("make", [CommitsRest, CommitsResume])
def test_an_event_that_needs_a_time_refuses_none(make: Any) -> None:
    with pytest.raises(UsageError, match="more than 0 s"):
        make("orders", 0, 0)


def test_an_event_says_whose_partitions_it_looks_at() -> None:
    assert topics_of(LeaderElected("orders")) == {"orders"}
    assert topics_of(GROUP) == {OFFSETS_TOPIC}
    assert topics_of(ID) == topics_of(TransactionPrepared()) == {TRANSACTIONS_TOPIC}
    assert topics_of(Healed()) == frozenset()
