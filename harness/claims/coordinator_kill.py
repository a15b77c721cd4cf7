"""Claim 65: the coordinator of a group dies, and another broker knows all that it knew.

The recipe says when there is no rebalance; it does not say who rebalances otherwise. It is the
member: librdkafka gives up its partitions by itself when it has not been answered for a session,
coordinator or not. KAFKA-5600 (0.11.0.0) needs an offsets partition that is loaded in more than one
read, 5 MiB, and is not looked for here.
"""

import time

from harness.core.cluster import Broker
from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds_no, sees
from harness.lab.groups import LONG_SESSION_MS, Hold, LabGroup
from harness.lab.lab import Lab
from workloads.group_config import SESSION_MS

LONG, SHORT = "rebalances under a long session", "failover s and rebalances under a short session"


def script(lab: Lab) -> None:
    """Kill the coordinator of three groups, and ask the next one what was committed.

    One group stands still between two commits, so that what it had committed cannot be covered up
    by what it commits later; two go on committing, under a long and under a short session.
    """
    a, b, _ = lab.brokers
    still, going, short = (
        group_of(lab, b, "still", LONG_SESSION_MS),
        group_of(lab, b, "going", LONG_SESSION_MS),
        group_of(lab, b, "short", SESSION_MS),
    )
    lab.require(lab.leader() == a, "the topic has the leader that is to be killed")
    lab.producer().flow("all", 100)
    members = {group.name: group.join() for group in (still, going, short)}
    for member in members.values():
        member.await_processed(50)
    members[still.name].hold(Hold(before="commit", count=1))
    members[still.name].await_held()
    before = {name: member.rebalances for name, member in members.items()}
    lab.require(
        all(group.coordinator() == b for group in (still, going, short)),
        "the coordinator has moved too early",
    )
    killed = time.monotonic()
    lab.kill(b)
    # Progress is told a fraction of a second late.
    lab.wait(1.0)
    commits = members[going.name].commits
    lab.wait_until(
        lambda: members[going.name].commits > commits + 1,
        what="a commit at the next coordinator",
        timeout_s=90,
    )
    failover_s = round(time.monotonic() - killed, 1)
    lab.require(failover_s * 1000 < LONG_SESSION_MS, f"the failover took {failover_s} s")
    lab.wait_until(lambda: members[short.name].commits > 0, what="the short session to resume")
    lab.wait(1.0)
    for group in (still, going):
        lab.observe(LONG, members[group.name].rebalances - before[group.name])
    lab.observe(SHORT, [failover_s, members[short.name].rebalances - before[short.name]])
    still.join().await_told()
    members[still.name].go()
    batch = lab.producer().halt().settle()
    lab.start(b)
    for group in (still, going, short):
        group.await_committed(batch.end_offset or 0)


def group_of(lab: Lab, broker: Broker, name: str, session_ms: int) -> LabGroup:
    """Return a group that this broker coordinates; its name decides which one does."""

    def named(number: int) -> LabGroup:
        return lab.group(
            f"{name}-{number}",
            "after-processing",
            poll_records=20,
            commit_every=5,
            config={"session.timeout.ms": session_ms},
        )

    lab.wait_until(lambda: named(0).coordinator(), what="a coordinator")
    found = [group for group in map(named, range(64)) if group.coordinator() == broker]
    lab.require(found, f"broker {broker.node_id} coordinates no group")
    return found[0]


@claim("coordinator-kill")
def coordinator_kill() -> Claim:
    """No acknowledged commit is lost with the coordinator, and nobody need rejoin."""
    tests = (
        finds_no("lost-commit", "consume-skip"),
        sees(
            LONG, lambda moves: moves == 0, "no rebalance while the session outlasts the failover"
        ),
        sees(
            SHORT,
            lambda seen: seen[1] > 0 or seen[0] * 1000 < SESSION_MS,
            "a rebalance if it does not",
        ),
    )
    return Claim(
        number=65,
        subject="consumer groups",
        sentence="When the coordinator of a group is killed, no acknowledged commit is lost, the "
        "group goes on at the next coordinator, and it does not rebalance as long as the members' "
        "session outlasts the failover.",
        source="Kafka's documentation of offsets.topic.replication.factor; KAFKA-5600",
        contract=Contract(acks="all", min_isr=2),
        script=script,
        # On a cluster whose brokers were killed before, one of them may coordinate no group at all.
        needs_fresh_cluster=True,
        expects=(
            Expectation(words="no commit is lost, and nobody rebalances", test=all_of(*tests)),
        ),
    )
