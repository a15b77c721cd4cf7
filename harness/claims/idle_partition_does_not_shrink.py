"""Claim 32: who has everything is in sync, however long it has been silent."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, sees
from harness.lab.lab import Lab

LIMIT_S = 4.0
IDLE, WRITTEN = 0, 1
_LATE_S = 1.0


def script(lab: Lab) -> None:
    """Cut a follower off two partitions, write to one, and only much later to the other."""
    a, _, c = lab.brokers
    for partition in (IDLE, WRITTEN):
        lab.produce(f"warm-up {partition}", 10, partition=partition)
        lab.await_isr(lab.brokers, partition=partition)
    lab.cut(a, [c])
    # The control: this partition shows that C gets nothing any more, and that A looks.
    lab.produce("control", 1, partition=WRITTEN)
    silent = lab.sees(lambda: c not in lab.isr(IDLE), within_s=5 * LIMIT_S)
    lab.require(c not in lab.isr(WRITTEN), "C did not even leave the partition that was written to")
    lab.observe("idle_shrink_s", silent and round(silent, 2))
    if silent is None:
        lab.produce("first write", 1)
        left = lab.sees(lambda: c not in lab.isr(IDLE), within_s=3 * LIMIT_S)
        lab.observe("shrink_after_write_s", left and round(left, 2))


@claim("idle-partition-does-not-shrink")
def idle_partition_does_not_shrink() -> Claim:
    """Since 2.1 a follower with all that its leader has stays in sync, however long it is silent.

    Two partitions with the same replicas are cut at the same moment; the one that is written to is
    the control. Measured from the moment at which the cut was witnessed. The first write after the
    silence is judged by the time of the last fetch, which is long past: the follower leaves at the
    next look, after half the limit at most, and is given no new limit.
    """
    return Claim(
        number=32,
        subject="the ISR",
        sentence="Since 2.1 a follower that has all that its leader has stays in the ISR, however "
        "long it is silent, and leaves at the first look after the next write; before, silence "
        "was enough.",
        source="KAFKA-7152 (2.1.0)",
        contract=Contract(acks="1", min_isr=1),
        assignment=((1, 2, 3), (1, 2, 3)),
        config=lambda _: {"replica.lag.time.max.ms": str(int(LIMIT_S * 1000))},
        script=script,
        expects=(
            Expectation(
                versions=Versions(before="2.1"),
                words="leaves after 1 to 1.5 times the limit",
                test=sees(
                    "idle_shrink_s",
                    lambda s: s is not None and s <= 1.5 * LIMIT_S + _LATE_S,
                    f"the silent follower left within {1.5 * LIMIT_S + _LATE_S:g} s",
                ),
            ),
            Expectation(
                versions=Versions(since="2.1"),
                words="stays until the first write",
                test=all_of(
                    sees(
                        "idle_shrink_s",
                        lambda s: s is None,
                        f"the silent follower stayed for {5 * LIMIT_S:g} s",
                    ),
                    sees(
                        "shrink_after_write_s",
                        lambda s: s is not None and s < LIMIT_S,
                        f"it left within {LIMIT_S:g} s of the first write",
                    ),
                ),
            ),
        ),
    )
