"""Claim 7: a leader writes its epoch down when it is elected, and not only when it appends."""

from typing import Any

from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import sees
from harness.lab.lab import Lab


def script(lab: Lab) -> None:
    """Let leadership go from A to B and back, with nothing written in between."""
    a, b = lab.brokers[:2]
    lab.produce("written", 10)
    lab.kill(a)
    lab.await_leader(b)
    lab.start(a)
    lab.await_isr({a, b})
    lab.kill(b)
    lab.await_leader(a)
    lab.start(b)
    lab.await_isr({a, b})
    # The file is written by the leader's own thread just after it was elected.
    lab.sees(lambda: _is_recorded(_epochs(lab)), within_s=3.0)
    lab.observe("epochs", _epochs(lab))


def _epochs(lab: Lab) -> dict[str, Any]:
    leader = lab.brokers[0]
    return {"entries": lab.epochs(leader), "log_end": lab.log_end(leader)}


def _is_recorded(fact: Any) -> bool:  # noqa: ANN401 (a JSON value)
    """Return whether there is an epoch that begins where the log ends: one without records."""
    return any(start == fact["log_end"] for _, start in fact["entries"])


@claim("kafka7415-epoch-on-election")
def kafka7415_epoch_on_election() -> Claim:
    """Since 2.0.1 a new leader records its epoch and log end at election, before any append."""
    return Claim(
        number=7,
        subject="leader epochs",
        sentence="A new leader records its epoch and the end of its log when it is elected, even "
        "if nothing is ever written in that epoch; up to 2.0.0 the entry appeared with the "
        "first append.",
        source="KAFKA-7415, commit f2dd6aa2698",
        contract=Contract(acks="all", min_isr=1, replication_factor=2),
        assignment=((1, 2),),
        brokers=2,
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="2.0.1"),
                words="writes the idle epoch down",
                test=sees("epochs", _is_recorded, "an epoch begins where the log ends"),
            ),
            Expectation(
                versions=Versions(since="0.11", before="2.0.1"),
                words="does not write it down",
                test=sees("epochs", lambda fact: not _is_recorded(fact), "no epoch begins there"),
            ),
        ),
    )
