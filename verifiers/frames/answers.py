"""The answers that clients were given and should not have been, and which faults explain them.

Most errors are what a broken cluster owes its clients: there is no leader, the ISR is too small, a
request ran out of time. Those are not looked at here. The answers of FAMILIES are: a broker gives
them when something is wrong that is not a matter of who leads and who is reachable.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.shared import shared_frame

ANY_FAULT = "any fault"
"""Stands, among traits, for every fault while it is in force and a little longer."""

SERVER, SERVER_AT_REST = "server", "server-at-rest"
"""How the kinds tell whether a fault was in force when a broker did not know its own error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Answers that the same faults explain.

    Attributes:
        name: of the family.
        errors: as `confluent_kafka.KafkaError` names them.
        explained_by: traits of faults (`harness.core.fault.FaultTraits`) that explain them, or
            ANY_FAULT; none if no fault does.
        lasting: whether a fault explains them also after it was healed, to the end of the run.
        source: where it is written what they mean.
    """

    name: str
    errors: tuple[str, ...]
    explained_by: tuple[str, ...] = ()
    lasting: bool = False
    source: str


FAMILIES: tuple[Family, ...] = (
    Family(
        name="bytes",
        errors=("INVALID_MSG", "INVALID_MSG_SIZE", "_BAD_MSG", "_BAD_COMPRESSION"),
        explained_by=("destroys_data", "damages_data"),
        lasting=True,
        source="Kafka protocol, error code 2 (CORRUPT_MESSAGE); librdkafka, check.crcs",
    ),
    Family(
        name="storage",
        errors=("KAFKA_STORAGE_ERROR", "LOG_DIR_NOT_FOUND"),
        explained_by=("destroys_data", "damages_data", "fails_disk"),
        lasting=True,
        source="KIP-112, error code 56: the log's directory is offline",
    ),
    Family(
        name="record",
        errors=(
            "INVALID_RECORD", "INVALID_REQUEST", "INVALID_REQUIRED_ACKS",
            "UNSUPPORTED_FOR_MESSAGE_FORMAT", "INVALID_PARTITIONS",
        ),
        source="KIP-467, error code 87; Kafka protocol, error codes 21, 37, 42 and 43",
    ),
    Family(
        name=SERVER,
        errors=("UNKNOWN",),
        explained_by=(ANY_FAULT,),
        source="Kafka protocol, error code -1 (UNKNOWN_SERVER_ERROR)",
    ),
    Family(
        name="topic",
        errors=(
            "UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID",
            "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION",
        ),
        explained_by=(ANY_FAULT,),
        source="Kafka protocol, error codes 3, 100 and 103",
    ),
    Family(
        name="settings",
        errors=(
            "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP", "POLICY_VIOLATION",
            "UNSUPPORTED_VERSION", "UNSUPPORTED_COMPRESSION_TYPE", "TOPIC_EXCEPTION",
            "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
            "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM",
            "SECURITY_DISABLED", "_AUTHENTICATION",
        ),
        source="Kafka protocol, error codes; message.max.bytes, message.timestamp.*, ACLs",
    ),
)  # fmt: skip
"""The answers that only what is written here explains."""

_NAME = r"(?:^|: |code=)(_?[A-Z][A-Z0-9_]+)[:,]"


@shared_frame("answers")
def answers(sends: DataFrame, txns: DataFrame, events: DataFrame) -> DataFrame:
    """Return the errors of FAMILIES that clients recorded, one row each.

    Columns:
        process, error, family.
        to: send, txn or event: what it answered.
        topic, partition, value: of the send or event; may be null.
        time_ns: when.
        words: of the client, for an event.
    """
    ended = F.col("complete_ns").alias("time_ns")
    of_sends = sends.where(F.col("error").isNotNull()).select(
        "process", "error", F.lit("send").alias("to"), "topic", "partition", "value", ended
    )
    of_txns = txns.where(F.col("error").isNotNull()).select(
        "process", "error", F.lit("txn").alias("to"), ended
    )
    of_events = events.where(F.col("f") == "error").select(
        "process", error_in(F.col("detail")).alias("error"), F.lit("event").alias("to"),
        "topic", "partition", "time_ns", F.col("detail").alias("words"),
    )  # fmt: skip
    # A column that one of them lacks is null there.
    given = of_sends.unionByName(of_txns, allowMissingColumns=True)
    given = given.unionByName(of_events, allowMissingColumns=True)
    families = [F.when(F.col("error").isin(*each.errors), each.name) for each in FAMILIES]
    return given.withColumn("family", F.coalesce(*families)).where(F.col("family").isNotNull())


def error_in(words: Column) -> Column:
    """Return the name of the error that an event tells of; empty if it names none."""
    return F.regexp_extract(words, _NAME, 1)


def is_within(moment: Column, begins: Column, ends: Column) -> Column:
    """Return whether a moment lies in one of some stretches, given as two arrays."""
    return F.exists(
        F.arrays_zip(begins.alias("b"), ends.alias("e")),
        lambda stretch: (stretch["b"] <= moment) & (moment <= stretch["e"]),
    )
