"""What a producer's error says about the record: FAIL, it never happened; or INFO, nobody knows.

Of transactions the same is told in `workloads.txn_outcome`.

A wrong FAIL makes a false accusation (a record that "failed" and is read is G1a), a wrong INFO only
costs a little sharpness. So INFO is the default, and FAIL needs two things.

**The error itself must be definite.** `DEFINITE` names those: the broker refuses the request before
it touches the log, or the record never left this process. Not among them, on purpose:

- NOT_LEADER_FOR_PARTITION: a leader that is deposed while it waits for its followers answers with
  it after it has appended (KAFKA-13574).
- REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND: appended, not acknowledged.
- _MSG_TIMED_OUT: librdkafka knows whether the record may have been persisted
  (`rd_kafka_message_status`), but confluent-kafka does not pass it on.
- _TRANSPORT, _TIMED_OUT, _PURGE_INFLIGHT: the request was on its way.
- OUT_OF_ORDER_SEQUENCE_NUMBER and its kin: they speak of the producer's state, not of the record.
- KAFKA_STORAGE_ERROR, UNKNOWN: the broker itself does not know.

**And no earlier attempt may have got through.** A delivery report shows the last attempt's error
only: a record that timed out, was appended, and was then refused for want of replicas is reported
as NOT_ENOUGH_REPLICAS. Setting `retries` to 0 is not enough: librdkafka repeats a request after a
NOT_LEADER_FOR_PARTITION without counting it as a retry ("no chance of duplicate delivery"), and
with acks=all that error is not definite, see above. Only with retries=0 and acks other than all is
the reported attempt known to be the only one that can have appended (`single_attempt`).

A record that `produce()` refuses with an exception was never queued; that is a FAIL whatever the
contract (`REFUSED`).
"""

from functools import cache
from typing import NamedTuple

from harness.core.contract import Contract
from harness.core.op import OpType

REFUSED = OpType.FAIL
"""The outcome of a record that `produce()` raised for: it never entered librdkafka's queue."""


class Definite(NamedTuple):
    """Why an error proves that the attempt which met it left nothing in the log.

    Attributes:
        reason: one sentence.
        source: where that is written.
    """

    reason: str
    source: str


_VALIDATION = "Kafka: LogValidator runs before UnifiedLog appends"
_REQUEST = "Kafka: KafkaApis.handleProduceRequest checks before ReplicaManager.appendRecords"
_LOCAL = "librdkafka: CONFIGURATION.md, rdkafka.h (purge flags), rdkafka_msg.c"


DEFINITE: dict[str, Definite] = {
    "NOT_ENOUGH_REPLICAS": Definite(
        "The leader compares the ISR with min.insync.replicas before it appends.",
        "Kafka: Partition.appendRecordsToLeader",
    ),
    "MSG_SIZE_TOO_LARGE": Definite("The batch is larger than max.message.bytes.", _VALIDATION),
    "RECORD_LIST_TOO_LARGE": Definite("The batch is larger than a segment.", _VALIDATION),
    "INVALID_MSG": Definite("The batch did not arrive whole.", _VALIDATION),
    "INVALID_MSG_SIZE": Definite("The batch's size is not one.", _VALIDATION),
    "INVALID_TIMESTAMP": Definite("The time stamp is out of bounds.", _VALIDATION),
    "INVALID_RECORD": Definite("The leader's validation refused it.", _VALIDATION),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": Definite("The log's format cannot hold it.", _VALIDATION),
    "UNSUPPORTED_COMPRESSION_TYPE": Definite("The broker cannot read it.", _VALIDATION),
    "INVALID_REQUIRED_ACKS": Definite(
        "The acks asked for are none of 0, 1, all.", "Kafka: ReplicaManager.appendRecords"
    ),
    "TOPIC_EXCEPTION": Definite("Nobody may write to a topic of this name.", _REQUEST),
    "TOPIC_AUTHORIZATION_FAILED": Definite("The client may not write there.", _REQUEST),
    "CLUSTER_AUTHORIZATION_FAILED": Definite("The client may not write so.", _REQUEST),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Definite("It may not use this id.", _REQUEST),
    "UNSUPPORTED_VERSION": Definite("The broker does not know the request.", _REQUEST),
    "POLICY_VIOLATION": Definite("A policy forbids the request.", _REQUEST),
    "_QUEUE_FULL": Definite("The record found no room in the local queue.", _LOCAL),
    "_PURGE_QUEUE": Definite("It was taken from the queue before it was sent.", _LOCAL),
    "_UNKNOWN_TOPIC": Definite("It waited for a topic that there is not.", _LOCAL),
    "_UNKNOWN_PARTITION": Definite("It waited for a partition that there is not.", _LOCAL),
    "_BAD_COMPRESSION": Definite("The batch could not be compressed.", _LOCAL),
    "_INVALID_ARG": Definite("The record cannot be put on the wire.", _LOCAL),
}
"""The definite errors by their names in `confluent_kafka.KafkaError`; all others are not."""


@cache
def _definite_codes() -> frozenset[int]:
    # What describes a workload reads this module too, and has no need of a client.
    from confluent_kafka import KafkaError

    return frozenset(getattr(KafkaError, name) for name in DEFINITE)


def single_attempt(contract: Contract) -> bool:
    """Return whether a reported error is that of the only attempt which can have appended."""
    return contract.retries == 0 and contract.acks != "all"


def outcome_of(code: int, *, single: bool) -> OpType:
    """Return FAIL if a delivery report with this error proves the record absent, else INFO.

    Args:
        code: librdkafka's error code; an unknown one is INFO.
        single: the answer of `single_attempt`.
    """
    return OpType.FAIL if single and code in _definite_codes() else OpType.INFO
