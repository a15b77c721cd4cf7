"""Claim 3, the second scenario of KIP-101: two replicas crash, and come back in the wrong order."""

from harness.core.cluster import Broker
from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds, finds_no, loses
from harness.lab.lab import Lab

PATIENT = {"topic.metadata.propagation.max.ms": 300_000}
"""A broker that has just started names no topic until the controller has told it of them. A topic
that is older than so many milliseconds counts as deleted then, and nothing is sent to it."""


def script(lab: Lab) -> None:
    """Let A lose the end of its log and lead; let B, which still has it, come back as follower."""
    a, b = lab.brokers
    (d,) = lab.controllers
    lab.produce("first", 5, config=PATIENT)
    second = lab.produce("second", 5, config=PATIENT)
    lab.require(second.acked == 5, f"only {second.acked} of 5 records were acknowledged")
    lab.await_high_watermark(10, on=(a, b))
    if lab.has_zookeeper:
        _crash_unseen(lab, a, b, d)
    else:
        # Nobody is taken back before his old session has ended, so the controller gives both up, in
        # an order of its own. B has to be the first.
        lab.kill(b)
        lab.await_isr({a})
        lab.power_loss(a, offset=5)
        lab.start(a)
    lab.await_leader(a)
    # More than B has: before KIP-101 a follower that is ahead of its leader ends itself.
    others = lab.produce("others", 8, config=PATIENT)
    lab.require(others.first_offset == 5, f"the new records begin at {others.first_offset}")
    lab.start(b)
    lab.await_isr({a, b})


def _crash_unseen(lab: Lab, a: Broker, b: Broker, controller: Broker) -> None:
    """Crash both brokers while nobody can elect, and bring A back, still in the ISR."""
    lab.kill(controller)
    lab.kill(b)
    lab.power_loss(a, offset=5)
    # A controller that sees the brokers go one by one leaves the last alone in the ISR; newer ones,
    # 2.8.2 for one, do so as well when they find both gone. So A is there before one looks.
    lab.await_unregistered(a, b)
    lab.start(a)
    lab.start(controller)


@claim("kip101-divergence")
def kip101_divergence() -> Claim:
    """Two replicas in the ISR hold different records at one offset for ever, up to 0.10.2."""
    return Claim(
        number=3,
        subject="leader epochs",
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
