"""Claim 38: the high watermark lies below the log end of everybody in the ISR."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from harness.core.contract import Contract
from harness.core.limits import lag_and_session
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.finding import Finding, confirmed, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

LIMIT_S = 25.0
SAMPLES = 2
_RATE_PER_S = 100


def script(lab: Lab) -> None:
    """Freeze all brokers again and again and compare their logs, with one cut off, then without."""
    a, b, c = lab.brokers
    flow = lab.producer().flow("flow", _RATE_PER_S)
    lab.await_isr({a, b, c})
    lab.wait_until(lambda: flow.acked >= _RATE_PER_S, what="records")
    _freeze(lab)
    cut = lab.cut(a, [c])
    for _ in range(SAMPLES):
        _freeze(lab)
    lab.await_isr({a, b}, timeout_s=3 * LIMIT_S)
    _freeze(lab)
    lab.heal(cut)
    flow.halt().settle()


def _freeze(lab: Lab) -> None:
    """Note the high watermark, then the log ends of all brokers at one moment."""
    before, high = lab.isr(), lab.high_watermark()
    frozen = lab.pause(*lab.brokers)
    ends = {str(broker.node_id): lab.log_end(broker) for broker in lab.brokers}
    written = {
        str(broker.node_id): lab.checkpoint(broker, "replication-offset-checkpoint")
        for broker in lab.brokers
    }
    lab.heal(frozen)
    after = lab.isr()
    if before == after:
        isr = sorted(broker.node_id for broker in before)
        lab.observe("frozen", {"isr": isr, "high": high, "ends": ends, "written": written})


def never_above(run: RecordedRun) -> Finding:
    """Judge every sample of which the ISR is known.

    Log ends only grow, so a high watermark that was told before the freeze must not lie above one
    of them. That proves something where a follower that is in the ISR held it back.
    """
    samples = run.facts("frozen")
    above = [sample for sample in samples if _high(sample) > _least(sample)]
    held = [s for s in samples if len(s["isr"]) == 3 and _least(s) <= _longest(s) - _RATE_PER_S]
    passed = [s for s in samples if len(s["isr"]) == 2 and _high(s) > min(s["ends"].values())]
    words = (
        f"{len(samples)} times all brokers were frozen; the high watermark lay above the log end "
        f"of a member of the ISR {len(above)} times, {len(held)} times a member was a "
        f"second behind the leader, and {len(passed)} times it had passed one who had left."
    )
    if above:
        return refuted(f"{words} The first: {above[0]}.")
    if not held or not passed:
        return unknown(words)
    return confirmed(words)


def _high(sample: Mapping[str, Any]) -> int:
    """Return the highest high watermark that anybody told."""
    return int(max(sample["high"], *(known or 0 for known in sample["written"].values())))


def _least(sample: Mapping[str, Any]) -> int:
    """Return where the shortest log in the ISR ended."""
    return min(int(sample["ends"][str(node)]) for node in sample["isr"])


def _longest(sample: Mapping[str, Any]) -> int:
    return max(int(end) for end in sample["ends"].values())


@claim("hw-min-leo")
def hw_min_leo() -> Claim:
    """The high watermark never lies above the log end of a member of the ISR.

    All brokers are stopped within milliseconds, and their segments read from their disks. One
    follower is cut off: it holds the high watermark back as long as it is in the ISR, and no
    longer.
    """
    return Claim(
        number=38,
        subject="log end and high watermark",
        sentence="The high watermark is the least log end in the ISR: it never lies above that of "
        "a member, and passes that of a follower which has left.",
        source="kafka.cluster.Partition, maybeIncrementLeaderHW; KIP-101",
        contract=Contract(acks="1", min_isr=1),
        # Nobody is to lose a session by being frozen, and a follower stay in the ISR for a while.
        config=partial(lag_and_session, lag_s=LIMIT_S, session_s=60),
        script=script,
        expects=(Expectation(words="never lies above a member's log", test=never_above),),
    )
