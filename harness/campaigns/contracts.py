"""The matrix of contracts: the same damage under each of them, one run a cell."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Session, open_folder, run_campaign
from harness.campaigns.pages import ContractTable, LeftOut
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from harness.run.scenario_run import ScenarioRun

DEFAULT_SCENARIO = "weak_spots"

Choice = Mapping[str, Any]
"""One value for each dimension."""


def combine(
    dimensions: Mapping[str, Sequence[Any]], make: Callable[[Choice], Scenario], *, seed: int
) -> tuple[tuple[Scenario, ...], tuple[LeftOut, ...]]:
    """Return the scenarios of a product, and the combinations of it that are left out.

    Args:
        dimensions: the values of each; the last one changes fastest.
        make: makes the scenario of a combination, or raises UsageError where it cannot be.
        seed: of every run.

    Raises:
        UsageError: nothing is left, with the reasons.
    """
    scenarios: list[Scenario] = []
    left_out: list[LeftOut] = []
    damage, known = "", list[dict[str, Any]]()
    for values in product(*dimensions.values()):
        choice = dict(zip(dimensions, values, strict=True))
        try:
            scenario = make(choice)
            planned = ScenarioRun(scenario).plan_json(seed)
        except UsageError as error:
            why = str(error)
        else:
            damage = damage or planned
            settings = settings_of(scenario)
            if planned != damage:
                why = "The plan would be another one, so the runs could not be compared."
            elif settings in known:
                why = "It is the same contract as one before, its defaults filled in."
            else:
                known.append(settings)
                scenarios.append(scenario)
                continue
        words = ", ".join(f"{name}={value}" for name, value in choice.items() if value is not None)
        left_out.append(LeftOut(choice=words, why=why))
    if not scenarios:
        reasons = dict.fromkeys(each.why for each in left_out)
        raise UsageError(f"None of these contracts can be run. {' '.join(reasons)}")
    return tuple(scenarios), tuple(left_out)


def settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return version and contract, resolved, as JSON: what tells a cell from the others."""
    contract = scenario.contract
    return {
        "kafka": scenario.cluster.kafka, **asdict(contract), "idempotence": contract.idempotent,
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractMatrix:
    """A matrix of contracts that was run, or as much of it as there was time for.

    Attributes:
        folder: where its pages lie.
        wanted: how many contracts there are.
        table: what came of those that were run.
    """

    folder: Path
    wanted: int
    table: ContractTable

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well where a contract has none yet."""
        missing = [Verdict.UNKNOWN] * (len(self.table.results) < self.wanted)
        return Verdict.merge([*(result.verdict for result in self.table.results), *missing])

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "schema": SCHEMA,
            "folder": self.folder.name,
            "verdict": self.verdict.name,
            "wanted": self.wanted,
            "damage": self.table.damage,
            "left_out": [asdict(each) for each in self.table.left_out],
            "runs": [result.document() for result in self.table.results],
        }


def run_contracts(
    scenarios: Sequence[Scenario], left_out: Sequence[LeftOut], session: Session, *, seed: int
) -> ContractMatrix:
    """Do the same damage under each contract.

    Each run has a cluster of its own: what power loss and cuts leave in the logs and groups of one
    run must not be seen by the next.

    Args:
        scenarios: what is run, in this order; they differ in version and contract only.
        left_out: what cannot be, or would not be the same damage.
        session: how they are run.
        seed: of every run.

    Raises:
        UsageError: there is nothing to go on with, or the store cannot be written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    first = scenarios[0]
    damage = json.loads(ScenarioRun(first).plan_json(seed))
    cells = [
        scenario_cell(
            scenario,
            settings=settings_of(scenario),
            title=f"Kafka {scenario.cluster.kafka} · {scenario.contract}",
            seed=seed,
            shares_cluster=False,
        )
        for scenario in scenarios
    ]
    asked = {
        "schema": SCHEMA,
        "damage": damage,
        "cluster": {**asdict(first.cluster), "kafka": None},
        "workload": {"what": repr(first.workload)},
        "cells": [cell.settings for cell in cells],
    }

    def table(results: Sequence[ScenarioResult]) -> ContractTable:
        return ContractTable(results=results, damage=damage, left_out=left_out, runs="../")

    def write_pages(folder: Path, results: Sequence[ScenarioResult]) -> None:
        write_atomically(folder / "matrix.html", table(results).html())
        write_atomically(folder / "matrix.md", table(results).markdown())

    # Tuples are lists in JSON.
    folder = open_folder(session, "contracts-*", json.loads(json.dumps(asked)))
    campaign = Campaign(cells=cells, read=ScenarioResult.read, write_pages=write_pages)
    results = run_campaign(campaign, folder, session)
    return ContractMatrix(folder=folder, wanted=len(cells), table=table(results))
