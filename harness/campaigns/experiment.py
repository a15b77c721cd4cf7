"""An experiment from beginning to end: run, verify, report."""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from faults.link import Link
from faults.partition import Partition
from faults.targets import FollowerOf, LeaderAndFollower
from harness.cluster.user_compose import read_compose_file
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.errors import KafkaChaosError, UsageError
from harness.core.fault import FAULTS, Fault, hits_pairs
from harness.core.progress import Progress, Say
from harness.core.run_dir import RunDir
from harness.core.scenario import SCENARIOS, Scenario
from harness.core.schedule import Mix
from harness.core.verdict import Verdict
from harness.core.workload import WORKLOADS, Demanding, Grouped, Workload
from harness.machine.images import reject_unknown_kafka
from harness.run.runner import Runner
from verifiers.judging.job import Report, verify_all, write_verdict
from verifiers.report import write_report

log = logging.getLogger(__name__)

DEFAULT_SCENARIO = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a caller changes in a scenario; None leaves it as the scenario has it.

    Attributes:
        cluster: fields of `ClusterSpec`.
        contract: fields of `Contract`.
        workload_name: a registered workload instead of the scenario's own; the topic and its
            partitions stay those that the scenario speaks of.
        workload: fields of the workload.
        faults: kinds to deal instead, as `parse_fault` reads them; only for scenarios with a
            `Mix`.
        duration_s: length of the run, seconds.
        max_at_once: faults in force at one time.
        available_within_s: bound on the time without an acknowledgement, seconds.
    """

    cluster: Mapping[str, Any] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    workload_name: str | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] | None = None
    duration_s: float | None = None
    max_at_once: int | None = None
    available_within_s: float | None = None


def configure(name: str, overrides: Overrides) -> Scenario:
    """Return a registered scenario with the caller's changes.

    Raises:
        UsageError: no such scenario or fault, or a combination that cannot be.
    """
    scenario = SCENARIOS[name]()
    contract = replace(scenario.contract, **_given(overrides.contract))
    workload = _workload(scenario, overrides)
    schedule = scenario.schedule
    if overrides.faults is not None:
        faults = tuple(parse_fault(kind) for kind in overrides.faults)
        if not isinstance(schedule, Mix):
            raise UsageError(
                f"The scenario {name!r} is written out step by step: --faults cannot change it. "
                "Choose another scenario, or leave --faults out."
            )
        schedule = replace(schedule, faults=faults)
    cluster = _cluster(scenario.cluster, _given(overrides.cluster))
    if isinstance(workload, Grouped) and cluster.compose is None:
        wanted = workload.cluster_config(cluster.kafka)
        cluster = replace(cluster, config=tuple(sorted({**wanted, **dict(cluster.config)}.items())))
    contract = contract.kept_by(cluster.kafka)
    if isinstance(workload, Demanding):
        workload.refuse(contract, kafka=cluster.kafka)
    if isinstance(schedule, Mix):
        schedule = _fitting(schedule, cluster, contract)
    return replace(
        scenario,
        cluster=cluster,
        contract=contract,
        workload=workload,
        schedule=schedule,
        duration_s=overrides.duration_s or scenario.duration_s,
        max_at_once=overrides.max_at_once or scenario.max_at_once,
        available_within_s=overrides.available_within_s or scenario.available_within_s,
    )


def _fitting(mix: Mix, cluster: ClusterSpec, contract: Contract) -> Mix:
    """Leave out what cannot happen: no link of a single node can be cut, no follower of one copy.

    Raises:
        UsageError: nothing is left of what was asked for.
    """
    faults, targets = mix.faults, mix.targets
    if cluster.brokers + cluster.controllers == 1:
        faults = tuple(fault for fault in faults if not isinstance(fault, Partition | Link))
        if not faults:
            raise UsageError("A single node has no links to cut: raise --brokers.")
    if contract.replication_factor == 1:
        if any(hits_pairs(fault) for fault in faults):
            raise UsageError("A link needs a leader and a follower: raise --replication-factor.")
        targets = tuple(t for t in targets if not isinstance(t, FollowerOf | LeaderAndFollower))
    return replace(mix, faults=faults, targets=targets)


_BROUGHT_BY_FILE = (
    "kafka", "image", "brokers", "controllers", "metadata", "features", "heap_mib", "config",
)  # fmt: skip


def _cluster(spec: ClusterSpec, changes: dict[str, Any]) -> ClusterSpec:
    if changes.get("compose") is None:
        return replace(spec, **changes)
    surplus = [name.replace("_", "-") for name in _BROUGHT_BY_FILE if name in changes]
    if surplus:
        raise UsageError(
            f"A Compose file brings its own cluster: leave out --{', --'.join(surplus)} "
            "or --compose."
        )
    file = read_compose_file(Path(changes["compose"]))
    return ClusterSpec(
        kafka="unknown",
        brokers=file.brokers,
        controllers=file.controllers,
        compose=str(changes["compose"]),
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def split_faults(text: str) -> tuple[str, ...]:
    """Return the faults in a list with commas; a comma in brackets belongs to its fault."""
    parts = re.split(r",(?![^()]*\))", text)
    return tuple(part.strip() for part in parts if part.strip())


def parse_fault(text: str) -> Fault:
    """Return the fault that `name` or `name(parameter=value, …)` describes.

    Raises:
        UsageError: no such fault or parameter, or a value that does not fit it.
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is no fault: write name or name(parameter=value).")
    name, inside = match[1], match[2] or ""
    make: Any = FAULTS[name]
    hints = get_type_hints(make)
    known = {entry.name: hints[entry.name] for entry in fields(make)}
    given = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        key, sign, word = (piece.strip() for piece in part.partition("="))
        if not sign or key not in known:
            raise UsageError(
                f"The fault {name} has no parameter {key!r}; "
                f"it has {', '.join(known) or 'none'}, written parameter=value."
            )
        given[key] = _value(f"{name}({key}=…)", word, known[key])
    chosen: Fault = make(**given)
    return chosen


def _value(where: str, word: str, kind: Any) -> Any:  # noqa: ANN401 (as a dataclass declares it)
    """Return a word as a value of a field's type."""
    if get_origin(kind) is Literal:
        if word not in get_args(kind):
            raise UsageError(f"{where}: {word!r} is none of {', '.join(get_args(kind))}.")
        return word
    choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for choice in choices:
        if choice is bool and word in ("on", "off", "true", "false"):
            return word in ("on", "true")
        if choice in (int, float, str):
            with suppress(ValueError):
                return choice(word)
    wanted = " or ".join(getattr(choice, "__name__", str(choice)) for choice in choices)
    raise UsageError(f"{where}: {word!r} is no {wanted} that can be written on a command line.")


def _workload(scenario: Scenario, overrides: Overrides) -> Workload:
    """Return the scenario's workload, or another one on the same topic, changed as asked."""
    workload: Any = scenario.workload
    name = overrides.workload_name
    if name is not None and name != WORKLOADS.name_of(workload):
        # Targets and scripts speak of partitions of this topic.
        kept = {key: getattr(workload, key) for key in ("topic", "partitions")}
        make: Any = WORKLOADS[name]
        workload = make(**kept)
    changes = _given(overrides.workload)
    known = {entry.name for entry in fields(workload)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise UsageError(
            f"The workload {WORKLOADS.name_of(workload)!r} of scenario {scenario.name!r} has no "
            f"{', '.join(unknown)}; it has {', '.join(sorted(known))}."
        )
    changed: Workload = replace(workload, **changes)
    return changed


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
        UsageError: there is no such Kafka version; nothing was started, no folder made.
        KafkaChaosError: the run could not be made; what was recorded until then lies in its
            folder, sealed, and can be verified.
    """
    return judge(run_experiment(runner), master=master, progress=runner.progress)


def run_experiment(runner: Runner) -> RunDir:
    """Run an experiment that nobody has judged yet.

    Raises:
        UsageError: there is no such Kafka version; nothing was started, no folder made.
        KafkaChaosError: as for `conduct`.
    """
    reject_unknown_version(runner.experiment.cluster, say=runner.progress.say)
    return runner.run()


def reject_unknown_version(spec: ClusterSpec, *, say: Say) -> None:
    """Reject a Kafka version that does not exist, where we are the ones to make its image.

    Raises:
        UsageError: with the versions that there are.
    """
    if not spec.image and not spec.compose:
        reject_unknown_kafka(spec.kafka, say=say)


def judge(
    run_dir: RunDir,
    *,
    master: str | None = None,
    progress: Progress | None = None,
    exact: bool = False,
) -> Outcome:
    """Verify a run folder and write its verdict and report.

    Args:
        run_dir: the folder.
        master: a Spark master; None is this machine.
        progress: is told what is being done.
        exact: look at every record, however long the history is.

    Raises:
        HistoryUnreadable: the history is damaged.
    """
    (outcome,) = judge_all([run_dir], master=master, progress=progress, exact=exact)
    if isinstance(outcome, KafkaChaosError):
        raise outcome
    return outcome


def judge_all(
    run_dirs: Sequence[RunDir],
    *,
    master: str | None = None,
    progress: Progress | None = None,
    exact: bool = False,
) -> tuple[Outcome | KafkaChaosError, ...]:
    """Verify several run folders together, as `judge` does one; return what came of each.

    Args:
        run_dirs: the folders.
        master: a Spark master; None is this machine.
        progress: is told what is being done.
        exact: look at every record, however long a history is.

    Returns:
        Why, for a folder that cannot be judged.
    """
    progress = progress or Progress()
    progress.phase("verify")
    begin_ns = time.monotonic_ns()
    paths = [run_dir.path for run_dir in run_dirs]
    reports = verify_all(paths, master=master, say=progress.say, exact=exact)
    log.info("verified in %.1f s", (time.monotonic_ns() - begin_ns) / 1e9)
    outcomes: list[Outcome | KafkaChaosError] = []
    for run_dir, report in zip(run_dirs, reports, strict=True):
        if isinstance(report, KafkaChaosError):
            outcomes.append(report)
            continue
        write_verdict(run_dir.path, report)
        write_report(run_dir.path)
        outcomes.append(Outcome(run_dir=run_dir, report=report))
    return tuple(outcomes)
