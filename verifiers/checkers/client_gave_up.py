"""Clients that gave up although their contract was kept."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
SEQUENCE = (
    "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_ID_MAPPING", "_GAPLESS_GUARANTEE", "_INCONSISTENT",
)  # fmt: skip
REFUSED = (
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE",
)  # fmt: skip
"""Fatal errors by what they mean, as `confluent_kafka.KafkaError` names them."""

_CRASHES = (-4, -6, -7, -8, -11)
"""SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV: what a process does to itself."""


@checker("client-gave-up", severity=Severity.DELAYED, one="client gave up", many="clients gave up")
def client_gave_up(fatals: DataFrame, clients: DataFrame) -> DataFrame:
    """Return the fatal errors of clients, and the clients that died.

    A zombie that a takeover is meant to fence records no fatal error, and a member that was killed
    as one of the moves of its group did not give up.

    Returns:
        One row per fatal error (`error`, `words`, and `open_s`: for how long the transaction was
        open in which it happened) and per client that died (`exit_code`: negative is a signal). The
        kind says what it was: a producer was `fenced`, by none that is known; by its own earlier
        request (`own`), since its transaction `timed-out`, or by none that is known after faults
        had taken every copy of what transaction coordinators had noted (`destroyed`), or one of
        them (`partly-destroyed`): they may abort what they have forgotten to be over; its
        `sequence` was lost; its coordinator knew another `state` of its transaction, or, when it
        was to be aborted, knew of nothing (`unbegun`); it was `refused`; another `fatal` error; it
        `crashed`, was `killed` from outside, or `ended`.

    Source: librdkafka, INTRODUCTION.md, fatal errors; KIP-98.
    """
    told = clients.select("process", "txn_timeout_s", "copy_taken_ns", "all_taken_ns")
    gave_up = fatals.join(F.broadcast(told), "process", "left")
    of_errors = offences(
        gave_up,
        kind=_kind(),
        detail={"open_s": F.round(F.col("open_ns") / 1e9, 3), **columns("error", "words")},
    )
    exit_code = F.col("exit_code")
    is_done = (exit_code == 0) & (F.col("asked_to_stop") | (F.col("role") == "reader"))
    died = clients.where(exit_code.isNotNull() & ~F.col("killed") & ~is_done)
    of_ends = offences(
        died,
        time_ns="ended_ns",
        kind=F.when(exit_code.isin(*_CRASHES), "crashed")
        .when(exit_code < 0, "killed")
        .otherwise("ended"),
        detail=columns("exit_code", "role"),
    )
    return of_errors.unionByName(of_ends)


def _kind() -> Column:
    error = F.col("error")
    is_late = F.col("open_ns") >= F.col("txn_timeout_s") * 1e9
    return (
        F.when(error.isin(*SEQUENCE), "sequence")
        .when(error.isin(*REFUSED), "refused")
        .when((error == "INVALID_TXN_STATE") & ~F.col("committing"), "unbegun")
        .when(error == "INVALID_TXN_STATE", "state")
        .when(~error.isin(*FENCED), "fatal")
        .when(F.coalesce(is_late, F.lit(False)), "timed-out")
        .when(F.col("is_doubtful"), "own")
        .when(F.col("time_ns") >= F.col("all_taken_ns"), "destroyed")
        .when(F.col("time_ns") >= F.col("copy_taken_ns"), "partly-destroyed")
        .otherwise("fenced")
    )
