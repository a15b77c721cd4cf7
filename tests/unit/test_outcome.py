import pytest
from confluent_kafka import KafkaError

from harness.core.contract import Contract
from harness.core.op import OpType
from workloads.outcome import DEFINITE, outcome_of, single_attempt

CODES = {
    name: code
    for name in dir(KafkaError)
    if name.isupper() or (name.startswith("_") and name[1:].isupper())
    if isinstance(code := getattr(KafkaError, name), int)
}


def test_the_table_names_only_errors_that_exist() -> None:
    assert set(DEFINITE) <= set(CODES)


def test_these_errors_are_definite_and_no_others() -> None:
    """Each is refused before the log is touched, or never leaves the client's process."""
    assert set(DEFINITE) == {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_MSG",
        "INVALID_MSG_SIZE",
        "INVALID_RECORD",
        "INVALID_REQUIRED_ACKS",
        "INVALID_TIMESTAMP",
        "MSG_SIZE_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_VERSION",
        "_BAD_COMPRESSION",
        "_INVALID_ARG",
        "_PURGE_QUEUE",
        "_QUEUE_FULL",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }


def test_every_entry_has_a_reason_and_a_source() -> None:
    assert all(entry.reason.endswith(".") and entry.source for entry in DEFINITE.values())


def test_an_error_that_is_not_in_the_table_is_info() -> None:
    assert outcome_of(31_337, single=True) is OpType.INFO
    for name in set(CODES) - set(DEFINITE):
        assert outcome_of(CODES[name], single=True) is OpType.INFO, name


@pytest.mark.parametrize(
    "name",
    [
        "_MSG_TIMED_OUT",
        "_TRANSPORT",
        "_TIMED_OUT",
        "_PURGE_INFLIGHT",
        "_FATAL",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN",
    ],
)
def test_errors_after_which_the_record_may_lie_in_the_log_are_info(name: str) -> None:
    assert outcome_of(CODES[name], single=True) is OpType.INFO


def test_a_definite_error_fails_the_record_only_if_it_met_the_only_attempt() -> None:
    for name in DEFINITE:
        assert outcome_of(CODES[name], single=True) is OpType.FAIL
        assert outcome_of(CODES[name], single=False) is OpType.INFO


@pytest.mark.parametrize(
    ("contract", "single"),
    [
        (Contract(acks="1", retries=0), True),
        (Contract(acks="0", retries=0), True),
        (Contract(acks="1"), False),
        (Contract(acks="1", retries=1), False),
        # A deposed leader answers NOT_LEADER after it appended, and that is repeated uncounted.
        (Contract(acks="all", idempotence=False, retries=0), False),
    ],
)
def test_only_without_retries_and_without_acks_all_is_there_one_attempt(
    contract: Contract, single: bool
) -> None:
    assert single_attempt(contract) is single
