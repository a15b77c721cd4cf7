"""Verdicts, and how several become one."""

from collections.abc import Iterable
from enum import IntEnum


class Verdict(IntEnum):
    """VALID < UNKNOWN < INVALID: the larger one wins when verdicts are merged."""

    VALID = 0
    """Damaged, seen to be damaged, checked in full, nothing forbidden found."""
    UNKNOWN = 1
    """Nothing forbidden was found, but something is missing that a pass would need."""
    INVALID = 2
    """Something that the contract forbids was found."""

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this verdict."""
        return {Verdict.VALID: 0, Verdict.UNKNOWN: 3, Verdict.INVALID: 1}[self]

    @staticmethod
    def merge(verdicts: Iterable["Verdict"]) -> "Verdict":
        """Return the largest; of nothing, UNKNOWN, for nothing was shown."""
        return max(verdicts, default=Verdict.UNKNOWN)
