"""Situations in which a partition loses its leader."""

from collections.abc import Iterator
from itertools import pairwise

from verifiers.replicas.cuts import Cut
from verifiers.run_folder.folder import partition_name
from verifiers.situations.events import LeaderChange, RunEvents
from verifiers.situations.situation import Occurrence, situation

_BACK_S = 10


def _lost(events: RunEvents, by: str) -> Iterator[Occurrence]:
    for change in events.losses:
        cause = events.cause_of(change)
        if cause is None or cause.traits.ends_lead_by != by:
            continue
        if events.sends.in_flight.get((change.partition, change.after_ns)):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("leader-lost-by-crash")
def leader_lost_by_crash(events: RunEvents) -> Iterator[Occurrence]:
    """A leader crashes while sends to its partition have no outcome yet."""
    yield from _lost(events, "crash")


@situation("leader-lost-by-session-end")
def leader_lost_by_session_end(events: RunEvents) -> Iterator[Occurrence]:
    """A leader's session expires while it lives, and sends to its partition have no outcome yet."""
    yield from _lost(events, "session end")


@situation("leader-lost-by-shutdown")
def leader_lost_by_shutdown(events: RunEvents) -> Iterator[Occurrence]:
    """A leader shuts down in order while sends to its partition have no outcome yet."""
    yield from _lost(events, "shutdown")


@situation("leader-lost-by-power-loss")
def leader_lost_by_power_loss(events: RunEvents) -> Iterator[Occurrence]:
    """A leader loses power while sends to its partition have no outcome yet."""
    yield from _lost(events, "power loss")


@situation("leader-change-while-follower-lags")
def leader_change_while_follower_lags(events: RunEvents) -> Iterator[Occurrence]:
    """The leader changes while a follower other than the next leader is not in the ISR."""
    for change in events.losses:
        before = change.before
        if set(before.replicas) - set(before.isr) - {before.leader}:
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("two-leader-changes-before-catch-up")
def two_leader_changes_before_catch_up(events: RunEvents) -> Iterator[Occurrence]:
    """The leader changes twice before some follower has been in the ISR again."""
    for partition, states in events.states():
        changes = 0
        for before, after in pairwise(states):
            missing = set(after.replicas) - set(after.isr)
            if not missing:
                changes = 0
            elif after.leader != before.leader and after.leader is not None:
                changes += 1
                if changes == 2:
                    yield Occurrence(at_ns=after.from_ns, where=partition_name(partition))
                    changes = 1


@situation("follower-back-when-leader-goes")
def follower_back_when_leader_goes(events: RunEvents) -> Iterator[Occurrence]:
    """A leader goes within 10 s after one of its followers has come back from a restart."""
    restarts = [fault for fault in events.faults if fault.traits.ends_lead_by != "session end"]
    for change in events.losses:
        followers = set(change.before.replicas) - {change.before.leader}
        if any(
            fault.victims & followers and 0 <= change.after_ns - fault.end_ns <= _BACK_S * 1e9
            for fault in restarts
        ):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("idle-leader-lost")
def idle_leader_lost(events: RunEvents) -> Iterator[Occurrence]:
    """A partition loses its leader while nothing is being sent to it."""
    for change in events.losses:
        if not events.sends.in_flight.get((change.partition, change.after_ns)):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("preferred-leader-elected-back")
def preferred_leader_elected_back(events: RunEvents) -> Iterator[Occurrence]:
    """The preferred leader is elected in place of a leader that no fault has hit."""
    for change in events.tested_leader_changes:
        if (
            change.after.replicas[:1] == (change.after.leader,)
            and events.fault_on(change.before.leader, change.after_ns) is None
            and change.before.leader in change.after.isr
        ):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("unclean-election")
def unclean_election(events: RunEvents) -> Iterator[Occurrence]:
    """A replica becomes leader that was neither in the ISR nor an eligible leader (KIP-966).

    With eligible leader replicas Kafka does so of itself: once all of them, and the whole ISR, have
    ended uncleanly, the last known leader leads.
    """
    for change in events.unclean_elections:
        if change.partition[0] in events.tested:
            yield Occurrence(at_ns=change.at_ns, where=change.where)


def _cut_afterwards(events: RunEvents, change: LeaderChange) -> list[Cut]:
    """Return the cuts of the old leader's log since it lost the lead."""
    return [
        cut
        for at_ns, cut in events.cuts
        if (cut.broker, cut.topic, cut.partition) == (change.before.leader, *change.partition)
        and at_ns >= change.after_ns
    ]


@situation("epoch-bumped-over-unreplicated-records")
def epoch_bumped_over_unreplicated_records(events: RunEvents) -> Iterator[Occurrence]:
    """A new leader epoch begins while the old leader has records that no other replica has.

    Recognised by the old leader: it cuts its log when it follows the new one.
    """
    for change in events.losses:
        if not all(cut.cause for cut in _cut_afterwards(events, change)):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("deposed-leader-writes")
def deposed_leader_writes(events: RunEvents) -> Iterator[Occurrence]:
    """A leader that lives and was deposed has appended records that it must cut afterwards."""
    for change in events.losses:
        cause = events.cause_of(change)
        if cause is None or cause.traits.ends_lead_by != "session end":
            continue
        if _cut_afterwards(events, change):
            yield Occurrence(at_ns=change.at_ns, where=change.where)
