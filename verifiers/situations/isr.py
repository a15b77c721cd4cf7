"""Situations of the in-sync replicas and of the logs that they keep."""

from collections.abc import Callable, Iterator
from itertools import pairwise

from verifiers.run_folder.folder import partition_name
from verifiers.situations.events import RunEvents, after_silence
from verifiers.situations.situation import Occurrence, situation
from verifiers.timeline.partition_states import PartitionState


def _entered(events: RunEvents, holds: Callable[[PartitionState], bool]) -> Iterator[Occurrence]:
    """Yield each time that the state of a partition begins to be such."""
    for partition, states in events.states():
        for number, state in enumerate(states):
            if holds(state) and (number == 0 or not holds(states[number - 1])):
                yield Occurrence(at_ns=state.from_ns, where=partition_name(partition))


@situation("isr-at-minimum")
def isr_at_minimum(events: RunEvents) -> Iterator[Occurrence]:
    """An ISR shrinks to exactly min.insync.replicas, and one more loss stops the writes."""
    contract = events.run.contract
    if contract.min_isr < contract.replication_factor:
        yield from _entered(events, lambda state: len(state.isr) == contract.min_isr)


@situation("isr-below-minimum")
def isr_below_minimum(events: RunEvents) -> Iterator[Occurrence]:
    """An ISR is smaller than min.insync.replicas, and a leader refuses writes because of it.

    Recognised by the refusals that brokers log, or that producers are answered.
    """
    if events.broker_lines["refused"] or events.sends.refused:
        yield from _entered(events, lambda state: len(state.isr) < events.run.contract.min_isr)


@situation("isr-of-one")
def isr_of_one(events: RunEvents) -> Iterator[Occurrence]:
    """A replicated partition has one in-sync replica left."""
    if events.run.contract.replication_factor > 1:
        yield from _entered(events, lambda state: len(state.isr) == 1)


@situation("last-isr-member-lost")
def last_isr_member_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The last in-sync replica goes, and the partition has no leader."""
    for partition, states in events.states():
        for before, after in pairwise(states):
            if before.leader is not None and after.leader is None:
                yield Occurrence(at_ns=after.from_ns, where=partition_name(partition))


@situation("log-truncated")
def log_truncated(events: RunEvents) -> Iterator[Occurrence]:
    """A replica cuts records off its log, to follow its leader or after a power loss."""
    for at_ns, cut in events.cuts:
        yield Occurrence(
            at_ns=at_ns, where=f"{cut.topic}-{cut.partition} on broker {cut.who} to {cut.to}"
        )


@situation("unclean-shutdown-recovered")
def unclean_shutdown_recovered(events: RunEvents) -> Iterator[Occurrence]:
    """A broker starts after a shutdown that was not clean, and recovers its logs."""
    # A broker writes a line for each of its logs.
    for at_ns, broker in after_silence(events.broker_lines["recovered"], _RECOVERY_NS):
        yield Occurrence(at_ns=at_ns, where=f"broker {broker}")


@situation("fault-during-recovery")
def fault_during_recovery(events: RunEvents) -> Iterator[Occurrence]:
    """A fault begins while some ISR is not full yet again after a fault that was healed."""
    copies = events.run.contract.replication_factor
    for fault in events.faults:
        healed = [other for other in events.faults if other.end_ns <= fault.decided_ns]
        if healed and any(
            len(state.isr) < copies and state.from_ns <= fault.decided_ns <= state.to_ns
            for _, states in events.states()
            for state in states
        ):
            yield Occurrence(at_ns=fault.decided_ns, where=f"fault {fault.id}")


_RECOVERY_NS = 3_000_000_000
