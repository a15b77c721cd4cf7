"""What is known of a transaction, and what may be done next."""

import pytest
from confluent_kafka import KafkaError

from harness.core.op import OpType
from workloads.txn_outcome import Remedy, remedy_of, txn_outcome


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        ({"fatal": True}, "replace"),
        ({"fatal": True, "txn_requires_abort": True}, "replace"),
        ({"txn_requires_abort": True}, "abort"),
        ({"txn_requires_abort": True, "retriable": True}, "abort"),
        ({"retriable": True}, "retry"),
        ({}, "replace"),
    ],
)
def test_the_client_library_says_what_may_be_done(flags: dict[str, bool], remedy: Remedy) -> None:
    assert remedy_of(KafkaError(KafkaError._TIMED_OUT, "a reason", **flags)) == remedy


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        ({"committed": True, "commit_tried": True}, OpType.OK),
        ({}, OpType.FAIL),
        ({"send_failed": True}, OpType.FAIL),
        ({"commit_tried": True}, OpType.INFO),
        ({"commit_tried": True, "send_failed": True}, OpType.FAIL),
        ({"commit_tried": True, "taken_over": True}, OpType.FAIL),
        # What the coordinator says counts, though it must not say so: see zombie-commit.
        ({"committed": True, "commit_tried": True, "taken_over": True}, OpType.OK),
    ],
)
def test_only_what_is_certain_has_failed(known: dict[str, bool], outcome: OpType) -> None:
    nothing = {
        "committed": False, "commit_tried": False, "send_failed": False, "taken_over": False,
    }  # fmt: skip

    assert txn_outcome(**(nothing | known)) is outcome
