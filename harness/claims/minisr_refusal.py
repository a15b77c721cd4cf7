"""Claim 22: too few in-sync replicas refuse acks=all, and nothing else."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, follows, keeps_all, refuses
from harness.lab.lab import Lab

_SPREADS_S = 2.0
"""So long has a changed setting to reach the leader, which nobody can ask for its own view."""

_REFUSES = refuses("all", "NOT_ENOUGH_REPLICAS")


def script(lab: Lab) -> None:
    """Ask for more in-sync replicas than there are replicas, then leave fewer than are asked for.

    The second time the leader is alone in the ISR, and is written to with every acks.
    """
    a, b, c = lab.brokers
    lab.produce("before", 10)
    lab.cluster.alter_topic(lab.topic, {"min.insync.replicas": "4"})
    lab.wait(_SPREADS_S)
    lab.produce("beyond", 10, retries=0, idempotence=False)
    lab.cluster.alter_topic(lab.topic, {"min.insync.replicas": "2"})
    lab.kill(b, c)
    lab.await_isr_at_leader({a})
    lab.produce("all", 10, retries=0, idempotence=False)
    one = lab.produce("one", 10, acks="1")
    none = lab.produce("none", 10, acks="0")
    lab.require(one.acked + none.acked == 20, "the leader took no records at all")
    lab.start(b, c)
    lab.await_full_isr()


@claim("minisr-refusal")
def minisr_refusal() -> Claim:
    """An ISR below min.insync.replicas refuses acks=all before anything is appended.

    A minimum of four with three replicas tells old brokers from new ones: until 3.6 it can never
    be met, and since 3.7 all replicas are enough.
    """
    return Claim(
        number=22,
        subject="acks and min.insync.replicas",
        sentence="While the ISR is smaller than min.insync.replicas, acks=all is refused with "
        "NOT_ENOUGH_REPLICAS and nothing is appended; acks=1 and acks=0 are still taken. Since 3.7 "
        "no more replicas are asked for than the partition has.",
        source="Kafka: Partition.appendRecordsToLeader, Partition.effectiveMinIsr (3.7.0)",
        contract=Contract(),
        script=script,
        expects=(
            Expectation(
                versions=Versions(before="3.7"),
                words="refuses acks=all only, and asks for more replicas than there are",
                test=all_of(
                    _REFUSES,
                    refuses("beyond", "NOT_ENOUGH_REPLICAS"),
                    follows("before", "one"),
                    keeps_all(),
                ),
            ),
            Expectation(
                versions=Versions(since="3.7"),
                words="refuses acks=all only, and never asks for more replicas than there are",
                test=all_of(
                    _REFUSES,
                    follows("before", "beyond"),
                    follows("beyond", "one"),
                    keeps_all(),
                ),
            ),
        ),
    )
