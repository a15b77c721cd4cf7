"""Situations of controllers, of the metadata quorum, and of brokers' registrations."""

from collections.abc import Iterator
from itertools import pairwise

from verifiers.situations.events import NodeEvent, RunEvents
from verifiers.situations.situation import Occurrence, situation

_TOGETHER_NS = 5_000_000_000
_AFTERMATH_S = 10.0


def _lost_controllers(events: RunEvents) -> Iterator[tuple[NodeEvent, NodeEvent]]:
    for old, new in pairwise(events.elected_controllers):
        if new.node_id != old.node_id and new.at_ns >= events.origin_ns:
            yield old, new


@situation("controller-lost")
def controller_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The active controller is replaced by another one.

    Recognised by the elections in the log of the metadata quorum; under ZooKeeper they are not
    recorded.
    """
    for old, new in _lost_controllers(events):
        yield Occurrence(at_ns=new.at_ns, where=f"node {old.node_id}")


@situation("controller-and-leader-lost")
def controller_and_leader_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The active controller and a partition's leader are lost within 5 s of each other."""
    for old, new in _lost_controllers(events):
        if any(abs(change.at_ns - new.at_ns) <= _TOGETHER_NS for change in events.losses):
            yield Occurrence(at_ns=new.at_ns, where=f"node {old.node_id}")


@situation("quorum-without-majority")
def quorum_without_majority(events: RunEvents) -> Iterator[Occurrence]:
    """Faults hit so many controllers at once that the metadata quorum has no majority."""
    voters = events.controllers
    if not voters:
        return
    for fault in events.faults:
        hit = {
            victim
            for other in events.faults
            if other.decided_ns <= fault.decided_ns < other.end_ns
            for victim in other.victims
        }
        if fault.victims & voters and 2 * len(voters - hit) <= len(voters):
            yield Occurrence(at_ns=fault.decided_ns)


@situation("broker-fenced-and-back")
def broker_fenced_and_back(events: RunEvents) -> Iterator[Occurrence]:
    """A broker is fenced by the controller and comes back."""
    fenced: set[int] = set()
    for event in events.registrations:
        if event.at_ns < events.origin_ns:
            continue
        if event.state == "fenced":
            fenced.add(event.node_id)
        elif event.state == "unfenced" and event.node_id in fenced:
            fenced.discard(event.node_id)
            yield Occurrence(at_ns=event.at_ns, where=f"broker {event.node_id}")
