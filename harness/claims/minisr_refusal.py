"""Claim 22: too few in-sync replicas refuse acks=all, and nothing else."""

from harness.claim import Claim, Expectation, claim
from harness.core.contract import Contract
from harness.expectations import all_of, follows, keeps_all, refuses
from harness.lab import Lab


def script(lab: Lab) -> None:
    """Leave the leader alone in the ISR, and write to it with every acks."""
    a, b, c = lab.brokers
    lab.produce("before", 10)
    lab.kill(b, c)
    lab.await_isr({a})
    lab.produce("all", 10, retries=0, idempotence=False)
    one = lab.produce("one", 10, acks="1")
    none = lab.produce("none", 10, acks="0")
    lab.require(one.acked + none.acked == 20, "the leader took no records at all")
    lab.start(b, c)
    lab.await_whole()


@claim("minisr-refusal")
def minisr_refusal() -> Claim:
    """An ISR below min.insync.replicas refuses acks=all before anything is appended."""
    return Claim(
        number=22,
        sentence="While the ISR is smaller than min.insync.replicas, acks=all is refused with "
        "NOT_ENOUGH_REPLICAS and nothing is appended; acks=1 and acks=0 are still taken.",
        source="Kafka: Partition.appendRecordsToLeader",
        contract=Contract(),
        script=script,
        expects=(
            Expectation(
                words="refuses acks=all only",
                test=all_of(
                    refuses("all", "NOT_ENOUGH_REPLICAS"),
                    follows("before", "one"),
                    keeps_all(),
                ),
            ),
        ),
    )
