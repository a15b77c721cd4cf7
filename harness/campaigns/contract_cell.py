"""One cell of the matrix of contracts: what is run, and what came of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from harness.campaigns.conduct import RunResult
from harness.core.contract import Contract
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.fault import fault_traits
from harness.core.run_dir import SCHEMA
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from harness.run.nemesis import plan, plan_json
from verifiers.oracle import Circumstances, may_occur

HEADLINES = {"lost": "lost-write", "duplicated": "duplicate", "reordered": "nonmonotonic-send"}
"""The columns of the table, and the anomalies that they count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A contract on a version, under the damage that all cells share.

    Attributes:
        scenario: with this cell's contract and version.
    """

    scenario: Scenario

    @property
    def kafka(self) -> str:
        """Version of the brokers."""
        return self.scenario.cluster.kafka

    @property
    def settings(self) -> dict[str, Any]:
        """Version and contract, resolved, as JSON: what tells this cell from the others."""
        contract = self.scenario.contract
        return {
            "kafka": self.kafka,
            **asdict(contract),
            "idempotence": contract.idempotent,
        }

    def damage(self, seed: int) -> str:
        """Return what is done to the cluster, the text of plan.json.

        Raises:
            UsageError: the plan cannot be made.
        """
        return plan_json(self.scenario, seed, plan(self.scenario, seed))

    def __str__(self) -> str:
        return f"Kafka {self.kafka} · {self.scenario.contract}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How often an anomaly was found, and whether the contract permits it.

    Attributes:
        count: how often.
        permitted: of what was found, whether all of it is permitted; of what was not found,
            whether the contract would permit any of it.
    """

    count: int
    permitted: bool

    def __str__(self) -> str:
        if self.count:
            return f"{self.count:,} {'permitted' if self.permitted else 'FORBIDDEN'}"
        return "0, permitted" if self.permitted else "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What came of a cell; one line of runs.jsonl.

    Attributes:
        settings: of the cell.
        verdict: of its run; UNKNOWN if it could not be made.
        reasons: why it is not VALID.
        headlines: what the columns of the table say, in their order.
        anomalies: all that was found.
        unavailable_s: the longest time in which some partition acknowledged nothing, seconds;
            None if nothing was ever acknowledged.
        acked: how many sends were acknowledged.
        proven: how many faults were proven.
        faults: how many were planned.
        run: name of the run's folder; empty if there was no run.
        seconds: how long it took, verification included.
    """

    settings: Mapping[str, Any]
    verdict: Verdict
    reasons: tuple[str, ...]
    headlines: Mapping[str, Found]
    anomalies: Mapping[str, Found] = field(default_factory=dict)
    unavailable_s: float | None = None
    acked: int = 0
    proven: int = 0
    faults: int = 0
    run: str = ""
    seconds: float = 0.0

    @property
    def contract(self) -> Contract:
        """The contract of the cell."""
        known = {entry.name for entry in fields(Contract)}
        return Contract(**{name: v for name, v in self.settings.items() if name in known})

    def document(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {"schema": SCHEMA, **asdict(self), "verdict": self.verdict.name}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Entry":
        """Return the entry in a JSON object.

        Raises:
            HistoryUnreadable: it holds none.
        """
        known = {entry.name for entry in fields(cls)}
        try:
            given = {name: value for name, value in document.items() if name in known}
            given["verdict"] = Verdict[given["verdict"]]
            given["reasons"] = tuple(given["reasons"])
            for name in ("headlines", "anomalies"):
                given[name] = {key: Found(**found) for key, found in given[name].items()}
            return cls(**given)
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise HistoryUnreadable(f"{document} is no run of a matrix ({error!r}).") from error


def entry_of(cell: Cell, outcome: RunResult, *, seconds: float) -> Entry:
    """Return what came of a run that was made and verified."""
    folder = outcome.run_dir.path
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    lanes = json.loads((folder / "lanes.json").read_text(encoding="utf-8"))
    anomalies = {
        name: Found(count=found["count"], permitted=found["permitted"])
        for name, found in verdict["anomalies"].items()
    }
    injected = [f for f in verdict["faults"] if f["injected_at_s"] is not None]
    return Entry(
        settings=cell.settings,
        verdict=outcome.verdict,
        reasons=tuple(verdict["reasons"]),
        headlines=_headlines(cell, anomalies, destroyed=any(f["destroys_data"] for f in injected)),
        anomalies=anomalies,
        unavailable_s=max((part["gap_s"] for part in lanes["partitions"]), default=None),
        acked=verdict["counts"]["acked"],
        proven=sum(bool(fault["proven"]) for fault in verdict["faults"]),
        faults=len(verdict["faults"]),
        run=outcome.run_dir.name,
        seconds=round(seconds, 1),
    )


def failed_entry(cell: Cell, error: Exception, *, seed: int, seconds: float) -> Entry:
    """Return the entry of a run that could not be made, or not be verified."""
    steps = plan(cell.scenario, seed)
    destroyed = any(fault_traits(step.fault).destroys_data for step in steps)
    return Entry(
        settings=cell.settings,
        verdict=Verdict.UNKNOWN,
        reasons=(f"The run could not be made: {error}",),
        headlines=_headlines(cell, {}, destroyed=destroyed),
        faults=len(steps),
        seconds=round(seconds, 1),
    )


def _headlines(cell: Cell, anomalies: Mapping[str, Found], *, destroyed: bool) -> dict[str, Found]:
    at = Circumstances(contract=cell.scenario.contract, kafka=cell.kafka, destroyed=destroyed)
    return {
        column: anomalies.get(name) or Found(count=0, permitted=may_occur(name, at))
        for column, name in HEADLINES.items()
    }
