"""Claim 42: an idle follower's fetch names nothing."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.finding import Finding, confirmed, expectation, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

PARTITIONS = 200
FOLLOWERS = 2
LEAST_BYTES = 16
"""Of each partition in a full fetch: its number, the offset, and how much is wanted."""
_WINDOW_S = 8.0
_WARM_UP_S = 3.0
FETCHES = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=FetchFollower,*"
SESSIONS = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"


def script(lab: Lab) -> None:
    """Count what an idle leader of many partitions receives for each fetch of its followers."""
    a, _, _ = lab.brokers
    lab.produce("warm-up", 10)
    for partition in (0, PARTITIONS - 1):
        lab.await_isr(lab.brokers, partition=partition)
    lab.wait(_WARM_UP_S)
    fetches, received = lab.measured(a, FETCHES, "Count"), lab.cluster.received_bytes(a)
    lab.wait(_WINDOW_S)
    # The bytes first: what comes while the JVM is asked counts as a fetch more, not as bytes.
    received = lab.cluster.received_bytes(a) - received
    fetches = lab.measured(a, FETCHES, "Count") - fetches
    lab.require(fetches >= FOLLOWERS, f"only {fetches} fetches were counted")
    lab.observe("fetches", fetches)
    lab.observe("bytes_each", round(received / fetches))
    for sessions in lab.cluster.jmx(a, SESSIONS, "Value").values():
        lab.observe("sessions", round(sessions))


@expectation
def fetches_are(run: RecordedRun, *, full: bool) -> Finding:
    """Expect that idle fetches name every partition, or none, and that sessions are as many."""
    each, sessions = run.facts("bytes_each"), run.facts("sessions")
    if not each:
        return unknown("No fetch was counted.")
    words = (
        f"An idle leader of {PARTITIONS} partitions received {each[0]} bytes a fetch, where "
        f"naming all takes {LEAST_BYTES * PARTITIONS} at least; sessions: "
        f"{sessions[0] if sessions else 'none known'}."
    )
    if full:
        held = each[0] >= LEAST_BYTES * PARTITIONS and not sessions
    else:
        held = each[0] < LEAST_BYTES * PARTITIONS / 2 and sessions == [FOLLOWERS]
    return confirmed(words) if held else refuted(words)


@claim("fetch-session-incremental")
def fetch_session_incremental() -> Claim:
    """Since 1.1 an idle follower's fetch names no partition, and a session stands for them all.

    What the leader's network received, by the kernel's count, over the fetches of followers, by
    the broker's own; there is a little besides, heartbeats and our questions for the metadata.
    """
    return Claim(
        number=42,
        subject="fetch sessions",
        sentence="Since 1.1 a follower keeps one fetch session with each leader and names only "
        "what has changed, so the fetches of an idle cluster are nearly empty; before, each named "
        "every partition.",
        source="KIP-227 (1.1.0)",
        contract=Contract(acks="1", min_isr=1),
        assignment=((1, 2, 3),) * PARTITIONS,
        needs_fresh_cluster=True,
        script=script,
        expects=(
            Expectation(
                versions=Versions(before="1.1"),
                words="each fetch names every partition",
                test=fetches_are(full=True),
            ),
            Expectation(
                versions=Versions(since="1.1"),
                words="idle fetches are empty",
                test=fetches_are(full=False),
            ),
        ),
    )
