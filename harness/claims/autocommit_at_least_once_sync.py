"""Claim 62: automatic commits are at least once with one client, and at most once with another.

The recipe holds. A member must be killed while it has been standing in the middle of a poll's
records for many commit intervals, or the difference does not show: VerifiableConsumer prints
thousands of records in the time that a kill takes, so its output is left unread until it blocks.
"""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import (
    all_of,
    note_hand,
    repeats_at_most_hand,
    skips_hand,
)
from harness.lab.groups import LONG_SESSION_MS, Hold
from harness.lab.lab import Lab

RECORDS = 8000
STALL_S = 2.0
"""So long a member stands in the middle of a poll's records: many intervals of 200 ms."""


def script(lab: Lab) -> None:
    """Kill three members that commit automatically, each in the middle of a poll's records.

    Kafka's own VerifiableConsumer stands still because nobody reads what it prints; librdkafka's
    members hold in their third poll of 100, one that leaves storing offsets to the library and one
    that stores each when it has been processed.
    """
    a, *_ = lab.brokers
    batch = lab.produce("all", RECORDS, record_size_bytes=500)
    lab.require(batch.acked == RECORDS, f"only {batch.acked} records were acknowledged")
    java = lab.group("java", "after-processing", poll_records=500, commit_every=500)
    delivered = lab.group("delivered", "auto-delivered")
    stored = lab.group("stored", "auto-stored")
    printer = java.join_java(
        a, stall_after=2500, max_poll_records=1000, auto_commit_interval_ms=200
    )
    hold = Hold(before="processing", count=250)
    members = {delivered: delivered.join(hold=hold), stored: stored.join(hold=hold)}
    in_hand = members[delivered].await_held().unprocessed
    done = members[stored].await_held().processed
    printer.await_held()
    lab.wait(STALL_S)
    printer.kill()
    for member in members.values():
        member.kill()
    known = java.committed() or 0
    lab.require(known > 0, "the Java member had committed nothing before it was killed")
    note_hand(lab, "delivered", in_hand)
    # What each of the other two had processed and not committed.
    note_hand(lab, "java", frozenset((0, n) for n in range(known, printer.processed)))
    note_hand(lab, "stored", frozenset((0, n) for n in range(stored.committed() or 0, done)))
    heirs = {
        group: group.join(session_ms=LONG_SESSION_MS)
        for group in (
            java,
            lab.group("delivered", "auto-delivered", poll_records=1000),
            lab.group("stored", "auto-stored", poll_records=1000),
        )
    }
    for group, heir in heirs.items():
        group.await_committed(RECORDS)
        heir.stop()


@claim("autocommit-at-least-once-sync")
def autocommit_at_least_once_sync() -> Claim:
    """Java's automatic commit loses nothing in a single-threaded loop; librdkafka's does."""
    return Claim(
        number=62,
        subject="consumer groups",
        sentence="With automatic commits, a Java consumer that processes in its polling thread "
        "passes no record over when it is killed, since only what earlier polls gave is committed; "
        "librdkafka commits what it has handed over, and passes over what was in hand, unless "
        "enable.auto.offset.store is false.",
        source="Kafka's ConsumerCoordinator.maybeAutoCommitOffsetsAsync; librdkafka's "
        "documentation of enable.auto.offset.store",
        contract=Contract(acks="all", min_isr=2),
        script=script,
        expects=(
            Expectation(
                words="Java loses nothing, librdkafka what was in hand, and nothing if it is told "
                "what was processed",
                test=all_of(
                    repeats_at_most_hand("java"),
                    skips_hand("delivered"),
                    repeats_at_most_hand("stored"),
                ),
            ),
        ),
    )
