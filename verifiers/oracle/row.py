"""Chapters of the oracle, and their rows, each of which is a ruling."""

from dataclasses import dataclass
from typing import Any

from harness.core.errors import UsageError
from verifiers.oracle.circumstances import ALWAYS, Circumstances, Condition


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of a row.

    Attributes:
        sentence: one sentence, with its full stop.
        source: where that is written.
    """

    sentence: str
    source: str

    def __str__(self) -> str:
        return f"{self.sentence.removesuffix('.')} ({self.source})."


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a chapter.

    Attributes:
        kinds: kinds of the anomaly that it speaks of; empty: all of them.
        given: the condition under which it rules.
        permitted: whether the anomaly is permitted then.
        permits: what of the contract permits it, in a word or two.
        why: the reason, and its source.
        undecided: whether the anomaly is neither permitted nor forbidden then.
    """

    kinds: frozenset[str] = frozenset()
    given: Condition = ALWAYS
    permitted: bool
    permits: str = ""
    why: Reason
    undecided: bool = False

    @property
    def ruling(self) -> str:
        """What it rules, in a word: permitted, forbidden, or UNKNOWN."""
        return "permitted" if self.permitted else "UNKNOWN" if self.undecided else "forbidden"

    def fits(self, kind: str | None, circumstances: Circumstances) -> bool:
        """Tell whether this row speaks of the kind under these circumstances."""
        return (not self.kinds or kind in self.kinds) and self.given.holds(circumstances)


def permitted(
    why: Reason | str, *kinds: str, source: str = "", by: str = "", given: Condition = ALWAYS
) -> Row:
    """Return a row that permits; `by` names the part of the contract that does.

    Args:
        why: a reason that several rows have, or the sentence of this row's own, with its `source`.
        kinds: those that it speaks of; none: all of them.
        source: where the sentence is written.
        by: what of the contract permits it.
        given: the condition under which it rules.
    """
    return _row(why, source, kinds, given=given, permitted=True, permits=by)


def forbidden(why: Reason | str, *kinds: str, source: str = "", given: Condition = ALWAYS) -> Row:
    """Return a row that forbids; arguments are those of `permitted`."""
    return _row(why, source, kinds, given=given, permitted=False)


def undecided(why: Reason | str, *kinds: str, source: str = "", given: Condition = ALWAYS) -> Row:
    """Return a row that neither permits nor forbids: what it speaks of leaves a verdict UNKNOWN."""
    return _row(why, source, kinds, given=given, permitted=False, undecided=True)


def _row(why: Reason | str, source: str, kinds: tuple[str, ...], **rule: Any) -> Row:  # noqa: ANN401 (fields of Row)
    reason = Reason(why, source) if isinstance(why, str) else why
    return Row(kinds=frozenset(kinds), why=reason, **rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """The rulings on one anomaly.

    Attributes:
        anomaly: its name.
        means: what it is, in one sentence.
        kinds: the kinds that its checker tells apart; none if it tells none.
        rows: the first that fits rules; the last one fits always.
    """

    anomaly: str
    means: str
    kinds: tuple[str, ...] = ()
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        """Reject a chapter without a last row for all cases, or with rows that cannot be.

        No row may speak of an unknown kind, or give a reason without its source.

        Raises:
            UsageError: with the anomaly; an error of whoever wrote the chapter.
        """
        last = self.rows[-1] if self.rows else None
        if last is None or last.kinds or last.given is not ALWAYS:
            raise UsageError(f"The last row of the chapter {self.anomaly!r} must fit always.")
        if not all(row.why.source for row in self.rows):
            raise UsageError(f"The chapter {self.anomaly!r} has a reason without a source.")
        unknown = {kind for row in self.rows for kind in row.kinds} - set(self.kinds)
        if unknown:
            raise UsageError(
                f"The chapter {self.anomaly!r} has rows for kinds it does not name: "
                f"{', '.join(sorted(unknown))}."
            )

    def rule(self, kind: str | None, circumstances: Circumstances) -> Row:
        """Return the first row that fits: whether the kind is permitted, and why."""
        return next(row for row in self.rows if row.fits(kind, circumstances))


def chapter(anomaly: str, means: str, *rows: Row, kinds: tuple[str, ...] = ()) -> Chapter:
    """Return a chapter; the arguments are its attributes."""
    return Chapter(anomaly=anomaly, means=means, kinds=kinds, rows=rows)
