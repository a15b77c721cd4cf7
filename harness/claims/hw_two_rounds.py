"""Claim 41: a follower learns of a new high watermark one fetch late."""

from collections.abc import Callable
from math import inf

from harness.core.cluster import Broker
from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.clients import patient
from harness.lab.expectations import all_of, sees
from harness.lab.finding import Test
from harness.lab.lab import Lab

PARKED_S = 10
_SOON_S = 5.0
_WRITTEN_DOWN_S = 0.5


def script(lab: Lab) -> None:
    """Write one batch to an idle partition whose followers' fetches are parked."""
    a, _, c = lab.brokers
    # A new partition may be fetched only once the fetch that was parked before it ends.
    producer = lab.producer(config=patient(3 * PARKED_S))
    warm = producer.send("warm-up", 10)
    lab.await_high_watermark(warm.end_offset, on=lab.brokers)
    batch = producer.send("batch", 10)
    lab.require(batch.end_offset is not None, "the offsets of the batch were not told")
    leader_s = lab.sees(_has(lab, a, batch.end_offset), within_s=PARKED_S)
    lab.require(lab.log_end(c) == batch.end_offset, "the follower does not have the batch")
    follower_s = lab.sees(_has(lab, c, batch.end_offset), within_s=3 * PARKED_S)
    lab.observe("leader_s", leader_s and round(leader_s, 2))
    lab.observe(
        "follower_s",
        None if leader_s is None or follower_s is None else round(leader_s + follower_s, 2),
    )


def _has(lab: Lab, broker: Broker, offset: int | None) -> Callable[[], bool]:
    return lambda: lab.checkpoint(broker, "replication-offset-checkpoint") == offset


def _knew(least_s: float, most_s: float, words: str) -> Test:
    return all_of(
        sees("leader_s", lambda s: s is not None and s < _SOON_S, "the leader knew at once"),
        sees("follower_s", lambda s: s is not None and least_s <= s < most_s, words),
    )


@claim("hw-two-rounds")
def hw_two_rounds() -> Claim:
    """A follower hears with its next fetch that what the last one brought is committed.

    Seen in the file where each broker writes its high watermarks down, here twice a second. On an
    idle partition the next fetch is parked at the leader, for ten seconds here, so the follower
    has all records and a stale high watermark for as long. 2.4 and 2.5 answer a parked fetch as
    soon as the high watermark has moved (KAFKA-8443), which was taken back in 2.6 (KAFKA-9952).
    """
    return Claim(
        number=41,
        subject="log end and high watermark",
        sentence="A follower learns of a new high watermark with the fetch after the one that "
        "brought the records; on an idle partition that is a whole replica.fetch.wait.max.ms "
        "later, but for 2.4 and 2.5.",
        source="KAFKA-8443, KAFKA-9952; KIP-101",
        contract=Contract(acks="all", min_isr=2),
        config=lambda _: {
            "replica.fetch.wait.max.ms": str(PARKED_S * 1000),
            "replica.lag.time.max.ms": "60000",
            "replica.high.watermark.checkpoint.interval.ms": str(int(_WRITTEN_DOWN_S * 1000)),
        },
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="2.4", before="2.6"),
                words="knows at once",
                test=_knew(0.0, _SOON_S, "and so did the follower"),
            ),
            Expectation(
                words="knows one parked fetch later",
                test=_knew(
                    PARKED_S - 2,
                    inf,
                    f"the follower knew after its parked fetch of {PARKED_S:g} s only",
                ),
            ),
        ),
    )
