"""Claim 27: unclean election buys availability with what was acknowledged."""

from collections.abc import Callable

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, loses, sees
from harness.lab.finding import Test
from harness.lab.lab import Lab

LED_AFTER = "seconds until the stale replica led by itself"


def script(lab: Lab) -> None:
    """Leave the follower behind, kill the leader, and bring back the follower only."""
    a, b = lab.brokers
    shared = lab.produce("shared", 10)
    lab.await_high_watermark(shared.end_offset, on=(a, b))
    lab.kill(b)
    lab.await_isr({a})
    lab.produce("alone", 100)
    lab.kill(a)
    lab.start(b)
    # Nobody is elected before the dead leader's session ends: that takes 18 s on 2.5 to 3.2.
    led_after_s = lab.sees(lambda: lab.leader() == b, within_s=30.0)
    lab.observe(LED_AFTER, led_after_s)
    if led_after_s is None and lab.since("2.4"):
        lab.cluster.admin.elect_leader(lab.topic, 0, unclean=True)
        lab.await_leader(b)
    lab.produce("after", 10, delivery_timeout_ms=20_000)
    lab.start(a)
    lab.await_full_isr()


def _expect(led: Callable[[float | None], bool], words: str) -> Test:
    return all_of(loses("alone"), sees(LED_AFTER, led, words))


@claim("unclean-on-loses")
def unclean_on_loses() -> Claim:
    """With unclean election on, a stale replica leads within seconds, and the others cut theirs.

    KRaft reads the setting since 3.9 only; before, nobody leads until an operator asks for an
    unclean election (KIP-460), and then the same is lost. Versions from 3.3 on run on KRaft here.
    On 3.6.2 nobody led for 15 s; asked to, the stale replica led, and A cut what it alone had. On
    4.3.1 it led within 7 s of answering; nothing waited for the five minutes of
    unclean.leader.election.interval.ms. The high watermark has to be on the follower's disk before
    it dies: on 0.10.2.2 it else cut the shared records too when it came back (KIP-101, claim 1),
    led without them, and took their offsets for others.
    """
    return Claim(
        number=27,
        subject="acks and min.insync.replicas",
        sentence="With unclean.leader.election.enable=true a replica outside the ISR leads when no "
        "other is left, and what it had not copied is lost though it was acknowledged.",
        source="KAFKA-1028; KAFKA-12670 for KRaft; KIP-460",
        contract=Contract(min_isr=1, replication_factor=2, unclean_election=True),
        assignment=((1, 2),),
        brokers=2,
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="3.3", before="3.9"),
                words="no leader until it is asked for, then loses what it lacks",
                test=_expect(lambda after_s: after_s is None, "no leader until asked for"),
            ),
            Expectation(
                words="loses what the stale replica lacked",
                test=_expect(lambda after_s: after_s is not None, "a leader again"),
            ),
        ),
    )
