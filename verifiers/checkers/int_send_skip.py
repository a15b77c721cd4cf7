"""Sends of one op that have a value of another op between them in the log."""

from pyspark.sql import DataFrame

from verifiers.checking.checker import Severity, checker, offences


@checker(
    "int-send-skip",
    severity=Severity.DISORDERED,
    one="send was logged apart from the one before it",
    many="sends were logged apart from those before them",
)
def int_send_skip(interleaved: DataFrame) -> DataFrame:
    """Return the neighbouring sends of an op to a key that have values of other ops between them.

    Returns:
        One row per pair of neighbours.

    Source: the int-send-skip analysis of jepsen.tests.kafka.
    """
    return offences(interleaved, detail={})
