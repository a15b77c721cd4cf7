"""Claim 31: a follower that is cut off leaves the ISR after 1 to 1.5 times the limit."""

import time
from collections import Counter
from itertools import combinations

from harness.core.cluster import Broker
from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.finding import Finding, confirmed, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.lateness import measured_lateness
from harness.lab.recorded import RecordedRun

LIMIT_S = 4.0
ROUNDS = 2
FEWEST = 20
_RATE_PER_S = 20
_LATE_S = 1.0


def script(lab: Lab) -> None:
    """Cut every link, one after the other, while every broker leads something that is written."""
    producers = [lab.producer(partition=number) for number in range(len(lab.brokers))]
    for number, producer in enumerate(producers):
        producer.flow(f"flow {number}", _RATE_PER_S)
    with measured_lateness() as lateness:
        for _ in range(ROUNDS):
            _cut_every_link(lab)
    for leader in lab.brokers:
        waited = {
            (change.partition, node, caught_up_ms): change.at_ms - caught_up_ms
            for change in lab.isr_changes(leader)
            for node, caught_up_ms in change.caught_up_ms.items()
        }
        for waited_ms in waited.values():
            lab.observe("by_leader", round(waited_ms / 1000 / LIMIT_S, 3))
    lab.observe("late_s", round(lateness.longest_s, 2))
    for producer in producers:
        producer.halt().settle()


def _cut_every_link(lab: Lab) -> None:
    for number in range(len(lab.brokers)):
        lab.await_isr(lab.brokers, partition=number)
    cuts = []
    begun: dict[tuple[Broker, Broker], tuple[int, int]] = {}
    for one, other in combinations(lab.brokers, 2):
        begin_ns = time.monotonic_ns()
        cuts.append(lab.cut(one, [other]))
        begun[one, other] = begun[other, one] = (begin_ns, time.monotonic_ns())
    for number, leader in enumerate(lab.brokers):
        lab.await_isr({leader}, partition=number)
    lab.wait_until(
        lambda: all(_gone_ns(lab, *pair, since_ns) for pair, (since_ns, _) in begun.items()),
        what="the timeline to show every shrink",
    )
    for pair, (begin_ns, cut_ns) in begun.items():
        gone_ns = _gone_ns(lab, *pair, begin_ns) or 0
        span = [round((gone_ns - since_ns) / 1e9 / LIMIT_S, 3) for since_ns in (cut_ns, begin_ns)]
        lab.observe("from_outside", span)
    lab.heal(*cuts)


def _gone_ns(lab: Lab, leader: Broker, follower: Broker, since_ns: int) -> int | None:
    """Return when the timeline first shows a leader's partition without a follower."""
    number = lab.brokers.index(leader)
    shown = (
        int(line["time_ns"])
        for line in lab.timeline()
        if line["time_ns"] > since_ns
        and line["partition"] == number
        and follower.node_id not in line["isr"]
    )
    return next(shown, None)


def within(run: RecordedRun) -> Finding:
    """Judge every sample, the leaders' where they tell, and those from outside always.

    A leader of 3.3 and later tells how long it waited, by one clock: never less than the limit.
    From outside the wait lies between two numbers, as the cut took effect at some time between
    its order and its witness; the follower had last caught up a little before. A sample is below
    only if the larger number is, by more than a second, and above only if the smaller one is.
    A late shrink refutes nothing where this machine's own threads were late.
    """
    outside, inside = run.facts("from_outside"), run.facts("by_leader")
    if len(outside) < FEWEST:
        return unknown(f"There are {len(outside)} samples of {FEWEST}.")
    late_s = max(run.facts("late_s"), default=0.0)
    slack = _LATE_S / LIMIT_S
    early = [x for x in inside if x < 1.0] + [x for x in outside if x[1] < 1.0 - slack]
    late = [x for x in inside if x > 1.5 + slack] + [x for x in outside if x[0] > 1.5 + slack]
    words = (
        f"{len(outside)} shrinks seen from outside, {_spread([x[1] for x in outside])} of the limit"
    )
    if inside:
        words += f"; {len(inside)} told by their leaders, {_spread(inside)}"
    words += f". Threads of this machine were up to {late_s:g} s late."
    if early:
        return refuted(f"Too early: {early}. {words}")
    if late and late_s < _LATE_S:
        return refuted(f"Too late: {late}. {words}")
    if late:
        return unknown(f"Late: {late}, on a machine that was late. {words}")
    return confirmed(words)


def _spread(samples: list[float]) -> str:
    """Return "1.02 to 1.47 (1.0: 3, 1.1: 4, …)": the ends, and how many lie in each tenth."""
    tenths = Counter(int(sample * 10) / 10 for sample in samples)
    shown = ", ".join(f"{tenth:.1f}: {count}" for tenth, count in sorted(tenths.items()))
    return f"{min(samples):.2f} to {max(samples):.2f} ({shown})"


@claim("isr-shrink-1x-1.5x")
def isr_shrink_1x_1_5x() -> Claim:
    """A follower that is cut off leaves the ISR after 1 to 1.5 times replica.lag.time.max.ms.

    Four brokers lead a partition each, and every link is cut, one after the other: twelve pairs of
    leader and follower in a round, each with its own distance to its leader's next look. Twice,
    so there are 24 samples; one number each, in multiples of the limit. By the leaders' own words
    they were, nearly evenly, 1.01 to 1.49 with a limit of 4 s and 1.00 to 1.48 with one of 10 s,
    on 4.3.1; from outside the same on 0.10.2.2 and 2.8.2.
    """
    return Claim(
        number=31,
        subject="the ISR",
        sentence="A follower that is cut off leaves the ISR between 1 and 1.5 times "
        "replica.lag.time.max.ms after it last caught up: the leader looks every half of that.",
        source="kafka.server.ReplicaManager: isr-expiration",
        contract=Contract(acks="1", min_isr=1, replication_factor=4),
        brokers=4,
        assignment=((1, 2, 3, 4), (2, 3, 4, 1), (3, 4, 1, 2), (4, 1, 2, 3)),
        config=lambda _: {"replica.lag.time.max.ms": str(int(LIMIT_S * 1000))},
        script=script,
        expects=(Expectation(words="leaves after 1 to 1.5 times the limit", test=within),),
    )
