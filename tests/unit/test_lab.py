"""What a script can ask, and how often it is asked."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.cluster import Broker
from harness.lab.lab import Lab

OLD, NEW = Broker(1, "one"), Broker(2, "two")


@pytest.mark.parametrize(
    "wait",
    [
        lambda lab: lab.await_follower(OLD, of=NEW),
        lambda lab: lab.await_end_of_lead(OLD, known_by=[NEW]),
    ],
    ids=["await_follower", "await_end_of_lead"],
)
def test_a_broker_is_asked_alone_at_most_twice_a_second(
    instant_time: list[float], wait: Callable[[Lab], float]
) -> None:
    asked_s: list[float] = []

    def leader_known_by(broker: Broker, topic: str, partition: int) -> Broker:
        asked_s.append(instant_time[0])
        return NEW if len(asked_s) > 10 else OLD

    lab = Lab.__new__(Lab)
    cluster: Any = SimpleNamespace(leader_known_by=leader_known_by, leader_of=lambda *_: NEW)
    context = SimpleNamespace(cluster=cluster, topics=("orders",), stop=threading.Event())
    lab._context = cast("Any", context)
    notes: list[dict[str, Any]] = []
    lab._notes = cast("Any", SimpleNamespace(append=notes.append))
    begun_ns = time.monotonic_ns()

    wait(lab)

    assert len(asked_s) == 11
    assert min(later - earlier for earlier, later in pairwise(asked_s)) >= 0.5
    assert [(note["event"], note["begun_ns"], note["met"]) for note in notes] == [
        ("wait", begun_ns, True),
    ]  # fmt: skip
