"""The matrix of claims: each claim on each version of Kafka that it speaks of, one run a cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Cell, Session, open_folder, run_campaign
from harness.campaigns.claim_result import ClaimResult, claim_result, without_run
from harness.campaigns.pages import ClaimTable
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.version import numbers
from harness.lab.claim import Claim, Outcome
from harness.lab.claim_run import ClaimRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMatrix:
    """A matrix of claims that was run, or as much of it as there was time for.

    Attributes:
        folder: where its pages lie.
        wanted: how many cells there are.
        results: in the order of the cells.
    """

    folder: Path
    wanted: int
    results: Sequence[ClaimResult]

    @property
    def exit_code(self) -> int:
        """0: all as expected; 1: something was refuted; 3: something is not known."""
        outcomes = {result.outcome for result in self.results}
        if Outcome.REFUTED in outcomes:
            return 1
        return 3 if Outcome.UNKNOWN in outcomes or len(self.results) < self.wanted else 0

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "schema": SCHEMA,
            "folder": self.folder.name,
            "wanted": self.wanted,
            "outcomes": {
                str(outcome): sum(result.outcome is outcome for result in self.results)
                for outcome in Outcome
            },
            "trials": [result.document() for result in self.results],
        }


def run_claims(
    claims: Mapping[str, Claim], versions: Sequence[str], session: Session, *, seed: int = 1
) -> ClaimMatrix:
    """Put claims to the test on versions of Kafka.

    Args:
        claims: by name.
        versions: of Kafka.
        session: how they are run.
        seed: of every run.

    Raises:
        UsageError: no claim speaks of any of the versions, or there is nothing to go on with.
        HealFailed: something may still be broken; nothing more was run.
    """
    cells = _cells(claims, versions, seed)
    if not cells:
        raise UsageError(
            f"None of these claims speaks of Kafka {', '.join(versions)}: "
            "`kafka-chaos claims` tells which versions each one speaks of."
        )
    asked = {
        "schema": SCHEMA, "claims": sorted(claims), "versions": list(versions), "seed": seed,
    }  # fmt: skip
    folder = open_folder(session, "claims-*", asked)
    campaign = Campaign(
        cells=cells,
        read=ClaimResult.read,
        write_pages=write_pages,
        results_file="trials.jsonl",
    )
    results = run_campaign(campaign, folder, session)
    return ClaimMatrix(folder=folder, wanted=len(cells), results=results)


def _cells(
    claims: Mapping[str, Claim], versions: Sequence[str], seed: int
) -> list[Cell[ClaimResult]]:
    """Return what is to be run: version by version, equal clusters one after the other."""
    runs = [
        ClaimRun(name=name, claim=claim, kafka=kafka)
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
            interpret=partial(claim_result, name=run.name),
            without_run=partial(without_run, run),
        )
        for run in runs
    ]


def write_pages(folder: Path, results: Sequence[ClaimResult]) -> None:
    """Write the matrix as HTML and as Markdown, linked to the runs beside it."""
    table = ClaimTable(results, runs="../")
    write_atomically(folder / "matrix.html", table.html())
    write_atomically(folder / "matrix.md", table.markdown())
