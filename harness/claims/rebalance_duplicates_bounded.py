"""Claim 64: a member dies, and its partitions resume at its last commit."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, note_hand, repeats_nothing_committed
from harness.lab.groups import LONG_SESSION_MS, Hold, LabGroup
from harness.lab.lab import Lab
from workloads.group_config import short_sessions

PARTITIONS = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2))
FIRST, SECOND = 100, 300
"""Records of each wave, in each partition."""
NEW, NEW_SINCE = "consumer", "4.0"
"""The protocol of KIP-848, and the first version that offers it without being asked."""


def script(lab: Lab) -> None:
    """Kill one of two members of each group between processing and commit."""
    produce(lab, "before", FIRST)
    groups = {
        "eager": group(lab, "eager", {"partition.assignment.strategy": "range"}),
        "cooperative": group(
            lab, "cooperative", {"partition.assignment.strategy": "cooperative-sticky"}
        ),
    }
    if lab.since(NEW_SINCE):
        groups[NEW] = group(lab, NEW, {"group.protocol": "consumer"})
    stayers = {
        name: one.join(session_ms=None if name == NEW else LONG_SESSION_MS)
        for name, one in groups.items()
    }
    victims = {name: one.join() for name, one in groups.items()}
    for name, one in groups.items():
        await_all_committed(one, FIRST)
        victims[name].await_assigned()
        victims[name].hold(Hold(before="commit", count=2))
    produce(lab, "during", SECOND)
    for name, victim in victims.items():
        hand = victim.await_held().uncommitted
        lab.require(hand, f"the {name} member had committed all that it had processed")
        note_hand(lab, name, hand)
    moves = {name: stayer.rebalances for name, stayer in stayers.items()}
    for victim in victims.values():
        victim.kill()
    for name, one in groups.items():
        await_all_committed(one, FIRST + SECOND)
        moved = stayers[name].rebalances - moves[name]
        lab.observe(f"{name}: partitions came or went at the one that stayed", moved)
        stayers[name].stop()


def group(lab: Lab, name: str, config: dict[str, str]) -> LabGroup:
    """Return a group that commits after every 20 records processed."""
    return lab.group(name, "after-processing", poll_records=60, commit_every=20, config=config)


def produce(lab: Lab, name: str, count: int) -> None:
    """Write to all partitions at once."""
    pending = [
        lab.producer(partition=partition).begin(f"{name} {partition}", count)
        for partition in range(len(PARTITIONS))
    ]
    for batch in pending:
        lab.require(batch.settle().acked == count, f"not all of {batch.name!r} was acknowledged")


def await_all_committed(one: LabGroup, offset: int) -> None:
    """Wait until a group is through."""
    for partition in range(len(PARTITIONS)):
        one.await_committed(offset, partition=partition)


@claim("rebalance-duplicates-bounded")
def rebalance_duplicates_bounded() -> Claim:
    """After a member's death its partitions resume at its last commit, under every assignor."""
    bounded = [repeats_nothing_committed("eager"), repeats_nothing_committed("cooperative")]
    words = "resume at the last commit: no gap, and nothing again that was committed"
    return Claim(
        number=64,
        subject="consumer groups",
        sentence="When a member of a group is killed, its partitions resume at its last commit: "
        "no record is passed over, and none is processed again that had been committed; so with "
        "eager and cooperative rebalances and with the protocol of KIP-848.",
        source="Kafka's documentation of consumer groups; KIP-429, KIP-848",
        contract=Contract(acks="all", min_isr=2),
        assignment=PARTITIONS,
        config=short_sessions,
        script=script,
        expects=(
            Expectation(
                versions=Versions(since=NEW_SINCE),
                words=words,
                test=all_of(*bounded, repeats_nothing_committed(NEW)),
            ),
            Expectation(words=words, test=all_of(*bounded)),
        ),
    )
