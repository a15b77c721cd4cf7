"""Effects: what Kafka and its clients showed of each fault."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from verifiers.run_folder.journal import FaultSpan
from verifiers.situations.events import RunEvents

Felt = Literal["felt", "unfelt", "unproven"]

AFTERMATH_S = 10.0
"""How long after its healing an effect is still put down to a fault, seconds."""
SLOW_FACTOR = 5
"""How many times longer than in the quiet phase sends must take to count as slow."""
SLOW_S = 0.5
"""How long sends must take at the least to count as slow, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What became of one fault.

    Attributes:
        felt: "felt" if the fault is proven and Kafka or its clients showed a sign of it; "unfelt"
            if it is proven and nothing did; "unproven" if its witnesses did not see it.
        signs: what they showed, in sentences, at most one of a kind.
    """

    felt: Felt
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long acknowledged sends took in one stretch of a run.

    Attributes:
        at_ns: when the stretch began, on our monotonic clock.
        p99_s: the 99th percentile of those acknowledged in it, seconds.
    """

    at_ns: int
    p99_s: float


def effects(
    events: RunEvents, latencies: Sequence[Latency], proven: Mapping[str, bool]
) -> dict[str, Effect]:
    """Return the effect of every fault, by its id.

    Args:
        events: of the run.
        latencies: of the whole run, in order.
        proven: whether witnesses saw a fault come and go, by its id.
    """
    found = {
        fault_id: Effect(felt="unproven") for fault_id, is_proven in proven.items() if not is_proven
    }
    for number, fault in enumerate(events.faults):
        if not proven.get(fault.id):
            continue
        later = [other.decided_ns for other in events.faults[number + 1 :]]
        until_ns = fault.end_ns + round(AFTERMATH_S * 1e9)
        # What follows the next fault is put down to that one.
        until_ns = min([until_ns, *(at_ns for at_ns in later if at_ns > fault.end_ns)])
        signs = tuple(_signs(events, replace(fault, end_ns=until_ns), latencies))
        found[fault.id] = Effect(felt="felt" if signs else "unfelt", signs=signs)
    # A proven fault without victims does not exist; one that nobody recorded was not felt.
    return {fault_id: found.get(fault_id, Effect(felt="unfelt")) for fault_id in proven}


def _signs(events: RunEvents, fault: FaultSpan, latencies: Sequence[Latency]) -> Iterator[str]:
    """Yield the signs of a fault, whose span here ends with the last effect put down to it."""
    yield from _of_partitions(events, fault)
    for (_, old), (at_ns, new) in pairwise(events.elected_controllers):
        if old.node_id in fault.victims and new.node_id != old.node_id and fault.covers(at_ns):
            yield f"node {new.node_id} became the controller {_after(fault, at_ns)}"
            break
    for at_ns, event in events.registrations:
        if event.node_id in fault.victims and fault.covers(at_ns):
            yield f"broker {event.node_id} was {event.state} {_after(fault, at_ns)}"
            break
    for at_ns, cut in events.cuts:
        if cut.broker in fault.victims and fault.covers(at_ns):
            place = f"{cut.topic}-{cut.partition} to offset {cut.to}"
            yield f"broker {cut.broker} cut {place} {_after(fault, at_ns)}"
            break
    yield from _of_clients(events, fault, latencies)


def _of_partitions(events: RunEvents, fault: FaultSpan) -> Iterator[str]:
    topics = events.tested | {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
    shrunk = []
    for (topic, number), states in events.states(of=topics):
        for before, after in pairwise(states):
            if not fault.covers(after.from_ns):
                continue
            left = fault.victims & set(before.isr) - set(after.isr)
            if left:
                shrunk.append((after.from_ns, f"{topic}-{number}", min(left)))
    led = [
        (change.at_ns, change.where, change.before.leader)
        for change in events.leader_changes
        if change.before.leader in fault.victims and fault.covers(change.at_ns)
    ]
    if led:
        at_ns, partition, broker = min(led)
        yield f"broker {broker} lost the lead of {_and_more(partition, led)} {_after(fault, at_ns)}"
    if shrunk:
        at_ns, partition, broker = min(shrunk)
        partitions = _and_more(partition, shrunk)
        yield f"broker {broker} left the ISR of {partitions} {_after(fault, at_ns)}"


def _of_clients(events: RunEvents, fault: FaultSpan, latencies: Sequence[Latency]) -> Iterator[str]:
    failed = [send for send in events.sends.failed if fault.covers(send["complete_ns"])]
    errors = [send["error"] for send in failed if send["error"]]
    if errors:
        yield f"{len(errors)} sends ended in {errors[0]}"
    first_ns = min(other.decided_ns for other in events.faults)
    quiet = [one.p99_s for one in latencies if events.run.origin_ns < one.at_ns < first_ns]
    during = [one.p99_s for one in latencies if fault.covers(one.at_ns)]
    if quiet and during:
        # The median of the quiet phase: its first sends wait for metadata and connections.
        usual_s = sorted(quiet)[len(quiet) // 2]
        if max(during) > max(SLOW_S, SLOW_FACTOR * usual_s):
            yield f"sends took up to {max(during):.1f} s, {usual_s:.3f} s in the quiet phase"
    for event in events.lost_partitions:
        if fault.covers(event["time_ns"]):
            yield f"consumer {event['process']} was cut off past its session"
            break


def _and_more(partition: str, entries: Sequence[object]) -> str:
    return partition if len(entries) == 1 else f"{partition} and {len(entries) - 1} more"


def _after(fault: FaultSpan, at_ns: int) -> str:
    return f"after {max(0, at_ns - fault.decided_ns) / 1e9:.1f} s"
