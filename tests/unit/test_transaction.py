"""One transactional producer: what its calls raise, and what becomes of those that hang."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from workloads.client_config import Config
from workloads.transaction import Owner, TransactionalProducer, TransactionFailed
from workloads.txn_outcome import Remedy

CONFIG: Config = {"bootstrap.servers": "127.0.0.1:9", "transactional.id": "one", "log_level": 0}


def producer_of(library: Any, *, go_on: Callable[[], bool] = lambda: True) -> TransactionalProducer:
    """Return a producer whose calls are answered by a stand-in for librdkafka's binding."""
    owner = Owner(reported=lambda *_: None, met=lambda _: None, go_on=go_on)
    made = TransactionalProducer(dict(CONFIG), owner, limit_s=60)
    made._producer = library
    return made


class Answering:
    """Raises what it is given, one error a call, then succeeds."""

    def __init__(self, *errors: KafkaError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def commit_transaction(self, _: float) -> None:
        self.calls += 1
        if self.errors:
            raise KafkaException(self.errors.pop(0))

    def poll(self, _: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (KafkaError(KafkaError._FENCED, "fenced", fatal=True), "replace"),
        (KafkaError(KafkaError._MSG_TIMED_OUT, "lost", txn_requires_abort=True), "abort"),
        (KafkaError(KafkaError._STATE, "no transaction"), "replace"),
    ],
)
def test_a_call_that_fails_for_good_says_what_may_be_done(
    error: KafkaError, remedy: Remedy
) -> None:
    library = Answering(error)

    with pytest.raises(TransactionFailed) as failed:
        producer_of(library).commit()

    assert (failed.value.name, failed.value.remedy) == (error.name(), remedy)
    assert library.calls == 1


def test_a_call_that_may_be_made_again_is() -> None:
    again = KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True)
    library = Answering(again, again)

    producer_of(library).commit()

    assert library.calls == 3


def test_a_call_that_does_not_return_is_given_up() -> None:
    let_go = threading.Event()

    class Hanging(Answering):
        def commit_transaction(self, _: float) -> None:
            let_go.wait(30)

    patience = iter([True, True, False])
    producer = producer_of(Hanging(), go_on=lambda: next(patience))

    with pytest.raises(TransactionFailed) as failed:
        producer.commit()

    let_go.set()
    assert (failed.value.name, failed.value.remedy) == ("_TIMED_OUT", "replace")
