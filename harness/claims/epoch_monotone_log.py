"""Claim 8: what leader epochs promise about every log."""

from functools import partial

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import finds_no
from harness.lab.lab import Lab, letter

_ROUNDS = 3


def script(lab: Lab) -> None:
    """Kill the leader again and again under acks=1 load, so that logs are cut and continued."""
    flow = lab.producer().flow("under way", 300)
    for _ in range(_ROUNDS):
        leader = lab.leader() or lab.brokers[0]
        # What is committed in an epoch is all that stays of it: without, there is no trace.
        known = lab.high_watermark()
        lab.wait_until(
            partial(_is_above, lab, known), what=f"records in the epoch of {letter(leader)}"
        )
        others = [broker for broker in lab.brokers if broker != leader]
        # What the old leader writes alone is a tail that it must cut when it comes back.
        cut = lab.cut(leader, others)
        lab.wait(0.5)
        lab.kill(leader)
        lab.await_failover(leader)
        lab.heal(cut)
        lab.start(leader)
        lab.await_full_isr()
    flow.halt().settle()
    epochs = [epoch for epoch, _ in lab.epochs(lab.brokers[0])]
    lab.observe("epochs", epochs)
    lab.require(len(epochs) > _ROUNDS, f"there were only the epochs {epochs}")


def _is_above(lab: Lab, offset: int) -> bool:
    return lab.high_watermark() > offset


@claim("epoch-monotone-log")
def epoch_monotone_log() -> Claim:
    """In every log epochs never fall, agree with the checkpoint, and name one batch."""
    return Claim(
        number=8,
        subject="leader epochs",
        sentence="In every replica's log the epoch of the batches never falls with the offset and "
        "agrees with the leader-epoch-checkpoint, and one epoch and offset name one batch on "
        "all replicas.",
        source="KIP-101, KIP-279",
        # With acks=1 the old leader has a tail to cut each time; which records that costs is
        # not what is asked here.
        contract=Contract(acks="1", min_isr=1),
        config=lambda _: {"replica.lag.time.max.ms": "30000"},
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="0.11"),
                words="holds on all replicas",
                test=finds_no("epoch-disorder", "replica-divergence"),
            ),
        ),
    )
