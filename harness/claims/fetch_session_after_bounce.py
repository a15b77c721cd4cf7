"""Claim 44: a leader that comes back has forgotten all sessions, and no record is skipped."""

import re

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds_no, keeps_all, sees
from harness.lab.lab import Lab

FOLLOWERS = 2
_RATE_PER_S = 100
_SESSIONS = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"
_REFUSED = re.compile("FETCH_SESSION_ID_NOT_FOUND|INVALID_FETCH_SESSION_EPOCH")


def script(lab: Lab) -> None:
    """Let A lose its memory and lead again, while records flow."""
    a, b, c = lab.brokers
    flow = lab.producer().flow("flow", _RATE_PER_S)
    lab.await_isr(lab.brokers)
    lab.wait_until(
        lambda: lab.measured(a, _SESSIONS) >= FOLLOWERS, what="sessions of both followers with A"
    )
    lab.observe("sessions_before", lab.measured(a, _SESSIONS))
    # Whoever leads dies, so that A, the first of the replicas, leads again by the second death.
    lab.kill(a)
    lab.await_leader(b)
    lab.start(a)
    lab.await_isr(lab.brokers)
    lab.kill(b)
    lab.await_leader(a)
    lab.start(b)
    lab.await_isr(lab.brokers)
    lab.wait_until(
        lambda: lab.measured(a, _SESSIONS) >= FOLLOWERS, what="sessions of both followers with A"
    )
    lab.observe("sessions_after", lab.measured(a, _SESSIONS))
    lab.observe("refused", sum(len(_REFUSED.findall(lab.cluster.said(x))) for x in (b, c)))
    flow.halt().settle()


@claim("fetch-session-after-bounce")
def fetch_session_after_bounce() -> Claim:
    """After its leader's restart a follower opens a new session, in full, and skips no record.

    A session that its leader has forgotten is refused with FETCH_SESSION_ID_NOT_FOUND; how often
    that happened is noted and not judged: on 4.3.1 it did not, for followers whose leader dies
    are told of another one, and drop the session with it.
    """
    return Claim(
        number=44,
        subject="fetch sessions",
        sentence="A leader that restarts has forgotten all fetch sessions; its followers open new "
        "ones with a full fetch, and no record is skipped.",
        source="KIP-227 (1.1.0); KAFKA-9137",
        contract=Contract(acks="all", min_isr=2),
        needs_fresh_cluster=True,
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="1.1"),
                words="new sessions, no loss",
                test=all_of(
                    sees("sessions_before", lambda n: n == FOLLOWERS, "one session a follower"),
                    sees("sessions_after", lambda n: n == FOLLOWERS, "and again after the restart"),
                    keeps_all(),
                    finds_no("replica-divergence"),
                ),
            ),
        ),
    )
