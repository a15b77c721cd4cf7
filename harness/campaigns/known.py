"""Findings that are known: they are reported, and do not decide what a night ends with."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.night_log import CONTROL, NightRun, nights_of
from harness.campaigns.scenario_result import ScenarioResult
from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from harness.core.version import numbers

ABSENT_NIGHTS = 10
"""After so many nights in which a known finding was not seen, that is told."""

_BOUND = re.compile(r"(<|>=)?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A finding that is known.

    Attributes:
        fingerprint: its id.
        why: what it is, in a sentence.
        link: where that is written; empty if nowhere.
        versions: of Kafka that have it: a version or how one begins ("3.9"), or bounds
            (">=2.4 <4.1"); empty: all.
        until: the last day on which it counts as known; None: for ever.
    """

    fingerprint: str
    why: str
    link: str = ""
    versions: tuple[str, ...] = ()
    until: date | None = None

    def __post_init__(self) -> None:
        """Reject versions that are none.

        Raises:
            UsageError: naming what is wrong.
        """
        for text in self.versions:
            if not text.split() or not all(map(_BOUND.fullmatch, text.split())):
                raise UsageError(
                    f"{text!r} names no versions: write 3.9.1, how versions begin (3.9), or bounds "
                    "(<4.1, >=2.4 <4.1)."
                )

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        until = None if self.until is None else self.until.isoformat()
        return {**asdict(self), "until": until}

    def covers(self, kafka: str) -> bool:
        """Return whether a version is one of those that have it."""
        return not self.versions or any(_covers(text, kafka) for text in self.versions)


def _covers(text: str, kafka: str) -> bool:
    asked = numbers(kafka)
    if not asked:
        return False
    for match in map(_BOUND.fullmatch, text.split()):
        sign, bound = (match[1], numbers(match[2])) if match else (None, ())
        fits = {"<": asked < bound, ">=": asked >= bound, None: asked[: len(bound)] == bound}
        if not fits[sign]:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFindings:
    """All findings that are known, on one day.

    Attributes:
        entries: each with a fingerprint of its own.
        today: the day.
    """

    entries: tuple[Known, ...] = ()
    today: date = field(default=date.min)

    def of(self, fingerprint: Fingerprint, *, kafka: str) -> Known | None:
        """Return the entry that makes a finding on a version a known one; None if none does."""
        return next(
            (
                entry
                for entry in self.entries
                if entry.fingerprint == fingerprint.id
                and entry.covers(kafka)
                and not self.is_over(entry)
            ),
            None,
        )

    def is_over(self, entry: Known) -> bool:
        """Return whether the last day of an entry has passed."""
        return entry.until is not None and entry.until < self.today

    def verdict(self, result: ScenarioResult) -> Verdict:
        """Return what a run contributes to the verdict of its night; none at all is VALID.

        A run that this machine could not make says nothing.
        An INVALID run whose findings are all known contributes what is left without them.
        """
        if result.by_machine:
            return Verdict.VALID
        if result.verdict is not Verdict.INVALID or not self.covers(result):
            return result.verdict
        return Verdict.UNKNOWN if result.doubts else Verdict.VALID

    def verdict_of_night(self, results: Sequence[ScenarioResult]) -> Verdict:
        """Return the worst of what runs contribute.

        UNKNOWN as well if a version lacks a control that is VALID: what must be lost there was not
        found.
        """
        controls = (
            r
            for r in results
            if r.settings.get("scenario") == CONTROL and r.verdict is Verdict.VALID
        )
        without = {r.kafka for r in results} - {r.kafka for r in controls}
        missing = [Verdict.UNKNOWN] if without or not results else []
        return Verdict.merge([*map(self.verdict, results), *missing])

    def covers(self, result: ScenarioResult) -> bool:
        """Return whether a run has findings, and all of them are known."""
        return bool(result.fingerprints) and all(
            self.of(each, kafka=result.kafka) for each in result.fingerprints
        )

    def told(self, runs: Sequence[NightRun], *, night: str) -> list[str]:
        """Return what is to be said of the entries after a night, a sentence each.

        Args:
            runs: of all nights up to this one.
            night: the name of this one.
        """
        return [
            f"known {entry.fingerprint}: {words}"
            for entry in self.entries
            for words in self._told(entry, runs, night)
        ]

    def _told(self, entry: Known, runs: Sequence[NightRun], night: str) -> Iterable[str]:
        tonight = [run for run in _showing(entry, runs) if run.night == night]
        elsewhere = sorted({r.result.kafka for r in tonight if not entry.covers(r.result.kafka)})
        if elsewhere:
            yield (
                f"it was found on Kafka {', '.join(elsewhere)}, where it should not be: it decides."
            )
        if tonight and self.is_over(entry):
            yield f"it was known until {entry.until}, and was found again: it decides."
        elif tonight and len(elsewhere) < len({run.result.kafka for run in tonight}):
            count = sum(entry.covers(run.result.kafka) for run in tonight)
            yield f"it was found in {count} run{'s' * (count != 1)}. {entry.why}"
        able = [run for run in runs if run.result.run and entry.covers(run.result.kafka)]
        last = nights_of(able)[-ABSENT_NIGHTS:]
        seen = {run.night for run in _showing(entry, able)}
        if len(last) == ABSENT_NIGHTS and not seen.intersection(last):
            yield (
                f"it was not seen in the last {ABSENT_NIGHTS} nights. If it is mended, take the "
                "entry away."
            )


def _showing(entry: Known, runs: Iterable[NightRun]) -> list[NightRun]:
    """Return the runs in which the finding was made."""
    return [
        run for run in runs if any(each.id == entry.fingerprint for each in run.result.fingerprints)
    ]
