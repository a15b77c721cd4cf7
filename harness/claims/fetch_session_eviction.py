"""Claim 43: who finds no room for a session fetches in full, until a stale one is evicted."""

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, keeps_all
from harness.lab.finding import Finding, confirmed, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

SLOTS = 8
FETCHERS = 8
STALE_S = 120.0
_RATE_PER_S = 50
_WARM_UP_S = 5.0
_SESSIONS = ("kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions,*", "Value")
_EVICTIONS = (
    "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec,*",
    "Count",
)


def script(lab: Lab) -> None:
    """Let twice as many fetchers as there are slots follow A; end them all, and let them return."""
    a, b, c = lab.brokers
    flows = [lab.producer(partition=number) for number in range(FETCHERS)]
    for number, flow in enumerate(flows):
        flow.send(f"first {number}", 10)
    flows[0].flow("flow", _RATE_PER_S)
    for number in range(FETCHERS):
        lab.await_isr(lab.brokers, partition=number)
    lab.wait(_WARM_UP_S)
    lab.observe("sessions", lab.measured(a, *_SESSIONS))
    lab.observe("evictions_while_fresh", lab.measured(a, *_EVICTIONS))
    # Who has a slot and who has none must both copy all the same: acks=all waits for all fetchers.
    for number, flow in enumerate(flows[1:], start=1):
        sent = flow.send(f"second {number}", 10)
        lab.require(sent.acked == 10, f"{sent.acked} of 10 were acknowledged")
    lab.kill(b, c)
    lab.await_isr({a})
    lab.wait(STALE_S + 5)
    lab.start(b, c)
    for number in range(FETCHERS):
        lab.await_isr(lab.brokers, partition=number)
    lab.wait(_WARM_UP_S)
    lab.observe("sessions", lab.measured(a, *_SESSIONS))
    lab.observe("evictions_of_stale", lab.measured(a, *_EVICTIONS))
    flows[0].halt().settle()


def full_and_evicted(run: RecordedRun) -> Finding:
    """Judge the cache's size before and after, and its evictions."""
    sessions = run.facts("sessions")
    fresh, stale = run.facts("evictions_while_fresh"), run.facts("evictions_of_stale")
    if len(sessions) < 2 or not fresh or not stale:
        return unknown("The cache was not observed.")
    words = (
        f"{2 * FETCHERS} fetchers, {SLOTS} slots: {sessions[0]} sessions and {fresh[0]} evictions; "
        f"{STALE_S:g} s after the fetchers had died and others had come, {sessions[1]} sessions "
        f"and {stale[0]} evictions."
    )
    if max(sessions) > SLOTS or fresh[0] or not stale[0]:
        return refuted(words)
    if sessions[0] < SLOTS:
        return unknown(f"{words} The cache was not full.")
    return confirmed(words)


@claim("fetch-session-eviction")
def fetch_session_eviction() -> Claim:
    """A full cache makes fetches full, stops no replication, and only stale sessions are evicted.

    Each follower has eight fetchers, so that A is asked for sixteen sessions and has room for
    eight: one in each of the eight shards that there are since 3.8 (KAFKA-9401), in one cache
    before. The constant of 120 s cannot be set, so this claim takes minutes. Consumers are not put
    to the test: librdkafka asks for no sessions.
    """
    return Claim(
        number=43,
        subject="fetch sessions",
        sentence="max.incremental.fetch.session.cache.slots bounds the fetch sessions: fetchers "
        "beyond it fetch in full and lose nothing, and may take the slot of a session which was "
        "idle for 120 s.",
        source="KIP-227 (1.1.0); KAFKA-9401 (3.8.0)",
        contract=Contract(acks="all", min_isr=1),
        assignment=((1, 2, 3),) * FETCHERS,
        config=lambda _: {
            "num.replica.fetchers": str(FETCHERS),
            "max.incremental.fetch.session.cache.slots": str(SLOTS),
        },
        needs_fresh_cluster=True,
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="1.1"),
                words="full cache, stale sessions evicted, no loss",
                test=all_of(full_and_evicted, keeps_all()),
            ),
        ),
    )
