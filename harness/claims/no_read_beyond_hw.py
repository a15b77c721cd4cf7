"""Claim 40: a consumer is given nothing that is not committed."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds_no
from harness.lab.finding import Finding, confirmed, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

LIMIT_S = 20.0
SHARED, ALONE = 10, 100
FEWEST = 4
MOVES_S = 10.0


def script(lab: Lab) -> None:
    """Write to a leader whose followers are cut off, and read until they have left the ISR."""
    a, b, c = lab.brokers
    lab.produce("shared", SHARED)
    consumer = lab.consumer()
    consumer.await_polled(SHARED)
    cut = lab.cut(a, (b, c))
    lab.produce("alone", ALONE)
    lab.require(lab.log_end(a) == SHARED + ALONE, "the leader does not have the records")
    # What counts was polled before the ISR was seen to be full, so none of it was committed.
    samples: list[list[int]] = []

    def followers_left() -> bool:
        sample = [consumer.polled, lab.high_watermark()]
        if lab.isr() != {a, b, c}:
            return True
        samples.append(sample)
        lab.wait(0.5)
        return False

    lab.wait_until(followers_left, what="the followers to leave the ISR")
    for sample in samples:
        lab.observe("polled_and_high_watermark", sample)
    lab.await_isr({a})
    moved_s = lab.sees(lambda: lab.high_watermark() > SHARED, within_s=MOVES_S)
    lab.observe("high_watermark_moved_s", moved_s and round(moved_s, 2))
    lab.produce("last", 1)
    consumer.await_polled(SHARED + ALONE + 1)
    lab.observe("polled_at_last", consumer.polled)
    lab.heal(cut)


def nothing_early(run: RecordedRun) -> Finding:
    """Judge every sample; a consumer that was given the rest at last shows that it did read."""
    samples, at_last = run.facts("polled_and_high_watermark"), run.facts("polled_at_last")
    words = (
        f"{len(samples)} times the leader's log ended at {SHARED + ALONE} and its followers' at "
        f"{SHARED}: polled were {_most(samples, 0)} at most, and the high watermark was "
        f"{_most(samples, 1)} at most; when the followers had left, polled were {at_last}."
    )
    if any(polled > SHARED or high > SHARED for polled, high in samples):
        return refuted(words)
    if len(samples) < FEWEST or at_last != [SHARED + ALONE + 1]:
        return unknown(words)
    return confirmed(words)


def _most(samples: list[list[int]], place: int) -> int | None:
    return max((sample[place] for sample in samples), default=None)


@claim("no-read-beyond-hw")
def no_read_beyond_hw() -> Claim:
    """A consumer is given nothing that the ISR does not have, though the leader has it.

    On 2.8.2 the high watermark does not move when the followers have left, but with the next write
    only (KAFKA-13091): what was acknowledged stayed unread for a minute. How long it took is noted
    and not judged. The base part: the race of KAFKA-9835 (up to 2.5.0, a read that met an append)
    is not tried.
    """
    return Claim(
        number=40,
        subject="log end and high watermark",
        sentence="A consumer is given nothing beyond the high watermark: what a leader alone has "
        "waits until its followers have it or have left the ISR.",
        source="Kafka's documentation, replication: committed messages; KAFKA-9835",
        contract=Contract(acks="1", min_isr=1),
        config=lambda _: {"replica.lag.time.max.ms": str(int(LIMIT_S * 1000))},
        script=script,
        expects=(
            Expectation(
                words="reads nothing early", test=all_of(nothing_early, finds_no("dirty-read"))
            ),
        ),
    )
