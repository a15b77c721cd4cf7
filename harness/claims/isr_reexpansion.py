"""Claim 35: a follower comes back into the ISR with all that is committed."""

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.finding import Finding, confirmed, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

RECORDS = 2000
BACK_S = 120.0
FEWEST = 3
_LIMIT_S = 4.0
_MOVES_S = 2.0


def script(lab: Lab) -> None:
    """Let two followers catch up by one batch a fetch, and look all the time who is in the ISR."""
    a, b, c = lab.brokers
    lab.produce("shared", 10)
    cut = lab.cut(a, (b, c))
    one_a_batch = {"batch.num.messages": 1, "linger.ms": 0}
    missed = lab.produce("missed", RECORDS, config=one_a_batch)
    lab.require(missed.acked == RECORDS, f"{missed.acked} of {RECORDS} were acknowledged")
    lab.await_isr({a})
    # On 2.8.2 the high watermark stays behind after a shrink, until something is written
    # (KAFKA-13091).
    lab.sees(lambda: lab.high_watermark() == missed.end_offset, within_s=_MOVES_S)
    last = lab.produce("last", 1)
    # Nothing is written any more, so the high watermark stays.
    lab.wait_until(lambda: lab.high_watermark() == last.end_offset, what="the high watermark")
    lab.heal(cut)

    def all_back() -> bool:
        isr = lab.isr()
        for broker in (b, c):
            # Read after the ISR: the log can only be longer by now than when it was let in.
            lab.observe("inside" if broker in isr else "outside", lab.log_end(broker))
        return isr == {a, b, c}

    lab.observe("high_watermark", last.end_offset)
    back_s = lab.sees(all_back, within_s=BACK_S)
    lab.observe("back_s", back_s and round(back_s, 2))


def complete(run: RecordedRun) -> Finding:
    """Judge every look at a follower that was in the ISR."""
    inside, outside = run.facts("inside"), run.facts("outside")
    back_s, highs = run.facts("back_s"), run.facts("high_watermark")
    if not highs or not back_s:
        return unknown("Nobody was looked at.")
    high = highs[0]
    behind = [end for end in outside if end < high]
    early = [end for end in inside if end < high]
    words = (
        f"The high watermark was {high}; followers out of the ISR were seen behind it "
        f"{len(behind)} times, followers in it {len(early)} times of {len(inside)}; all were back "
        f"after {back_s[0]} s."
    )
    if early:
        return refuted(f"{words} The first ended at {early[0]}.")
    if back_s[0] is None:
        return refuted(f"{words} {BACK_S:g} s did not do.")
    if len(behind) < FEWEST or not inside:
        return unknown(f"{words} That was too fast to be seen.")
    return confirmed(words)


@claim("isr-reexpansion")
def isr_reexpansion() -> Claim:
    """A follower comes back into the ISR when its log reaches the high watermark, not before.

    The followers are slow because a fetch brings one batch only, and each record is a batch. Their
    log ends are read from their disks. What else later versions ask for, the start of the leader's
    epoch (2.1) and that it is not fenced (3.3), is not put to the test.

    On 2.8.2 the high watermark stayed at 10 for a minute after the ISR had shrunk to the leader,
    which had 2010 records, and followers with a few dozen came back by that stale mark: what is
    committed was less than what was acknowledged with acks=1. One more record moves it.
    """
    return Claim(
        number=35,
        subject="the ISR",
        sentence="A follower that has fallen behind comes back into the ISR once its log reaches "
        "the high watermark, and not before; 120 s are enough when it can fetch again.",
        source="kafka.cluster.Partition, maybeExpandIsr; KAFKA-7128",
        contract=Contract(acks="1", min_isr=1),
        config=lambda _: {
            "replica.lag.time.max.ms": str(int(_LIMIT_S * 1000)),
            "replica.fetch.max.bytes": "1",
        },
        script=script,
        expects=(Expectation(words="comes back with all that is committed", test=complete),),
    )
