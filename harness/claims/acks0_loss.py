"""Claim 17: acks=0 means that nobody has it."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, loses, sees
from harness.lab.lab import Lab


def script(lab: Lab) -> None:
    """Freeze the leader, write to it with acks=0 and with acks=1, and kill it as it lies."""
    a, *_ = lab.brokers
    lab.produce("shared", 10, acks="1")
    unheard, waiting = lab.producer(acks="0"), lab.producer(acks="1")
    unheard.send("heard", 10)
    # A send ends here when it has left the client; frozen too soon, the leader would not have it.
    lab.wait_until(lambda: lab.high_watermark() == 20, what="the followers to have what was heard")
    frozen = lab.pause(a)
    waited = waiting.begin("waited", 500)
    sent = unheard.send("sent", 500)
    lab.observe("offset of a record that was sent", sent.first_offset)
    killed = lab.kill(a)
    lab.await_failover(a)
    waited.settle()
    lab.heal(killed, frozen)


@claim("acks0-loss")
def acks0_loss() -> Claim:
    """With acks=0 a send succeeds when it has left the client, whatever becomes of it.

    The leader is frozen first: what is sent then certainly reaches its host, not its log. The same
    damage under acks=1 costs nothing: that producer hears nothing, and sends again. Sends
    under acks=0 stand in the history as acknowledged, without an offset.
    """
    return Claim(
        number=17,
        subject="acks and min.insync.replicas",
        sentence="With acks=0 a producer is told that records are sent which no broker has ever "
        "read; it learns no offset, and never that they are lost.",
        source="Kafka's documentation of the producer's acks",
        contract=Contract(acks="0"),
        # Nothing here waits for a follower to be late: the clusters of claims 18 and 50 will do.
        config=lambda _: {"replica.lag.time.max.ms": "60000"},
        script=script,
        expects=(
            Expectation(
                words="loses what the dead leader had not read",
                test=all_of(
                    loses("sent"),
                    sees("offset of a record that was sent", lambda o: o is None, "no offset"),
                ),
            ),
        ),
    )
