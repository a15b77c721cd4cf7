"""Situations of controllers, of the metadata quorum, and of brokers' registrations."""

from collections.abc import Iterator
from itertools import pairwise

from verifiers.situations.events import RunEvents
from verifiers.situations.situation import Occurrence, situation

_TOGETHER_NS = 5_000_000_000


def _lost_controllers(events: RunEvents) -> Iterator[Occurrence]:
    for (_, old), (at_ns, new) in pairwise(events.elected_controllers):
        if new.node_id != old.node_id and at_ns >= events.run.origin_ns:
            yield Occurrence(at_ns=at_ns, where=f"node {old.node_id}")


@situation("controller-lost")
def controller_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The active controller is replaced by another one.

    Recognised by the elections in the log of the metadata quorum; under ZooKeeper they are not
    recorded.
    """
    yield from _lost_controllers(events)


@situation("controller-and-leader-lost")
def controller_and_leader_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The active controller and a partition's leader are lost within 5 s of each other."""
    for lost in _lost_controllers(events):
        if any(abs(change.at_ns - lost.at_ns) <= _TOGETHER_NS for change in events.losses):
            yield lost


@situation("quorum-without-majority")
def quorum_without_majority(events: RunEvents) -> Iterator[Occurrence]:
    """Faults hit so many controllers at once that the metadata quorum has no majority."""
    voters = events.controllers
    if not voters:
        return
    for fault in events.faults:
        at_ns = fault.decided_ns
        others = (f.victims for f in events.faults if f.decided_ns <= at_ns < f.end_ns)
        hit = frozenset[int]().union(*others)
        if fault.victims & voters and 2 * len(voters - hit) <= len(voters):
            yield Occurrence(at_ns=at_ns)


@situation("broker-fenced-and-back")
def broker_fenced_and_back(events: RunEvents) -> Iterator[Occurrence]:
    """A broker is fenced by the controller and comes back."""
    fenced: set[int] = set()
    for at_ns, registration in events.registrations:
        if at_ns < events.run.origin_ns:
            continue
        broker = registration.node_id
        if registration.state == "fenced":
            fenced.add(broker)
        elif registration.state == "unfenced" and broker in fenced:
            fenced.discard(broker)
            yield Occurrence(at_ns=at_ns, where=f"broker {broker}")
