"""Events: what has happened between two looks at a cluster, and what has not."""

from typing import Any

import pytest

from faults.events import (
    BrokerAnswers,
    CaughtUp,
    CommitsRest,
    CommitsResume,
    ControllerElected,
    GroupRebalances,
    Healed,
    IsrGrew,
    IsrShrank,
    LeaderElected,
    TransactionPrepared,
)
from harness.core.errors import UsageError
from harness.core.event import EVENTS, Event
from harness.core.view import CommittedEnd, PartitionState, View

PLACE = ("orders", 0)


def partition(leader: int | None, *isr: int, epoch: int | None = None) -> View:
    state = PartitionState(leader=leader, isr=isr, replicas=(1, 2, 3), leader_epoch=epoch)
    return View(partitions={PLACE: state})


def committed(offset: int, rested_s: float) -> View:
    return View(committed={PLACE: CommittedEnd(offset=offset, rested_s=rested_s)})


def group(state: str) -> View:
    return View(group_states={"g": state})


FULL = partition(1, 1, 2, 3)

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
    (IsrShrank("orders"), FULL, partition(1, 1, 2), True),
    (IsrShrank("orders"), partition(1, 1, 2), FULL, False),
    (IsrShrank("orders"), View(), partition(1, 1), False),
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
