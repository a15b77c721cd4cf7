"""The matrix of contracts as a table: on the console, in HTML and in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.campaigns.contract_cell import HEADLINES, Entry
from harness.campaigns.page_template import page_template
from harness.core.verdict import Verdict

MARKS = {Verdict.VALID: "✓", Verdict.UNKNOWN: "?", Verdict.INVALID: "✗"}
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
class About:
    """What a page says besides its table.

    Attributes:
        damage: what was done in every cell: the object of plan.json.
        left_out: combinations that were not run, and why.
        runs: the way from the page to the folders of the runs; empty: no links.
    """

    damage: Mapping[str, Any]
    left_out: Sequence[tuple[str, str]] = ()
    runs: str = ""

    @property
    def strokes(self) -> list[str]:
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


def _phrase(described: Mapping[str, Any]) -> str:
    """Return a fault or a target of plan.json in words, what was left to its default unsaid."""
    # JSON sorts the parameters, so each is named.
    inside = ", ".join(
        f"{name}={value}"
        for name, value in sorted(described["parameters"].items())
        if value is not None and value is not False and value != []
    )
    return f"{described['name']}({inside})" if inside else str(described["name"])


def varied(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the settings that tell the rows apart, acks, min ISR and idempotence in any case."""
    return {
        name: title
        for name, title in _TITLES.items()
        if name in _ALWAYS or len({str(entry.settings[name]) for entry in entries}) > 1
    }


def headers(entries: Sequence[Entry]) -> list[str]:
    """Return the heads of the table's columns."""
    return [*varied(entries).values(), *MEANINGS, "longest time without ack", "verdict"]


def cells(entry: Entry, shown: Sequence[str]) -> list[str]:
    """Return one row of the table as plain text; `shown` names the settings to show."""
    return [
        *(_setting(entry.settings[name]) for name in shown),
        *(str(entry.headlines[name]) for name in MEANINGS),
        "never any" if entry.unavailable_s is None else f"{entry.unavailable_s:.1f} s",
        f"{MARKS[entry.verdict]} {entry.verdict.name}",
    ]


def _setting(value: object) -> str:
    match value:
        case True:
            return "on"
        case False:
            return "off"
        case None:
            return "endless"
        case _:
            return str(value)


def tally(entries: Sequence[Entry]) -> str:
    """Return how many runs ended how."""
    counts = [f"{sum(e.verdict is verdict for e in entries)} {verdict.name}" for verdict in Verdict]
    return f"{len(entries)} run{'' if len(entries) == 1 else 's'}: {', '.join(counts)}"


def others(entry: Entry) -> str:
    """Return what else was found than the columns say."""
    told = set(HEADLINES.values())
    return ", ".join(
        f"{name} ×{found}" for name, found in entry.anomalies.items() if name not in told
    )


def html_page(entries: Sequence[Entry], about: About) -> str:
    """Return the matrix as one HTML page that needs no network."""
    shown = varied(entries)
    return page_template("contract_page.html.j2").render(
        rows=[(entry, cells(entry, list(shown))[: len(shown)]) for entry in entries],
        settings=list(shown.values()),
        headlines=MEANINGS,
        marks={verdict.name: mark for verdict, mark in MARKS.items()},
        others=others,
        tally=tally(entries),
        about=about,
    )


def markdown_page(entries: Sequence[Entry], about: About) -> str:
    """Return the matrix as Markdown."""
    shown = list(varied(entries))
    heads = [*headers(entries), "run"]
    lines = [
        "# The same damage under each contract",
        "",
        f"Written by `kafka-chaos matrix`: {about.headline}. {tally(entries)}.",
        "",
        *(f"- {stroke}" for stroke in about.strokes),
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    for entry in entries:
        link = f"[report]({about.runs}{entry.run}/report.html)" if entry.run else ""
        lines.append(f"| {' | '.join([*cells(entry, shown), link])} |")
    lines += [
        "",
        *(f"- *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        "- *0, permitted*: none was found, though the contract would permit it.",
    ]
    reasons = [(entry, reason) for entry in entries for reason in entry.reasons]
    if reasons:
        lines += ["", "## Why not VALID", ""]
        lines += [f"- {entry.contract}: {reason}" for entry, reason in reasons]
    if about.left_out:
        lines += ["", "## Left out", ""]
        lines += [f"- {choice}: {why}" for choice, why in about.left_out]
    return "\n".join(lines) + "\n"
