"""Claim 23: an ISR that shrinks under a write that is already in the log."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.clients import patient
from harness.lab.expectations import all_of, appends_in_doubt, keeps_all, repeats, sees
from harness.lab.finding import Test
from harness.lab.lab import Lab

REQUEST_TIMEOUT_S = 14
"""Longer than twice the lag limit: the ISR shrinks while the write waits."""


def script(lab: Lab) -> None:
    """Cut the follower off, write, and let the ISR shrink while the leader waits for it."""
    a, b = lab.brokers
    lab.produce("shared", 10)
    consumer = lab.consumer()
    consumer.await_polled(10)
    config = patient(REQUEST_TIMEOUT_S)
    once, again = (lab.producer(config=config, retries=retries) for retries in (0, 100))
    once.send("warm", 1)
    again.send("warm too", 1)
    cut = lab.cut(a, (b,))
    single, retried = once.begin("single", 1), again.begin("retried", 1)
    lab.await_isr({a})
    single.settle()
    # Long enough for a consumer to be given what may be read.
    lab.sees(lambda: consumer.polled >= 14, within_s=3.0)
    lab.observe("records read before the follower is back", consumer.polled)
    lab.require(not retried.is_settled, "the retry ended while the ISR was too small")
    lab.heal(cut)
    lab.await_isr({a, b})
    retried.settle()


def _expect(error: str, *, readable: bool) -> Test:
    return all_of(
        appends_in_doubt("single", error),
        sees(
            "records read before the follower is back",
            lambda count: count >= 14 if readable else count == 12,
            "read at once" if readable else "hidden until the ISR is whole",
        ),
        repeats("retried"),
        keeps_all(),
    )


_HIDDEN = _expect("REQUEST_TIMED_OUT", readable=False)


@claim("not-enough-after-append")
def not_enough_after_append() -> Claim:
    """A write that waits while the ISR shrinks below the minimum ends in an error, and is there.

    Until 3.6 the leader's high watermark passes the record once the follower is out of the ISR:
    the waiting request ends at once in NOT_ENOUGH_REPLICAS_AFTER_APPEND, and consumers are given
    the record. Since 3.7 the high watermark stands still below the minimum (KAFKA-15583): the
    request times out, and the record is hidden until the follower is back. Seen on 2.8.2 to be
    just so, by a bug: a leader that takes the last follower out of the ISR itself forgets its
    high watermark until the next write (KAFKA-13091, of 2.7, fixed in 3.0).
    """
    return Claim(
        number=23,
        subject="acks and min.insync.replicas",
        sentence="If the ISR shrinks below min.insync.replicas while an acks=all write waits, the "
        "producer is told of an error though the record is in the log; a retry without "
        "idempotence writes it again.",
        source="Kafka: Partition.checkEnoughReplicasReachOffset, 3.6 and 3.7; KAFKA-15583",
        contract=Contract(min_isr=2, replication_factor=2, idempotence=False),
        assignment=((1, 2),),
        brokers=2,
        config=lambda _: {"replica.lag.time.max.ms": "4000"},
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="2.7", before="3.0"),
                words="REQUEST_TIMED_OUT, and hidden until the ISR is whole (KAFKA-13091)",
                test=_HIDDEN,
            ),
            Expectation(
                versions=Versions(before="3.7"),
                words="NOT_ENOUGH_REPLICAS_AFTER_APPEND, and read at once",
                test=_expect("NOT_ENOUGH_REPLICAS_AFTER_APPEND", readable=True),
            ),
            Expectation(
                versions=Versions(since="3.7"),
                words="REQUEST_TIMED_OUT, and hidden until the ISR is whole",
                test=_HIDDEN,
            ),
        ),
    )
