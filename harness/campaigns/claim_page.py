"""The matrix on paper: one row a claim, one column a version, in HTML and in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.campaigns.claim_result import Trial
from harness.campaigns.page_template import page_template
from harness.core.version import numbers
from harness.lab.claim import Outcome

_MARKS = {Outcome.CONFIRMED: "✓", Outcome.REFUTED: "✗", Outcome.UNKNOWN: "?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Everything that was tried of one claim on one version.

    Attributes:
        trials: the oldest first; at least one.
    """

    trials: tuple[Trial, ...]

    @property
    def last(self) -> Trial:
        """The newest trial."""
        return self.trials[-1]

    @property
    def mark(self) -> str:
        """A sign for the outcome."""
        return _MARKS[self.last.outcome]

    @property
    def times(self) -> str:
        """How often the outcome was the same, of how many: "3 of 3"."""
        same = sum(trial.outcome is self.last.outcome for trial in self.trials)
        return f"{same} of {len(self.trials)}"

    @property
    def date(self) -> str:
        """The day of the newest trial."""
        return self.last.started_utc[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim.

    Attributes:
        claim: its name.
        number: its number.
        sentence: what is claimed.
        source: where that is written.
        cells: by version; None where the claim was not tried.
    """

    claim: str
    number: int
    sentence: str
    source: str
    cells: dict[str, Cell | None]


def columns(trials: Sequence[Trial]) -> list[str]:
    """Return the versions, oldest first; a version tried in both modes has two columns."""
    return sorted({_column(trial) for trial in trials}, key=lambda name: (numbers(name), name))


def _column(trial: Trial) -> str:
    # Only where both modes exist does the version alone not say which it was.
    both = numbers("3.3") <= numbers(trial.kafka) < (4,)
    return f"{trial.kafka} {trial.metadata}" if both and trial.metadata else trial.kafka


def rows(trials: Sequence[Trial]) -> list[Row]:
    """Return the matrix, in the order of the catalogue."""
    versions = columns(trials)
    found = []
    for name in {trial.claim: None for trial in trials}:
        own = sorted((t for t in trials if t.claim == name), key=lambda trial: trial.started_utc)
        cells: dict[str, Cell | None] = {}
        for version in versions:
            here = tuple(trial for trial in own if _column(trial) == version)
            cells[version] = Cell(trials=here) if here else None
        last = own[-1]
        found.append(
            Row(
                claim=name,
                number=last.number,
                sentence=last.sentence,
                source=last.source,
                cells=cells,
            )
        )
    return sorted(found, key=lambda row: row.number)


def html_page(trials: Sequence[Trial], *, runs: str) -> str:
    """Return the matrix as one HTML page that needs no network.

    Args:
        trials: what was tried.
        runs: the way from the page to the folders of the runs; empty: no links.
    """
    return page_template("claim_page.html.j2").render(
        rows=rows(trials),
        versions=columns(trials),
        tally=_tally(trials),
        runs=runs,
    )


def markdown_page(trials: Sequence[Trial], *, runs: str) -> str:
    """Return the matrix as Markdown; arguments as for `html_page`."""
    versions = columns(trials)
    lines = [
        "# Claims about Kafka, put to the test",
        "",
        "Written by `kafka-chaos claims`; every cell was measured on a real cluster.",
        "✓ as expected of this version · ✗ the opposite was seen · ? a precondition was not "
        "observed · empty: the claim does not speak of it, or was not tried.",
        "",
        _tally(trials) + ".",
        "",
        "| | claim | " + " | ".join(versions) + " |",
        "|---|---|" + "---|" * len(versions),
    ]
    table = rows(trials)
    for row in table:
        cells = [_in_markdown(cell, runs) for cell in row.cells.values()]
        lines.append(f"| {row.number} | `{row.claim}` | " + " | ".join(cells) + " |")
    for row in table:
        lines += ["", f"## {row.number} · {row.claim}", "", row.sentence, ""]
        lines += [f"Source: {row.source}.", ""]
        for version, cell in row.cells.items():
            if cell is not None:
                lines.append(
                    f"- **{version}** {cell.mark} {cell.last.outcome} ({cell.times}, "
                    f"{cell.date}, {cell.last.seconds:.0f} s): expected "
                    f"*{cell.last.expected}*. {cell.last.words}"
                )
    return "\n".join(lines) + "\n"


def _in_markdown(cell: Cell | None, runs: str) -> str:
    if cell is None:
        return ""
    text = f"{cell.mark} {cell.last.expected} ({cell.times})"
    return f"[{text}]({runs}{cell.last.run}/report.html)" if runs and cell.last.run else text


def _tally(trials: Sequence[Trial]) -> str:
    cells = [cell for row in rows(trials) for cell in row.cells.values() if cell is not None]
    counts = [
        f"{sum(cell.last.outcome is outcome for cell in cells)} {outcome}" for outcome in Outcome
    ]
    return f"{len(cells)} cell{'' if len(cells) == 1 else 's'}: {', '.join(counts)}"
