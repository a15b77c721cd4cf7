"""Claim 51: idempotence writes a record once."""

from faults.client_link import ClientLink
from harness.core.contract import Contract
from harness.core.version import Versions
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, keeps_all, keeps_order, repeats_only
from harness.lab.lab import Lab

HASTY = {"request.timeout.ms": 2000, "socket.timeout.ms": 3000, "batch.num.messages": 10}
"""Ten requests, each asked again if it is not answered in two or three seconds."""

CAREFUL = ("idempotent", "idempotent, unheard", "killed")


def script(lab: Lab) -> None:
    """Do to an idempotent producer and to another what repeats records; then kill the leader."""
    a, b, c = lab.brokers
    # Before 1.0 brokers remember one batch of each producer only (KAFKA-5494).
    in_flight = 5 if lab.since("1.0") else 1
    plain = lab.producer(idempotence=False, retries=100, config=HASTY)
    careful = lab.producer(idempotence=True, max_in_flight=in_flight, config=HASTY)
    plain.send("shared", 10)
    careful.send("shared too", 10)
    cut = lab.cut(a, (b, c))
    twice, once = plain.begin("plain", 100), careful.begin("idempotent", 100)
    # Longer than the request may take, so that it is sent a second time at the least.
    lab.wait(3.5)
    lab.require(not once.is_settled, "the records were acknowledged though no follower had them")
    lab.require(lab.isr() == {a, b, c}, "a follower left the ISR too early")
    lab.heal(cut)
    twice.settle()
    once.settle()
    plain.flow("plain, unheard", 50)
    careful.flow("idempotent, unheard", 50)
    deaf = lab.inject(ClientLink(direction="to_client"), a)
    # Longer than the client waits for an answer: it gives the connection up.
    lab.wait(4.5)
    lab.heal(deaf)
    for producer in (plain, careful):
        producer.halt().settle()
    careful.flow("killed", 500)
    lab.wait(1.0)
    lab.kill(a)
    lab.await_failover(a)
    lab.wait(1.0)
    rest = careful.halt()
    lab.start(a)
    rest.settle()


@claim("idempotence-no-duplicates")
def idempotence_no_duplicates() -> Claim:
    """The same damage repeats what a plain producer sent, and nothing of an idempotent one."""
    return Claim(
        number=51,
        subject="idempotence and order",
        sentence="An idempotent producer writes each record once and in order, whatever it has to "
        "retry, also across the death of the leader.",
        source="KIP-98; KAFKA-5494",
        contract=Contract(),
        config=lambda _: {"replica.lag.time.max.ms": "60000"},
        script=script,
        expects=(
            Expectation(
                versions=Versions(since="0.11"),
                words="repeats the plain producer's records only",
                test=all_of(
                    repeats_only("plain", "plain, unheard", never=CAREFUL),
                    keeps_order(*CAREFUL),
                    keeps_all(),
                ),
            ),
        ),
    )
