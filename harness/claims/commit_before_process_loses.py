"""Claim 63: at most once, at least once, and what each costs."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, note_hand, repeats_hand, skips_hand
from harness.lab.groups import LONG_SESSION_MS, Hold
from harness.lab.lab import Lab

RECORDS = 1000
POLLED = 100


def script(lab: Lab) -> None:
    """Kill a member between commit and processing, another one between processing and commit.

    Each is killed in its third poll; then the same, in the middle of a poll that was committed. A
    successor takes the rest of the partition, so that nothing is left that is still to come.
    """
    batch = lab.produce("all", RECORDS)
    lab.require(batch.acked == RECORDS, f"only {batch.acked} records were acknowledged")
    before = lab.group("before", "before-processing", poll_records=POLLED)
    middle = lab.group("before, half done", "before-processing", poll_records=POLLED)
    after = lab.group("after", "after-processing", poll_records=POLLED)
    members = {
        before: before.join(hold=Hold(before="processing", count=2 * POLLED + 1)),
        middle: middle.join(hold=Hold(before="processing", count=2 * POLLED + POLLED // 2)),
        after: after.join(hold=Hold(before="commit", count=3)),
    }
    for group, member in members.items():
        held = member.await_held()
        hand = held.uncommitted if group is after else held.unprocessed
        lab.require(hand, f"a member of {group.name} had nothing in hand")
        note_hand(lab, group.name.removeprefix(f"{lab.topic}-"), hand)
        member.kill()
    heirs = [group.join(session_ms=LONG_SESSION_MS) for group in members]
    for group, heir in zip(members, heirs, strict=True):
        group.await_committed(RECORDS)
        heir.stop()


@claim("commit-before-process-loses")
def commit_before_process_loses() -> Claim:
    """Commit first and lose, process first and repeat: by exactly what was in hand."""
    return Claim(
        number=63,
        subject="consumer groups",
        sentence="A group member that commits before it processes loses exactly what it had in "
        "hand when it is killed; one that processes before it commits repeats exactly that.",
        source="Kafka's documentation, message delivery semantics",
        contract=Contract(acks="all", min_isr=2),
        script=script,
        expects=(
            Expectation(
                words="loses, or repeats, exactly what was in hand",
                test=all_of(
                    skips_hand("before"), skips_hand("before, half done"), repeats_hand("after")
                ),
            ),
        ),
    )
