"""Claim 20: acks=all with min.insync.replicas=1 may mean one copy."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.clients import Batch
from harness.lab.expectations import all_of, loses, sees
from harness.lab.lab import Lab
from harness.run.injector import Active

LEADER_WHILE_DOWN = "leader while the last in-sync replica is down"


def script(lab: Lab) -> None:
    """Shrink the ISR to the leader and write: first the leader crashes, then it loses power."""
    a, b, c = lab.brokers
    lab.produce("shared", 10)
    _, cut = _write_alone(lab, "kept")
    lab.kill(a)
    lab.await_end_of_lead(a, known_by=(b, c))
    lab.observe(LEADER_WHILE_DOWN, lab.sees(lab.leader, within_s=4.0))
    lab.heal(cut)
    lab.start(a)
    lab.await_full_isr()
    doomed, cut = _write_alone(lab, "doomed")
    lab.power_loss(a, offset=doomed.first_offset)
    lab.heal(cut)
    lab.start(a)
    lab.await_leader(a)


def _write_alone(lab: Lab, name: str) -> tuple[Batch, Active]:
    """Cut the leader off until the ISR is itself alone, and write."""
    a, b, c = lab.brokers
    cut = lab.cut(a, (b, c))
    # A follower that lacks nothing is never late (claim 32): it has to lack something.
    lab.produce(f"before {name}", 1, acks="1")
    lab.await_isr({a})
    batch = lab.produce(name, 100)
    lab.require(batch.acked == 100, f"only {batch.acked} of 100 records were acknowledged")
    return batch, cut


@claim("acksall-minisr1-shrinks-to-self")
def acksall_minisr1_shrinks_to_self() -> Claim:
    """Acknowledged by the whole ISR is acknowledged by one broker, if the ISR is one broker.

    A crash costs only availability, as nobody else may lead. A power cut costs the records: the
    broker that returns leads with what it had flushed, and the others cut theirs to match.

    The recipe has to write before it waits for the ISR: on 4.3.1 followers that were cut off for
    a minute stayed in it, since they lacked nothing.
    """
    return Claim(
        number=20,
        subject="acks and min.insync.replicas",
        sentence="With min.insync.replicas=1 acks=all degrades to one copy: while its only holder "
        "is down the partition has no leader, and what it had not flushed is lost with its power.",
        source="Kafka's documentation of min.insync.replicas; KIP-966",
        contract=Contract(min_isr=1),
        config=lambda _: {"replica.lag.time.max.ms": "4000"},
        script=script,
        expects=(
            Expectation(
                words="no leader after a crash; loses what was not flushed after a power cut",
                test=all_of(
                    loses("doomed"),
                    sees(LEADER_WHILE_DOWN, lambda after_s: after_s is None, "no leader"),
                ),
            ),
        ),
    )
