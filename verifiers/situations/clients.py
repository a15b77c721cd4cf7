"""Situations of producers, consumers, groups and transactions."""

from collections.abc import Iterator

from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from verifiers.situations.events import RunEvents, after_silence
from verifiers.situations.situation import Occurrence, situation

_COMMIT_NS = 1_000_000_000
_LATE_NS = 2_000_000_000


@situation("send-expired")
def send_expired(events: RunEvents) -> Iterator[Occurrence]:
    """A send gets no answer within delivery.timeout.ms."""
    for send in events.sends.failed:
        if send["error"] in ("_MSG_TIMED_OUT", "_TIMED_OUT"):
            yield Occurrence(
                at_ns=send["complete_ns"], where=f"{send['topic']}-{send['partition']}"
            )


@situation("retry-answered-as-duplicate")
def retry_answered_as_duplicate(events: RunEvents) -> Iterator[Occurrence]:
    """An idempotent producer repeats a request that had succeeded, and is answered as before.

    Recognised by the high watermark: it lay above the record more than 2 s before the record was
    acknowledged, so the first answer was lost (KIP-98: a duplicate sequence number is answered with
    the offset of the first attempt).
    """
    if not events.run.contract.idempotent:
        return
    for send in events.sends.slow:
        known_ns = events.committed_by(send)
        if known_ns is not None and send["complete_ns"] - known_ns > _LATE_NS:
            where = f"{send['topic']}-{send['partition']} offset {send['offset']}"
            yield Occurrence(at_ns=send["complete_ns"], where=where)


@situation("group-coordinator-lost")
def group_coordinator_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The broker that coordinates a consumer group is lost while the group commits offsets.

    Recognised by the leaders of __consumer_offsets; members commit every second.
    """
    if events.run.subscribed or events.moves:
        for change in events.losses_of([OFFSETS_TOPIC]):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("transaction-coordinator-lost")
def transaction_coordinator_lost(events: RunEvents) -> Iterator[Occurrence]:
    """The broker that coordinates transactions is lost while a transaction is being committed."""
    for change in events.losses_of([TRANSACTIONS_TOPIC]):
        if any(
            txn["invoke_ns"] <= change.after_ns <= txn["complete_ns"] for txn in events.transactions
        ):
            yield Occurrence(at_ns=change.at_ns, where=change.where)


@situation("zombie-fenced")
def zombie_fenced(events: RunEvents) -> Iterator[Occurrence]:
    """A producer whose transactional id another one has taken over is fenced (KIP-98)."""
    for event in events.client_events:
        if event["f"] == "fenced":
            yield Occurrence(at_ns=event["time_ns"], where=f"process {event['process']}")


@situation("transaction-timed-out")
def transaction_timed_out(events: RunEvents) -> Iterator[Occurrence]:
    """The coordinator aborts a transaction because it lasts longer than transaction.timeout.ms."""
    for at_ns, broker in events.broker_lines["transaction timed out"]:
        yield Occurrence(at_ns=at_ns, where=f"broker {broker}")


@situation("member-lost-before-commit")
def member_lost_before_commit(events: RunEvents) -> Iterator[Occurrence]:
    """A member of a group dies with records that it has processed and not committed."""
    for move in events.moves:
        hand = move.get("hand") if move["event"] == "made" else None
        if hand and hand.get("uncommitted"):
            yield Occurrence(at_ns=move["time_ns"], where=f"{hand['uncommitted']} records")


@situation("rebalance-under-fault")
def rebalance_under_fault(events: RunEvents) -> Iterator[Occurrence]:
    """Partitions move between members of a group while a fault is in force."""
    for event in events.client_events:
        at_ns = event["time_ns"]
        if event["f"] == "rebalance" and any(fault.covers(at_ns) for fault in events.faults):
            yield Occurrence(at_ns=at_ns, where=f"process {event['process']}")


@situation("member-session-expired")
def member_session_expired(events: RunEvents) -> Iterator[Occurrence]:
    """A member of a group is cut off past its session, and loses its partitions."""
    lost = [(event["time_ns"], event["process"]) for event in events.lost_partitions]
    # There is an event for each partition.
    for at_ns, process in after_silence(lost, _COMMIT_NS):
        yield Occurrence(at_ns=at_ns, where=f"process {process}")
