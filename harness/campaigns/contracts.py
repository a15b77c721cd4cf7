"""The matrix of contracts: the same damage under each of them, one run a cell."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Session, open_folder, run_campaign
from harness.campaigns.pages import MARKS, render, tally
from harness.campaigns.scenario_result import HEADLINES, ScenarioResult, scenario_cell
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from harness.run.scenario_run import ScenarioRun

DEFAULT_SCENARIO = "weak_spots"

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
    "request_timeout_ms": "request timeout, ms",
}

Choice = Mapping[str, Any]
"""One value for each dimension."""


def combine(
    dimensions: Mapping[str, Sequence[Any]], make: Callable[[Choice], Scenario], *, seed: int
) -> tuple[list[Scenario], dict[str, str]]:
    """Return the scenarios of a product, and why combinations of it are left out.

    Args:
        dimensions: the values of each; the last one changes fastest.
        make: makes the scenario of a combination, or raises UsageError where it cannot be.
        seed: of every run.

    Raises:
        UsageError: nothing is left, with the reasons.
    """
    scenarios: list[Scenario] = []
    left_out: dict[str, str] = {}
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
        left_out[words] = why
    if not scenarios:
        reasons = dict.fromkeys(left_out.values())
        raise UsageError(f"None of these contracts can be run. {' '.join(reasons)}")
    return scenarios, left_out


def settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return version and contract, resolved, as JSON: what tells a cell from the others."""
    contract = scenario.contract
    return {
        "kafka": scenario.cluster.kafka, **asdict(contract), "idempotence": contract.idempotent,
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractMatrix:
    """What came of the same damage under each contract.

    Attributes:
        results: in the order of the contracts.
        wanted: how many contracts there are.
        damage: what was done in every run: the object of plan.json.
        left_out: why combinations of settings were not run, by the combination.
        runs: the way from the page to the folders of the runs; empty: no links.
    """

    results: Sequence[ScenarioResult]
    wanted: int
    damage: Mapping[str, Any]
    left_out: Mapping[str, str] = field(default_factory=dict)
    runs: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well where a contract has none yet."""
        missing = [Verdict.UNKNOWN] * (len(self.results) < self.wanted)
        return Verdict.merge([*(result.verdict for result in self.results), *missing])

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
        return [
            *self.settings.values(), *MEANINGS, "longest time without ack", "faults felt",
            "situations", "verdict",
        ]  # fmt: skip

    def cells(self, result: ScenarioResult) -> list[str]:
        """Return one row as plain text."""
        words = {"True": "on", "False": "off", "None": "endless"}
        return [
            *(words.get(str(v), str(v)) for v in map(result.settings.get, self.settings)),
            *(str(result.headlines[name]) for name in MEANINGS),
            "never any" if result.unavailable_s is None else f"{result.unavailable_s:.1f} s",
            f"{result.felt} of {result.faults}",
            str(sum(bool(count) for count in result.situations.values())),
            f"{MARKS[result.verdict.name]} {result.verdict.name}",
        ]

    def reasons(self) -> list[str]:
        """Return why runs are not VALID, each with its contract."""
        known = {entry.name for entry in fields(Contract)}
        return [
            f"{Contract(**{k: v for k, v in result.settings.items() if k in known})}: {reason}"
            for result in self.results
            for reason in result.reasons
        ]

    def document(self, folder: Path) -> dict[str, Any]:
        """Return everything as one JSON object; `folder` is that of the matrix."""
        return {
            "schema": SCHEMA,
            "folder": folder.name,
            "verdict": self.verdict.name,
            "wanted": self.wanted,
            "damage": self.damage,
            "left_out": [{"choice": name, "why": why} for name, why in self.left_out.items()],
            "runs": [result.document() for result in self.results],
        }

    def write(self, folder: Path) -> None:
        """Write the table into the matrix's folder, as HTML and as Markdown."""
        for suffix in ("html", "md"):
            page = render(
                f"contracts.{suffix}.j2", matrix=self, meanings=MEANINGS, headlines=HEADLINES
            )
            write_atomically(folder / f"matrix.{suffix}", page)


def _phrase(described: Mapping[str, Any]) -> str:
    """Return a fault or a target of plan.json in words, what was left to its default unsaid."""
    # JSON sorts the parameters, so each is named.
    inside = ", ".join(
        f"{name}={value}"
        for name, value in sorted(described["parameters"].items())
        if value is not None and value is not False and value != []
    )
    return f"{described['name']}({inside})" if inside else str(described["name"])


def run_contracts(
    scenarios: Sequence[Scenario], left_out: Mapping[str, str], session: Session, *, seed: int
) -> tuple[Path, ContractMatrix]:
    """Do the same damage under each contract.

    Each run has a cluster of its own: what power loss and cuts leave in the logs and groups of one
    run must not be seen by the next.

    Args:
        scenarios: what is run, in this order; they differ in version and contract only.
        left_out: why combinations were left out.
        session: how they are run.
        seed: of every run.

    Returns:
        The folder of the matrix, and the matrix.

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
        "client": None if first.client is None else str(first.client),
        "cells": [cell.settings for cell in cells],
    }

    # Tuples are lists in JSON.
    folder = open_folder(session, "contracts-*", json.loads(json.dumps(asked)))
    campaign = Campaign(
        cells=cells,
        read=ScenarioResult.read,
        summarize=lambda results: ContractMatrix(
            results=results, wanted=len(cells), damage=damage, left_out=left_out, runs="../"
        ),
    )
    return folder, run_campaign(campaign, folder, session)
