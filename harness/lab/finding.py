"""What the test of a claim concludes from a run."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Concatenate, ParamSpec

from harness.lab.recorded import RecordedRun

P = ParamSpec("P")


class Outcome(StrEnum):
    """The result of a claim on one version of Kafka."""

    CONFIRMED = "CONFIRMED"
    """The run shows what was expected of this version."""
    REFUTED = "REFUTED"
    """The run shows the opposite."""
    UNKNOWN = "UNKNOWN"
    """A precondition was not met, or not everything could be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a test concludes from a run.

    Attributes:
        outcome: CONFIRMED, REFUTED or UNKNOWN.
        words: what the run shows, in a sentence.
    """

    outcome: Outcome
    words: str


def confirmed(words: str) -> Finding:
    """Return that the run shows what was expected."""
    return Finding(outcome=Outcome.CONFIRMED, words=words)


def refuted(words: str) -> Finding:
    """Return that the run shows the opposite."""
    return Finding(outcome=Outcome.REFUTED, words=words)


def unknown(words: str) -> Finding:
    """Return that the run shows neither."""
    return Finding(outcome=Outcome.UNKNOWN, words=words)


Test = Callable[[RecordedRun], Finding]
"""Judges a claim by its recorded run, and by nothing else."""


def expectation(judge: Callable[Concatenate[RecordedRun, P], Finding]) -> Callable[P, Test]:
    """Turn a judgement of a run, by what is expected, into a function that returns a test."""

    @wraps(judge)
    def expect(*expected: P.args, **more: P.kwargs) -> Test:
        return lambda run: judge(run, *expected, **more)

    return expect
