"""Claim 33: a frozen follower leaves the ISR when its session ends."""

import time

from harness.core.contract import Contract
from harness.core.version import FIRST_KRAFT, Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.finding import Finding, confirmed, expectation, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

LIMIT_S = 30.0
LATE_S = 4.0
_RATE_PER_S = 20
_QUIET_S = 8.0
"""An old leader tells of its ISR changes up to 7.5 s late, and the controller then all brokers."""


def script(lab: Lab) -> None:
    """Freeze a follower, and see who takes it out of the ISR, and when."""
    a, b, c = lab.brokers
    flow = lab.producer().flow("flow", _RATE_PER_S)
    lab.await_isr({a, b, c})
    if lab.has_zookeeper:
        lab.wait(_QUIET_S)
    known = len(lab.isr_changes(a))
    begin = time.monotonic()
    frozen = lab.pause(c)
    since_frozen = time.monotonic()
    lab.await_isr({a, b}, timeout_s=2 * LIMIT_S)
    now = time.monotonic()
    # It was frozen at some time between the two.
    lab.observe("gone_s", [round(now - since_frozen, 2), round(now - begin, 2)])
    by_leader = [change for change in lab.isr_changes(a)[known:] if c.node_id in change.left]
    lab.observe("announced_by_the_leader", len(by_leader))
    lab.heal(frozen)
    lab.observe("back_s", round(lab.await_isr({a, b, c}), 2))
    flow.halt().settle()


@expectation
def within(run: RecordedRun, session_s: float) -> Finding:
    """Expect that the session's end removed the follower: at its time, and not by the leader.

    The last heartbeat was up to a third of the session before the freeze; ZooKeeper looks every
    two or three seconds.
    """
    gone, leaders = run.facts("gone_s"), run.facts("announced_by_the_leader")
    if not gone or not leaders:
        return unknown("It was not seen to leave.")
    ((least_s, most_s),) = gone
    words = (
        f"It left {least_s:g} to {most_s:g} s after it was frozen, with a session of "
        f"{session_s:g} s and a limit of {LIMIT_S:g} s; its leader announced "
        f"{leaders[0]} shrinks."
    )
    if most_s >= session_s * 2 / 3 and least_s <= session_s + LATE_S and not leaders[0]:
        return confirmed(words)
    if not leaders[0] and least_s < LIMIT_S:
        # Not the leader's work, but slow: a controller on a busy machine.
        return unknown(words)
    return refuted(words)


def _expects() -> tuple[Expectation, ...]:
    first_kraft = ".".join(map(str, FIRST_KRAFT))
    sessions = (
        (Versions(before="2.5"), 6.0),
        (Versions(since="2.5", before=first_kraft), 18.0),
        (Versions(since=first_kraft), 9.0),
    )
    return tuple(
        Expectation(
            versions=versions, words=f"leaves with its session of {session_s:g} s",
            test=within(session_s),
        )
        for versions, session_s in sessions
    )  # fmt: skip


@claim("pause-removed-by-session-not-lag")
def pause_removed_by_session_not_lag() -> Claim:
    """A frozen follower is taken out of the ISR by the controller, when its session ends.

    The sessions are the defaults: 6 s with ZooKeeper up to 2.4, 18 s since 2.5, 9 s under KRaft.
    Had the leader done it by its limit, it would have announced it in its log, after 30 to 45 s.

    The controller of old can be held up: on 0.11.0.3 it saw the session end after 6 s, and took the
    follower out after 32 s only, as it waited for the frozen broker's answer to a request that it
    had sent just before (controller.socket.timeout.ms). So nothing may be on its way then.
    """
    return Claim(
        number=33,
        subject="the ISR",
        sentence="A follower that is frozen leaves the ISR when its session with ZooKeeper or the "
        "KRaft controller ends, not when replica.lag.time.max.ms is over, if that is longer.",
        source="KIP-500, KIP-631 (fencing); KafkaController.onBrokerFailure",
        contract=Contract(acks="1", min_isr=1),
        # A limit beyond all sessions, which stay at their defaults.
        config=lambda _: {"replica.lag.time.max.ms": str(int(LIMIT_S * 1000))},
        script=script,
        expects=_expects(),
    )
