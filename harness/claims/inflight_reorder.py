"""Claim 52: what is in flight passes what has to be retried."""

import time

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.clients import PendingBatch
from harness.lab.expectations import all_of, keeps_all, keeps_order, reorders
from harness.lab.lab import Lab

HOLD_S = 5.0
"""So long does the leader answer nothing on a connection whose write waits for a follower."""
CONFIG = {
    "batch.num.messages": 1,
    "linger.ms": 0,
    "request.timeout.ms": int(HOLD_S * 1000),
    "socket.timeout.ms": 60_000,
    "retry.backoff.ms": 1000,
    "retry.backoff.max.ms": 1000,
}


def script(lab: Lab) -> None:
    """Refuse the first of two writes, and take the second, both of them on their way.

    A broker takes the requests of a connection one after another, and the next only once it has
    answered: a write to partition 1, whose follower is cut off and in the ISR, holds those behind
    it for as long as its time-out says. Two of these hold, one each, the two writes to partition
    0 that matter, and in between partition 0 is made writable.
    """
    a, b, c = lab.brokers
    producers = {
        "pipelined": lab.producer(idempotence=False, max_in_flight=5, config=CONFIG),
        "one at a time": lab.producer(idempotence=False, max_in_flight=1, config=CONFIG),
    }
    if lab.since("1.0"):
        producers["idempotent"] = lab.producer(idempotence=True, max_in_flight=5, config=CONFIG)
    for kind, producer in producers.items():
        producer.send(f"warm {kind}", 1)
        producer.begin(f"warm too {kind}", 1, partition=1).settle()
    lab.kill(b)
    lab.await_isr_at_leader({a}, partition=0)
    lab.require(lab.isr(1) == {a, c}, "the follower of partition 1 left the ISR")
    cut = lab.cut(a, (c,))
    writes: list[PendingBatch] = []
    holds: list[PendingBatch] = []
    begin = time.monotonic()
    for what, partition in (("gate", 1), ("first", 0), ("hold", 1), ("second", 0)):
        for kind, producer in producers.items():
            order = producer.begin(f"{what} {kind}", 1, partition=partition)
            (holds if partition else writes).append(order)
        lab.wait(0.2)
    first_refused_s, second_taken_s = HOLD_S + 0.8, 2 * HOLD_S
    lab.wait(first_refused_s - (time.monotonic() - begin))
    lab.cluster.alter_topic(lab.topic, {"min.insync.replicas": "1"})
    took_s = time.monotonic() - begin
    lab.require(took_s < second_taken_s, f"the change took effect after {took_s:.1f} s only")
    for write in writes:
        write.settle()
    lab.heal(cut)
    for hold in holds:
        hold.settle()
    lab.start(b)
    lab.await_full_isr()


@claim("inflight-reorder")
def inflight_reorder() -> Claim:
    """A refused write is retried behind the writes that were in flight with it.

    A refusal and the write behind it lie a millisecond apart, and librdkafka sends nothing new
    while a retry waits: to lower min.insync.replicas under a stream of records, as the recipe had
    it, is a race that is hardly ever won. Held apart by writes that wait for a follower, they are
    reordered every time. On 4.3.1 the second write was at offset 3, the first one at 6.
    """
    return Claim(
        number=52,
        subject="idempotence and order",
        sentence="With several requests in flight and no idempotence a retry lets later records "
        "pass; with one request in flight, or idempotence, the order is kept.",
        source="Kafka's documentation of max.in.flight.requests.per.connection",
        contract=Contract(min_isr=2, replication_factor=2, idempotence=False),
        assignment=((1, 2), (1, 3)),
        config=lambda _: {"replica.lag.time.max.ms": "60000"},
        script=script,
        expects=(
            Expectation(
                words="reorders what was pipelined without idempotence only",
                test=all_of(
                    reorders("second pipelined"),
                    keeps_order(
                        "first one at a time",
                        "second one at a time",
                        "first idempotent",
                        "second idempotent",
                    ),
                    keeps_all(),
                ),
            ),
        ),
    )
