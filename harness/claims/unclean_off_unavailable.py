"""Claim 26: without unclean election a partition waits for who has everything."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, keeps_all, refuses, sees
from harness.lab.lab import Lab


def script(lab: Lab) -> None:
    """Leave the follower behind, kill the leader, and bring back the follower only."""
    a, b = lab.brokers
    lab.produce("shared", 10)
    lab.kill(b)
    lab.await_isr({a})
    lab.produce("alone", 100)
    lab.kill(a)
    lab.start(b)
    lab.wait_until(lambda: lab.leader() != a, what="the leader's death to be noticed")
    lab.observe("leader while only the stale replica runs", lab.sees(lab.leader, within_s=8.0))
    lab.produce("refused", 10, delivery_timeout_ms=3000)
    lab.start(a)
    lab.await_leader(a)
    lab.await_full_isr()


@claim("unclean-off-unavailable")
def unclean_off_unavailable() -> Claim:
    """With unclean election off, a partition has no leader while only a stale replica runs."""
    return Claim(
        number=26,
        subject="acks and min.insync.replicas",
        sentence="With unclean.leader.election.enable=false a partition whose last in-sync replica "
        "is down has no leader until that replica returns, and then nothing is lost.",
        source="Kafka's documentation of unclean.leader.election.enable",
        contract=Contract(min_isr=1, replication_factor=2),
        assignment=((1, 2),),
        brokers=2,
        script=script,
        expects=(
            Expectation(
                words="waits for the replica that has everything",
                test=all_of(
                    sees(
                        "leader while only the stale replica runs",
                        lambda after_s: after_s is None,
                        "no leader",
                    ),
                    refuses("refused"),
                    keeps_all(),
                ),
            ),
        ),
    )
