"""Answers of brokers that no fault explains."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.answers import SERVER, SERVER_AT_REST, is_within


@checker(
    "unexplained-answer",
    severity=Severity.DELAYED,
    one="answer of a broker is explained by no fault",
    many="answers of brokers are explained by no fault",
)
def unexplained_answer(answers: DataFrame, explanations: DataFrame) -> DataFrame:
    """Return the errors that clients were given and that no fault of the run explains.

    Only errors of `verifiers.frames.answers.FAMILIES` count: the others, such as that there is no
    leader or that a request ran out of time, are what a disturbed cluster has to answer. And only
    those that a client sees: librdkafka asks again after many errors, and tells of the last one.

    Returns:
        One row per answer: `error` as the client names it, `to` what it answered (send, txn or
        event), `words` of the client. The kind is the family; UNKNOWN_SERVER_ERROR is `server`
        where a fault was in force, and `server-at-rest` where none was.

    Source: the error codes of the Kafka protocol.
    """
    given = answers.join(F.broadcast(explanations), ["process", "family"])
    explained = is_within(F.col("time_ns"), F.col("begins_ns"), F.col("ends_ns"))
    judged = given.withColumn("explained", explained).withColumn(
        "kind",
        F.when(F.col("family") != SERVER, F.col("family"))
        .when(F.col("explained"), SERVER)
        .otherwise(SERVER_AT_REST),
    )
    unexplained = judged.where(~F.col("explained") | (F.col("family") == SERVER))
    return offences(unexplained, detail=columns("error", "to", "words"))
