"""Claim 25: a deposed leader that does not know it yet acknowledges what will be cut."""

from dataclasses import replace

from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds_no, loses_some
from harness.lab.finding import Finding, Outcome, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun

ROUNDS = 2
PATIENT = {"batch.num.messages": 1, "linger.ms": 0, "socket.timeout.ms": 120_000}
"""One record a request, and a client that holds on to the connection of a frozen broker."""


def script(lab: Lab) -> None:
    """Freeze the leader with requests in its socket, let another lead, and thaw it."""
    one, every = (
        lab.producer(acks=acks, idempotence=False, max_in_flight=1000, config=PATIENT)
        for acks in ("1", "all")
    )
    leader = lab.brokers[0]
    for sample in range(1, ROUNDS + 1):
        lab.await_full_isr()
        one.send(f"warm {sample}", 10)
        every.send(f"warm too {sample}", 10)
        frozen = lab.pause(leader)
        queued = one.begin(f"queued {sample}", 200)
        waiting = every.begin(f"waiting {sample}", 50)
        leader = lab.await_failover(leader)
        lab.heal(frozen)
        queued.settle()
        waiting.settle()
    lab.await_full_isr()


def _cuts_what_was_acknowledged(run: RecordedRun) -> Finding:
    queued = [f"queued {sample}" for sample in range(1, ROUNDS + 1)]
    finding = loses_some(*queued)(run)
    if finding.outcome is Outcome.REFUTED and not run.lost:
        # Whether the old leader acknowledges anything is a race with the news of its fall.
        return unknown(f"In {ROUNDS} of {ROUNDS} samples the deposed leader acknowledged nothing.")
    hit = sum(bool(run.lost & run.batches[name].acked) for name in queued)
    return replace(finding, words=f"{finding.words} Seen in {hit} of {ROUNDS} samples.")


@claim("zombie-leader-acks1-truncated")
def zombie_leader_acks1_truncated() -> Claim:
    """What a frozen leader finds in its sockets when it wakes, it acknowledges with acks=1.

    It has been deposed meanwhile, and cuts its log to the new leader's as soon as it hears of it.
    With acks=all the same damage costs nothing, since the ISR can no longer acknowledge. On 4.3.1,
    with 200 requests in the socket, 11 records in two samples were acknowledged and cut;
    on 0.10.2.2 all 400.
    """
    return Claim(
        number=25,
        subject="acks and min.insync.replicas",
        sentence="A leader that was paused and deposed still acknowledges acks=1 writes that it "
        "then cuts away; acks=all writes are not acknowledged, and none of them is lost.",
        source="KIP-101; KIP-320 on zombie leaders",
        contract=Contract(acks="1"),
        script=script,
        expects=(
            Expectation(
                words="loses what the deposed leader acknowledged with acks=1 only",
                test=all_of(_cuts_what_was_acknowledged, finds_no("replica-divergence")),
            ),
        ),
    )
