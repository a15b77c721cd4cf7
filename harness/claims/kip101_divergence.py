"""Claim 3, the second scenario of KIP-101: two replicas crash, and come back in the wrong order."""

from collections.abc import Mapping

from harness.claim import Claim, Expectation, claim, session_timeout
from harness.core.contract import Contract
from harness.core.version import FIRST_KRAFT, Versions, numbers
from harness.expectations import all_of, finds, finds_no, loses
from harness.lab import Lab

_SESSION_S = 18.0


def config(kafka: str) -> Mapping[str, str]:
    """Let sessions last longer under KRaft, whose controller takes everybody for alive at first.

    A must be back before it gives A up too, or none of the two is in the ISR any more.
    """
    return session_timeout(kafka, _SESSION_S) if numbers(kafka) >= FIRST_KRAFT else {}


def script(lab: Lab) -> None:
    """Let A lose the end of its log and lead; let B, which still has it, come back as follower."""
    a, b = lab.brokers
    (d,) = lab.controllers
    lab.produce("first", 5)
    second = lab.produce("second", 5)
    lab.require(second.acked == 5, f"only {second.acked} of 5 records were acknowledged")
    lab.await_high_watermark(10, on=(a, b))
    # The controller goes first: nobody is to be elected while the brokers die.
    lab.kill(d)
    lab.kill(b)
    lab.power_loss(a, offset=5)
    lab.require(lab.log_end(a) == 5, f"A's log ends at {lab.log_end(a)}")
    # In ZooKeeper mode a controller that sees the brokers go one by one leaves the last alone in
    # the ISR; newer ones, 2.8.2 for one, do so as well when they find both gone. So A is there
    # before a controller looks. Under KRaft a broker cannot start without one.
    lab.await_unregistered(a, b)
    for broker in (a, d) if lab.has_zookeeper else (d, a):
        lab.start(broker)
    lab.await_leader(a)
    # More than B has: before KIP-101 a follower that is ahead of its leader ends itself.
    others = lab.produce("others", 8)
    lab.require(others.first_offset == 5, f"the new records begin at {others.first_offset}")
    lab.start(b)
    lab.await_isr({a, b})


@claim("kip101-divergence")
def kip101_divergence() -> Claim:
    """Two replicas in the ISR hold different records at one offset for ever, up to 0.10.2."""
    return Claim(
        number=3,
        sentence="When two replicas crash and the one that lost its unflushed end comes back "
        "first, both end up in the ISR with different records at the same offsets, for ever; "
        "since 0.11 the other one cuts its log by leader epoch and they converge.",
        source="KIP-101, scenario 2; KAFKA-3919",
        # An idempotent producer whose records were lost with the power is told so (out of order
        # sequence) and ends, as it should: not what is asked here.
        contract=Contract(
            acks="all", min_isr=1, replication_factor=2, linger_ms=50, idempotence=False
        ),
        # B leads first.
        assignment=((2, 1),),
        brokers=2,
        config=config,
        script=script,
        expects=(
            Expectation(
                versions=Versions(before="0.11"),
                words="diverges at offsets 5 to 9",
                test=all_of(finds("replica-divergence"), loses("second")),
            ),
            Expectation(
                versions=Versions(since="0.11"),
                words="converges, having lost what was not flushed",
                test=all_of(finds_no("replica-divergence"), loses("second")),
            ),
        ),
    )
