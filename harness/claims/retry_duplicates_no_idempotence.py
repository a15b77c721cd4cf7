"""Claim 50: a retry without idempotence writes again."""

from faults.client_link import ClientLink
from harness.core.contract import Contract
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, keeps_all, repeats
from harness.lab.lab import Lab

HASTY = {"request.timeout.ms": 2000, "socket.timeout.ms": 3000}
"""The leader may gather acknowledgements for two seconds; the client waits for one more."""


def script(lab: Lab) -> None:
    """Let the leader append what it cannot acknowledge in time; then swallow what it answers."""
    a, b, c = lab.brokers
    producer = lab.producer(config=HASTY)
    producer.send("shared", 10)
    cut = lab.cut(a, (b, c))
    late = producer.begin("late", 100)
    # Longer than the request may take, so that it is sent a second time at the least.
    lab.wait(3.5)
    lab.require(not late.is_settled, "the records were acknowledged though no follower had them")
    lab.require(lab.isr() == {a, b, c}, "a follower left the ISR too early")
    lab.heal(cut)
    late.settle()
    producer.flow("unheard", 50)
    deaf = lab.inject(ClientLink(direction="to_client"), a)
    # Longer than the client waits for an answer: it gives the connection up.
    lab.wait(4.5)
    lab.heal(deaf)
    producer.halt().settle()


@claim("retry-duplicates-no-idempotence")
def retry_duplicates_no_idempotence() -> Claim:
    """A record whose acknowledgement did not come in time is written twice by the retry.

    It comes late because the followers are cut off and stay in the ISR: the leader has appended,
    and answers REQUEST_TIMED_OUT. Or it is lost on its way: the leader and its followers are well,
    and only what they tell the client is swallowed.
    """
    return Claim(
        number=50,
        subject="idempotence and order",
        sentence="Without idempotence a producer that retries after a lost acknowledgement writes "
        "its records again; none is lost.",
        source="KIP-98",
        contract=Contract(idempotence=False, retries=5),
        config=lambda _: {"replica.lag.time.max.ms": "60000"},
        script=script,
        expects=(
            Expectation(
                words="writes them again", test=all_of(repeats("late", "unheard"), keeps_all())
            ),
        ),
    )
