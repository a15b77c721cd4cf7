"""Claim 18: acks=1 means one copy."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import loses
from harness.lab.lab import Lab


def script(lab: Lab) -> None:
    """Cut the leader off its followers, write, and kill it before they leave the ISR."""
    a, b, c = lab.brokers
    shared = lab.produce("shared", 10)
    copied = "the followers to copy what is shared"
    lab.wait_until(lambda: lab.high_watermark() == shared.end_offset, what=copied)
    cut = lab.cut(a, (b, c))
    doomed = lab.produce("alone", 1000)
    lab.require(doomed.acked == 1000, f"only {doomed.acked} of 1000 records were acknowledged")
    lab.require(lab.isr() == {a, b, c}, "a follower left the ISR too early")
    lab.kill(a)
    lab.await_failover(a)
    lab.heal(cut)
    lab.start(a)


@claim("acks1-loss-on-leader-kill")
def acks1_loss_on_leader_kill() -> Claim:
    """With acks=1, records that only the leader had are lost with it, though acknowledged."""
    return Claim(
        number=18,
        subject="acks and min.insync.replicas",
        sentence="With acks=1, records that only the leader had are lost with it, though they "
        "were acknowledged; min.insync.replicas does not help.",
        source="Kafka's documentation of the producer's acks",
        contract=Contract(acks="1", min_isr=2),
        config=lambda _: {"replica.lag.time.max.ms": "60000"},
        script=script,
        expects=(Expectation(words="loses what the leader alone had", test=loses("alone")),),
    )
