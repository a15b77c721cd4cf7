"""Operations: what a client did, and what is known of its outcome."""

from enum import StrEnum

SEQUENCE_BITS = 40
"""A record's value is `producer << 40 | sequence`: unique in a run, and one 64-bit integer."""


class OpType(StrEnum):
    """How an operation stands. Exactly one of the last three completes an INVOKE."""

    INVOKE = "invoke"
    OK = "ok"
    """It happened."""
    FAIL = "fail"
    """It certainly did not happen, and never will."""
    INFO = "info"
    """Nobody knows: it may have happened, may yet happen, or never will."""


def value_of(producer: int, sequence: int) -> int:
    """Return the value that identifies a record of a run."""
    return producer << SEQUENCE_BITS | sequence


def producer_of(value: int) -> int:
    """Return the process number of the producer that wrote a value."""
    return value >> SEQUENCE_BITS


def sequence_of(value: int) -> int:
    """Return the sequence number, from 0, that a producer gave a value."""
    return value & ((1 << SEQUENCE_BITS) - 1)
