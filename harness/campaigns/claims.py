"""The matrix of claims: each claim on each version of Kafka that it speaks of, one run a cell."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Cell, Session, open_folder, run_campaign
from harness.campaigns.claim_result import ClaimResult, claim_result, without_run
from harness.campaigns.pages import render, tally
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.version import numbers
from harness.lab.claim import Claim, Subject, claims_by_subject
from harness.lab.claim_run import ClaimRun
from harness.lab.finding import Outcome
from harness.lab.lab import Lab

_ELSE: Subject = "something else"

Row = dict[str, list[ClaimResult]]
"""What came of one claim, by version; each cell has all results, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Two versions next to each other of which a claim expects different things, and saw them.

    Attributes:
        before: the older version.
        since: the younger one.
        was: what came of the claim on the older one.
        now: on the younger one.
    """

    before: str
    since: str
    was: ClaimResult
    now: ClaimResult


@dataclass(frozen=True, slots=True)
class ClaimMatrix:
    """One row a claim, one column a version; each cell has all results, the oldest first.

    Attributes:
        results: what came of the cells.
        wanted: how many cells there are to be.
        runs: the way from the page to the folders of the runs; empty: no links.
    """

    results: Sequence[ClaimResult]
    wanted: int = 0
    runs: str = ""

    @property
    def exit_code(self) -> int:
        """0: all as expected, or varied; 1: something was refuted; 3: something is not known."""
        outcomes = {result.outcome for result in self.results}
        if any(r.outcome is Outcome.REFUTED and not r.varied for r in self.results):
            return 1
        return 3 if Outcome.UNKNOWN in outcomes or len(self.results) < self.wanted else 0

    @property
    def versions(self) -> list[str]:
        """The columns, oldest first; a version with results in both modes has two."""
        return sorted(set(map(_column, self.results)), key=lambda name: (numbers(name), name))

    @property
    def rows(self) -> list[Row]:
        """The results by version of each claim, in the order of the catalogue."""
        rows: dict[int, Row] = {}
        for result in sorted(self.results, key=lambda result: result.started_utc):
            rows.setdefault(result.number, {}).setdefault(_column(result), []).append(result)
        versions = self.versions
        return [
            {version: row[version] for version in versions if version in row}
            for _, row in sorted(rows.items())
        ]

    @property
    def subjects(self) -> dict[str, list[Row]]:
        """The rows of each subject; those of claims that are there no more come last."""
        grouped = {subject: set(named) for subject, named in claims_by_subject().items()}
        rows: dict[str, list[Row]] = {subject: [] for subject in (*grouped, _ELSE)}
        for row in self.rows:
            name = next(iter(row.values()))[-1].claim
            rows[next((s for s in grouped if name in grouped[s]), _ELSE)].append(row)
        return {subject: found for subject, found in rows.items() if found}

    @property
    def changes(self) -> list[Change]:
        """Where neighbouring versions differ, each having done what is expected of it."""
        found = []
        for row in self.rows:
            confirmed = [
                (version, cell[-1])
                for version, cell in row.items()
                if cell[-1].outcome is Outcome.CONFIRMED
            ]
            found += [
                Change(before=before, since=since, was=was, now=now)
                for (before, was), (since, now) in pairwise(confirmed)
                if was.expected != now.expected
            ]
        return sorted(found, key=lambda change: (numbers(change.since), change.now.number))

    @property
    def tally(self) -> str:
        """How many cells ended how."""
        outcomes = [cell[-1].outcome for row in self.rows for cell in row.values()]
        return tally("cell", outcomes, Outcome)

    def document(self, folder: Path) -> dict[str, Any]:
        """Return everything as one JSON object; `folder` is that of the matrix."""
        counts = Counter(result.outcome for result in self.results)
        return {
            "schema": SCHEMA,
            "folder": folder.name,
            "wanted": self.wanted,
            "outcomes": {str(outcome): counts[outcome] for outcome in Outcome},
            "trials": [result.document() for result in self.results],
        }

    def markdown(self) -> str:
        """Return the table as Markdown, with what each run showed."""
        return render("claims.md.j2", matrix=self, times=times)

    def write(self, folder: Path) -> None:
        """Write the table into the matrix's folder, as HTML and as Markdown."""
        write_atomically(folder / "matrix.html", render("claims.html.j2", matrix=self, times=times))
        write_atomically(folder / "matrix.md", self.markdown())


def times(results: Sequence[ClaimResult]) -> str:
    """Return how often the outcome was the newest one, of how many: "3 of 3"."""
    return f"{sum(each.outcome is results[-1].outcome for each in results)} of {len(results)}"


def _column(result: ClaimResult) -> str:
    # Only where both modes exist does the version alone not say which it was.
    both = numbers("3.3") <= numbers(result.kafka) < (4,)
    return f"{result.kafka} {result.metadata}" if both and result.metadata else result.kafka


def run_claims(
    claims: Mapping[str, Claim],
    versions: Sequence[str],
    session: Session,
    *,
    seed: int = 1,
    before: Callable[[Lab, str], None] = lambda *_: None,
) -> tuple[Path, ClaimMatrix]:
    """Put claims to the test on versions of Kafka.

    Args:
        claims: by name.
        versions: of Kafka.
        session: how they are run.
        seed: of every run.
        before: told of each thing that a script is about to do.

    Returns:
        The folder of the matrix, and the matrix.

    Raises:
        UsageError: no claim speaks of any of the versions, or there is nothing to go on with.
        HealFailed: something may still be broken; nothing more was run.
    """
    cells = _cells(claims, versions, seed, before)
    if not cells:
        raise UsageError(
            f"None of these claims speaks of Kafka {', '.join(versions)}: "
            "`kafka-chaos claims` tells which versions each one speaks of."
        )
    asked = {
        "schema": SCHEMA, "claims": sorted(claims), "versions": list(versions), "seed": seed,
        "varied": {name: claim.variation.words() for name, claim in sorted(claims.items())},
    }  # fmt: skip

    folder = open_folder(session, "claims-*", asked)
    campaign = Campaign(
        cells=cells,
        read=ClaimResult.read,
        summarize=lambda results: ClaimMatrix(results, wanted=len(cells), runs="../"),
        results_file="trials.jsonl",
    )
    return folder, run_campaign(campaign, folder, session)


def _cells(
    claims: Mapping[str, Claim],
    versions: Sequence[str],
    seed: int,
    before: Callable[[Lab, str], None],
) -> list[Cell[ClaimResult]]:
    """Return what is to be run: version by version, equal clusters one after the other."""
    runs = [
        ClaimRun(name=name, claim=claim, kafka=kafka, before=before)
        for kafka in versions
        for name, claim in claims.items()
        if claim.expectation(kafka) is not None
    ]
    runs.sort(key=lambda run: (numbers(run.kafka), str(run.cluster), run.claim.number))
    return [
        Cell(
            settings={"claim": run.name, "kafka": run.kafka},
            title=f"claim {run.claim.number}, {run.name}, on Kafka {run.kafka}",
            run=run,
            seed=seed,
            shares_cluster=not run.claim.needs_fresh_cluster,
            # By its name: a script cannot be sent to another process.
            interpret=partial(claim_result, name=run.name, variation=run.claim.variation),
            without_run=partial(without_run, run),
        )
        for run in runs
    ]
