"""Claim 1, the first scenario of KIP-101: a follower cuts what it has, and the leader dies."""

import time

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.clients import patient
from harness.lab.expectations import keeps_all, loses
from harness.lab.lab import Lab

DOOMED = 100
PARKED_S = 15
"""So long a follower may be kept from hearing what is committed: the leader dies within it."""


def script(lab: Lab) -> None:
    """Let C follow a new leader it cannot reach, while its high watermark is stale."""
    a, b, c = lab.brokers
    cut = lab.cut(a, [c], quiet=True)
    # A new partition is fetched only once the fetch that was parked before it ends: a producer that
    # grew impatient meanwhile would write its first records twice.
    producer = lab.producer(config={**patient(3 * PARKED_S), "batch.num.messages": DOOMED})
    warm = producer.send("warm-up", 10)
    lab.await_high_watermark(warm.end_offset, on=(a, b, c))
    begin = time.monotonic()
    doomed = producer.send("doomed", DOOMED)
    lab.require(
        doomed.acked == DOOMED, f"only {doomed.acked} of {DOOMED} records were acknowledged"
    )
    # A follower's parked fetch has brought it the records, and not yet that they are committed.
    lab.kill(b)
    lab.require(
        time.monotonic() - begin < PARKED_S, "a follower may have heard that the batch is committed"
    )
    lab.await_leader(a)
    lab.await_isr({a, c})
    lab.await_follower(c, of=a)
    lab.kill(a)
    lab.await_leader(c)
    lab.heal(cut)
    lab.start(a)
    lab.await_isr({a, c})
    if lab.since("0.11"):
        lab.start(b)
    else:
        # Its log ends beyond the new leader's, and before KIP-101 it then ended itself ("truncation
        # not allowed"): its disk is left as the witness of what was lost.
        lab.leave_down(b)


@claim("kip101-hw-truncation-loss")
def kip101_hw_truncation_loss() -> Claim:
    """A follower of a new leader cuts its log to its own stale high watermark, up to 0.10.2."""
    return Claim(
        number=1,
        subject="leader epochs",
        sentence="A follower that follows a new leader cuts its log to its own stale high "
        "watermark, so a record that was acknowledged and fully replicated can vanish; since 0.11 "
        "it asks for the leader's epochs first.",
        source="KIP-101, scenario 1; KAFKA-1211",
        # The batch must reach the followers with one fetch: with a second one they would hear that
        # its first part is committed. So it is sent when it is full, however slow the machine is.
        contract=Contract(acks="all", min_isr=2, linger_ms=5000),
        # B leads first: it is the preferred leader, and A comes next.
        assignment=((2, 1, 3),),
        # Parked fetches let a follower's high watermark stay behind after an idle batch.
        config=lambda _: {
            "replica.fetch.wait.max.ms": str(PARKED_S * 1000),
            "replica.lag.time.max.ms": "60000",
        },
        script=script,
        expects=(
            Expectation(
                versions=Versions(before="0.11"), words="loses the batch", test=loses("doomed")
            ),
            Expectation(versions=Versions(since="0.11"), words="keeps it", test=keeps_all()),
        ),
    )
