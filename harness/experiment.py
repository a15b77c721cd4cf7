"""An experiment from beginning to end: run, verify, report."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from verifiers.job import Report, verify, write_verdict

from harness.core.errors import UsageError
from harness.core.fault import FAULTS, Fault
from harness.core.scenario import SCENARIOS, Scenario
from harness.core.schedule import Mix
from harness.core.verdict import Verdict
from harness.run_dir import RunDir
from harness.runner import Progress, Runner
from verifiers.report import write_report

log = logging.getLogger(__name__)

DEFAULT_SCENARIO = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a caller changes in a scenario; None leaves it as the scenario has it.

    Attributes:
        cluster: fields of `ClusterSpec`.
        contract: fields of `Contract`.
        workload: fields of the scenario's workload.
        faults: kinds to deal instead, by name; only for scenarios with a `Mix`.
        duration_s: length of the run, seconds.
        max_at_once: faults in force at one time.
    """

    cluster: Mapping[str, Any] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] | None = None
    duration_s: float | None = None
    max_at_once: int | None = None


def configure(name: str, overrides: Overrides) -> Scenario:
    """Return a registered scenario with the caller's changes.

    Raises:
        UsageError: no such scenario or fault, or a combination that cannot be.
    """
    scenario = SCENARIOS[name]()
    contract = replace(scenario.contract, **_given(overrides.contract))
    workload = _replace_workload(scenario, _given(overrides.workload))
    schedule = scenario.schedule
    if overrides.faults is not None:
        faults = tuple(_fault(kind) for kind in overrides.faults)
        if not isinstance(schedule, Mix):
            raise UsageError(
                f"The scenario {name!r} is written out step by step: --faults cannot change it. "
                "Choose another scenario, or leave --faults out."
            )
        schedule = replace(schedule, faults=faults)
    return replace(
        scenario,
        cluster=replace(scenario.cluster, **_given(overrides.cluster)),
        contract=contract,
        workload=workload,
        schedule=schedule,
        duration_s=overrides.duration_s or scenario.duration_s,
        max_at_once=overrides.max_at_once or scenario.max_at_once,
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _fault(kind: str) -> Fault:
    return FAULTS[kind]()


def _replace_workload(scenario: Scenario, changes: Mapping[str, Any]) -> Any:  # noqa: ANN401
    workload: Any = scenario.workload
    known = {entry.name for entry in fields(workload)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise UsageError(
            f"The workload of scenario {scenario.name!r} has no {', '.join(unknown)}; "
            f"it has {', '.join(sorted(known))}."
        )
    return replace(workload, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an experiment: its folder and its verdict."""

    run_dir: RunDir
    report: Report

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.report.verdict


def conduct(runner: Runner, *, master: str | None = None) -> Outcome:
    """Run a scenario, verify what was recorded, and write its report.

    Raises:
        KafkaChaosError: the run could not be made; what was recorded until then lies in its
            folder, sealed, and can be verified.
    """
    return judge(runner.run(), master=master, progress=runner.progress)


def judge(
    run_dir: RunDir, *, master: str | None = None, progress: Progress | None = None
) -> Outcome:
    """Verify a run folder and write its verdict and report.

    Raises:
        HistoryUnreadable: the history is damaged.
    """
    progress = progress or Progress()
    progress.phase("verify")
    begin_ns = time.monotonic_ns()
    report = verify(run_dir.path, master=master, say=progress.say)
    log.info("verified in %.1f s", (time.monotonic_ns() - begin_ns) / 1e9)
    write_verdict(run_dir.path, report)
    write_report(run_dir.path)
    return Outcome(run_dir=run_dir, report=report)
