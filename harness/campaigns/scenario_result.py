"""What came of a scenario that was run in a campaign."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from harness.campaigns.campaign import Cell, Unmade
from harness.campaigns.conduct import RunResult
from harness.campaigns.field_values import read_dataclass
from harness.campaigns.fingerprint import Fingerprint, fingerprints
from harness.campaigns.measured import Measured, measure
from harness.campaigns.pages import tally
from harness.core.contract import Contract
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.fault import fault_traits
from harness.core.run_dir import SCHEMA, RunDir
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from harness.core.workload import WORKLOADS
from harness.run.nemesis import plan
from harness.run.scenario_run import ScenarioRun
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.table import may_occur
from verifiers.run_folder.result import Report, read_verdict

HEADLINES = {"lost": "lost-write", "duplicated": "duplicate", "reordered": "nonmonotonic-send"}
"""The columns of the table of contracts, and the anomalies that they count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyCount:
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
class ScenarioResult:
    """What came of one cell; one line of runs.jsonl.

    Attributes:
        settings: of the cell.
        verdict: of its run; UNKNOWN if it could not be made.
        reasons: why it is not VALID.
        headlines: by column of the table of contracts.
        anomalies: all that was found.
        unavailable_s: the longest time in which some partition acknowledged nothing, seconds;
            None if nothing was ever acknowledged.
        acked: how many sends were acknowledged.
        proven: how many faults were proven.
        felt: of the proven ones, how many Kafka or its clients showed.
        faults: how many were planned.
        situations: by name, how often the run reached each; those that it did not are 0.
        reached_under: by situation, the names of the faults under which it was reached.
        reached_by: by situation, the names of the patterns that those faults were part of.
        fingerprints: what tells each forbidden thing that was found from other findings.
        kafka: version of the brokers.
        workload: what the clients did.
        contract: what the producers were promised.
        control: whether the damage must cause an anomaly.
        measured: what the run measured.
        run: name of the run's folder; empty if there was no run.
        by_machine: whether there was none because this machine lacks something: an engine, an
            image, room on a disk. That says nothing about Kafka.
        seconds: how long it took, verification included.
    """

    settings: Mapping[str, Any]
    verdict: Verdict
    reasons: tuple[str, ...]
    headlines: Mapping[str, AnomalyCount] = field(default_factory=dict)
    anomalies: Mapping[str, AnomalyCount] = field(default_factory=dict)
    unavailable_s: float | None = None
    acked: int = 0
    proven: int = 0
    felt: int = 0
    faults: int = 0
    situations: Mapping[str, int] = field(default_factory=dict)
    reached_under: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reached_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fingerprints: tuple[Fingerprint, ...] = ()
    kafka: str = ""
    workload: str = ""
    contract: Contract = field(default_factory=Contract)
    control: bool = False
    measured: Measured = field(default_factory=Measured)
    run: str = ""
    by_machine: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.ended}: {self.found}"

    @property
    def ended(self) -> str:
        """The verdict, or that there was nothing to judge."""
        return "NOT RUN" if self.by_machine else self.verdict.name

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the run would not be VALID without what is forbidden."""
        # What is forbidden comes first among the reasons, one for each anomaly.
        forbidden = {fingerprint.anomaly for fingerprint in self.fingerprints}
        return self.reasons[len(forbidden) :]

    @property
    def found(self) -> str:
        """What was found, or why nothing is known, in words."""
        anomalies = ", ".join(f"{name} ×{each.count}" for name, each in self.anomalies.items())
        reasons = self.reasons[:1] if self.verdict is Verdict.UNKNOWN else ()
        return " · ".join(filter(None, (anomalies, *reasons))) or "nothing"

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "schema": SCHEMA,
            **asdict(self),
            "verdict": self.verdict.name,
            "fingerprints": [each.document() for each in self.fingerprints],
        }

    def in_summary(self) -> dict[str, Any]:
        """Return what the summary of many runs tells of it, as a JSON object."""
        return {
            **self.settings,
            "verdict": self.verdict.name,
            "reasons": list(self.reasons),
            "anomalies": {name: each.count for name, each in self.anomalies.items()},
            "faults": self.faults,
            "proven": self.proven,
            "felt": self.felt,
            "fingerprints": [each.id for each in self.fingerprints],
            "run": self.run or None,
            "by_machine": self.by_machine,
            "seconds": self.seconds,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "ScenarioResult":
        """Return the result in a JSON object.

        Raises:
            HistoryUnreadable: it holds none.
        """
        verdict = Verdict.__members__.get(str(document.get("verdict")))
        return read_dataclass(cls, {**document, "verdict": verdict})


def stored_result(run_dir: RunDir) -> ScenarioResult:
    """Return what came of a run that was judged before, from its run.json and verdict.json.

    It is what a campaign would have kept of the run; its settings are the scenario and the seed.

    Raises:
        UsageError: the run has no verdict yet, or it was the run of a claim.
        HistoryUnreadable: one of the files is damaged.
    """
    run = run_dir.meta()
    if "claim" in run:
        raise UsageError(
            f"{run_dir.path} is the run of a claim, whose script breaks the cluster its own way: "
            "name runs of scenarios."
        )
    report = read_verdict(run_dir)
    try:
        subject = _Subject(
            contract=read_dataclass(Contract, run["settings"]["contract"]),
            workload=run["workload"],
            control=run["scenario"] if run["provokes"] else "",
        )
    except (KeyError, TypeError) as error:
        raise HistoryUnreadable(
            f"{run_dir.path / 'run.json'} does not say what was run ({error!r}): restore it, or "
            "run again."
        ) from error
    result = RunResult(run_dir=run_dir, report=report)
    seconds = measure(result).made_s + report.timing_s.get("verify", 0.0)
    settings = {"scenario": run["scenario"], "seed": run.get("seed")}
    return _of_run(settings, subject, result, seconds)


def tally_of(results: Sequence[ScenarioResult]) -> str:
    """Return how many runs ended how, and how many could not be made on this machine."""
    made = [result.verdict for result in results if not result.by_machine]
    told = tally("run", made, Verdict)
    lacking = len(results) - len(made)
    return f"{told}, {lacking} NOT RUN" if lacking else told


def scenario_cell(
    scenario: Scenario,
    *,
    settings: Mapping[str, Any],
    title: str,
    seed: int,
    shares_cluster: bool,
    again: Callable[[int], Cell[ScenarioResult]] | None = None,
) -> Cell[ScenarioResult]:
    """Return the cell of a scenario; the other arguments are attributes of it."""
    return Cell(
        settings=settings,
        title=title,
        run=ScenarioRun(scenario),
        seed=seed,
        shares_cluster=shares_cluster,
        interpret=partial(_of_run, settings, _Subject.of(scenario)),
        without_run=partial(_without_run, settings, scenario, seed),
        again=again,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What the process that judges runs must know of a scenario, which itself stays here.

    Attributes:
        contract: of the run.
        workload: name of it.
        control: the scenario, if its damage must cause an anomaly; else empty.
    """

    contract: Contract
    workload: str
    control: str

    @classmethod
    def of(cls, scenario: Scenario) -> "_Subject":
        """Return what is to be known of a scenario."""
        return cls(
            contract=scenario.contract,
            workload=WORKLOADS.name_of(scenario.workload),
            control=scenario.name if scenario.provokes(scenario.contract) else "",
        )


def _of_run(
    settings: Mapping[str, Any], subject: _Subject, result: RunResult, seconds: float
) -> ScenarioResult:
    """Return what a judged run says; `seconds` is how long it took, verification included."""
    report = result.report
    anomalies = {
        name: AnomalyCount(count=finding.count, permitted=finding.permitted)
        for name, finding in report.anomalies.items()
    }
    injected = [fault for fault in report.faults if fault.injected_at_s is not None]
    destroyed = any(fault.destroys_data for fault in injected)
    widest = report.liveness.get("widest")
    return ScenarioResult(
        settings=settings,
        verdict=report.verdict,
        reasons=report.reasons,
        headlines=_headlines(subject.contract, report.kafka, anomalies, destroyed=destroyed),
        anomalies=anomalies,
        unavailable_s=widest["gap_s"] if widest else None,
        acked=report.counts.acked,
        proven=sum(fault.proven for fault in report.faults),
        felt=sum(fault.felt == "felt" for fault in report.faults),
        faults=len(report.faults),
        situations={name: entry["count"] for name, entry in report.situations.items()},
        reached_under=_under(report, {fault.id: fault.name for fault in report.faults}),
        reached_by=_under(report, _patterns(result.run_dir)),
        fingerprints=fingerprints(
            report,
            contract=subject.contract,
            workload=subject.workload,
            control=subject.control,
            origin_ns=result.run_dir.meta().get("origin_ns"),
        ),
        kafka=report.kafka,
        workload=subject.workload,
        contract=subject.contract,
        control=bool(subject.control),
        measured=measure(result),
        run=result.run_dir.name,
        seconds=round(seconds, 1),
    )


def _under(report: Report, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return, by situation that was reached, what the faults under which it was are called.

    Args:
        report: of the run.
        names: by a fault's id; one that has none is left out.
    """
    return {
        name: tuple(sorted({names[fault_id] for fault_id in entry["faults"] if fault_id in names}))
        for name, entry in report.situations.items()
        if entry["count"]
    }


def _patterns(run_dir: RunDir) -> dict[str, str]:
    """Return which pattern each fault of a run was drawn with, by the fault's id.

    A plan that cannot be read is told elsewhere: by the report.
    """
    try:
        steps = run_dir.read_json("plan.json").get("steps", ())
    except HistoryUnreadable:
        return {}
    return {step["id"]: step["pattern"] for step in steps if step.get("pattern")}


def _without_run(
    settings: Mapping[str, Any], scenario: Scenario, seed: int, unmade: Unmade
) -> ScenarioResult:
    steps = plan(scenario, seed)
    destroyed = any(fault_traits(step.fault).destroys_data for step in steps)
    contract, kafka = scenario.contract, scenario.cluster.kafka
    return ScenarioResult(
        settings=settings,
        verdict=Verdict.UNKNOWN,
        reasons=(unmade.reason,),
        headlines=_headlines(contract, kafka, {}, destroyed=destroyed),
        faults=len(steps),
        kafka=kafka,
        workload=WORKLOADS.name_of(scenario.workload),
        contract=contract,
        control=bool(scenario.provokes(contract)),
        by_machine=unmade.by_machine,
        seconds=unmade.seconds,
    )


def _headlines(
    contract: Contract, kafka: str, anomalies: Mapping[str, AnomalyCount], *, destroyed: bool
) -> dict[str, AnomalyCount]:
    at = Circumstances.planned(contract, kafka, destroys=destroyed)
    return {
        column: anomalies.get(name) or AnomalyCount(count=0, permitted=may_occur(name, at))
        for column, name in HEADLINES.items()
    }
