"""The pages that matrices end in: tables of claims and of contracts, in HTML and in Markdown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import jinja2

from harness.campaigns.claim_result import ClaimResult
from harness.campaigns.scenario_result import HEADLINES, ScenarioResult
from harness.core.contract import Contract
from harness.core.verdict import Verdict
from harness.core.version import numbers
from harness.lab.claim import Outcome

_MARKS = {"VALID": "✓", "CONFIRMED": "✓", "INVALID": "✗", "REFUTED": "✗", "UNKNOWN": "?"}


def render(template: str, **values: Any) -> str:  # noqa: ANN401 (what the template shows)
    """Return a page of this folder's templates; HTML is escaped, and no value may be missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template).render(marks=_MARKS, **values)


def tally(what: str, found: Sequence[Enum], kinds: type[Enum]) -> str:
    """Return how many of something ended how: "3 runs: 2 VALID, 1 UNKNOWN, 0 INVALID"."""
    counts = Counter(found)
    plural = "" if len(found) == 1 else "s"
    ends = ", ".join(f"{counts[kind]} {kind.name}" for kind in kinds)
    return f"{len(found)} {what}{plural}: {ends}"


# -- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetitions:
    """All results of one claim on one version.

    Attributes:
        results: the oldest first; at least one.
    """

    results: tuple[ClaimResult, ...]

    @property
    def last(self) -> ClaimResult:
        """The newest result."""
        return self.results[-1]

    @property
    def times(self) -> str:
        """How often the outcome was the same, of how many: "3 of 3"."""
        same = sum(result.outcome is self.last.outcome for result in self.results)
        return f"{same} of {len(self.results)}"


@dataclass(frozen=True, slots=True)
class ClaimTable:
    """One row a claim, one column a version.

    Attributes:
        results: in any order.
        runs: the way from the page to the folders of the runs; empty: no links.
    """

    results: Sequence[ClaimResult]
    runs: str = ""

    @property
    def versions(self) -> list[str]:
        """The columns, oldest first; a version with results in both modes has two."""
        return sorted(set(map(_column, self.results)), key=lambda name: (numbers(name), name))

    @property
    def rows(self) -> list[tuple[ClaimResult, dict[str, Repetitions]]]:
        """The newest result of each claim, in the order of the catalogue, and all by version."""
        by_time = sorted(self.results, key=lambda result: result.started_utc)
        newest = {result.claim: result for result in by_time}
        return [
            (
                last,
                {
                    version: Repetitions(results=own)
                    for version in self.versions
                    if (
                        own := tuple(
                            result
                            for result in by_time
                            if (result.claim, _column(result)) == (last.claim, version)
                        )
                    )
                },
            )
            for last in sorted(newest.values(), key=lambda result: result.number)
        ]

    @property
    def tally(self) -> str:
        """How many cells ended how."""
        outcomes = [each.last.outcome for _, cells in self.rows for each in cells.values()]
        return tally("cell", outcomes, Outcome)

    def html(self) -> str:
        """Return the table as one HTML page that needs no network."""
        return render("claims.html.j2", table=self)

    def markdown(self) -> str:
        """Return the table as Markdown, with what each run showed."""
        return render("claims.md.j2", table=self)


def _column(result: ClaimResult) -> str:
    # Only where both modes exist does the version alone not say which it was.
    both = numbers("3.3") <= numbers(result.kafka) < (4,)
    return f"{result.kafka} {result.metadata}" if both and result.metadata else result.kafka


# -- contracts -------------------------------------------------------------------------------------

MEANINGS = {
    "lost": "acknowledged records that are not in the final log",
    "duplicated": "records that are in it more than once",
    "reordered": "sends that lie behind a later one of the same producer",
}
"""What the columns count, in words."""

_ALWAYS = ("acks", "min_isr", "idempotence")
_TITLES = {
    "kafka": "Kafka",
    "acks": "acks",
    "min_isr": "min ISR",
    "replication_factor": "replicas",
    "idempotence": "idempotence",
    "retries": "retries",
    "max_in_flight": "in flight",
    "unclean_election": "unclean election",
    "delivery_timeout_ms": "delivery timeout, ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A combination that is not run.

    Attributes:
        choice: the combination, in words.
        why: in a sentence.
    """

    choice: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTable:
    """One row a contract.

    Attributes:
        results: in the order of the rows.
        damage: what was done in every run: the object of plan.json.
        left_out: combinations that were not run, and why.
        runs: the way from the page to the folders of the runs; empty: no links.
    """

    results: Sequence[ScenarioResult]
    damage: Mapping[str, Any]
    left_out: Sequence[LeftOut] = ()
    runs: str = ""

    @property
    def steps(self) -> list[str]:
        """Each fault of the plan in words."""
        return [
            f"{_phrase(step['fault'])} on {_phrase(step['target'])} at {step['at_s']:g} s for "
            f"{step['hold_s']:g} s"
            for step in self.damage["steps"]
        ]

    @property
    def headline(self) -> str:
        """What was run, in a line."""
        return (
            f"scenario {self.damage['scenario']} · seed {self.damage['seed']} · "
            f"{self.damage['duration_s']:g} s under load"
        )

    @property
    def tally(self) -> str:
        """How many runs ended how."""
        return tally("run", [result.verdict for result in self.results], Verdict)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that tell the rows apart, and their titles."""
        return {
            name: title
            for name, title in _TITLES.items()
            if name in _ALWAYS or len({str(result.settings[name]) for result in self.results}) > 1
        }

    @property
    def heads(self) -> list[str]:
        """The heads of the columns."""
        return [*self.settings.values(), *MEANINGS, "longest time without ack", "verdict"]

    def cells(self, result: ScenarioResult) -> list[str]:
        """Return one row as plain text."""
        return [
            *(in_words(result.settings[name]) for name in self.settings),
            *(str(result.headlines[name]) for name in MEANINGS),
            unavailable(result),
            f"{_MARKS[result.verdict.name]} {result.verdict.name}",
        ]

    def reasons(self) -> list[str]:
        """Return why runs are not VALID, each with its contract."""
        known = {entry.name for entry in fields(Contract)}
        return [
            f"{Contract(**{k: v for k, v in result.settings.items() if k in known})}: {reason}"
            for result in self.results
            for reason in result.reasons
        ]

    def html(self) -> str:
        """Return the table as one HTML page that needs no network."""
        return render(
            "contracts.html.j2", table=self, meanings=MEANINGS, in_words=in_words, others=others,
            unavailable=unavailable,
        )  # fmt: skip

    def markdown(self) -> str:
        """Return the table as Markdown."""
        return render("contracts.md.j2", table=self, meanings=MEANINGS)


def _phrase(described: Mapping[str, Any]) -> str:
    """Return a fault or a target of plan.json in words, what was left to its default unsaid."""
    # JSON sorts the parameters, so each is named.
    inside = ", ".join(
        f"{name}={value}"
        for name, value in sorted(described["parameters"].items())
        if value is not None and value is not False and value != []
    )
    return f"{described['name']}({inside})" if inside else str(described["name"])


def in_words(value: object) -> str:
    """Return the value of a setting as the table shows it."""
    match value:
        case True:
            return "on"
        case False:
            return "off"
        case None:
            return "endless"
        case _:
            return str(value)


def unavailable(result: ScenarioResult) -> str:
    """Return the longest time without an acknowledgement as the table shows it."""
    return "never any" if result.unavailable_s is None else f"{result.unavailable_s:.1f} s"


def others(result: ScenarioResult) -> str:
    """Return what was found besides what the columns count."""
    return ", ".join(
        f"{name} ×{found}"
        for name, found in result.anomalies.items()
        if name not in HEADLINES.values()
    )
