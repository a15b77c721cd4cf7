"""Configuring a scenario: what a caller changes in it, and what the changes must fit."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from harness.campaigns.described import parse_fault, parse_pattern, parse_step, parse_target
from harness.campaigns.field_values import field_values
from harness.cluster.user_compose import read_compose_file
from harness.core.client_library import ClientLibrary
from harness.core.client_properties import read_client_properties
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.fault import Fault, Target, describe, fault_traits, target_traits
from harness.core.limits import noticed_within_s
from harness.core.run_dir import RunDir
from harness.core.scenario import SCENARIOS, Scenario, Schedule
from harness.core.schedule import Mix, Script
from harness.core.workload import (
    WORKLOADS,
    Demanding,
    Grouped,
    TimeLimited,
    Transacting,
    Workload,
)

DEFAULT_SCENARIO = "mixed"
_TOPIC_OF_OURS = "kafka-chaos-orders"
DEALS = ("faults", "targets", "patterns", "hold", "gap")
"""Settings of schedules that are drawn, as flags have them; steps take their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a caller changes in a scenario; None leaves it as the scenario has it.

    Attributes:
        cluster: fields of `ClusterSpec`.
        contract: fields of `Contract`.
        workload_name: a registered workload instead of the scenario's own; the topic and its
            partitions stay those that the scenario speaks of.
        workload: fields of the workload; with another topic, targets and faults that speak of the
            scenario's topic, in `steps` too, speak of that one.
        faults: kinds to deal instead, as `parse_fault` reads them; only for scenarios with a `Mix`.
        targets: who may be hit instead, as `parse_target` reads them; likewise.
        patterns: how faults hang together instead, as `parse_pattern` reads them; likewise.
        hold_s: shortest and longest hold, seconds, instead of holds around the limits of the
            cluster and of its clients; likewise.
        gap_s: the shortest rest between two patterns, seconds; likewise.
        steps: those of a plan, as `parse_step` reads them, instead of any that are drawn.
        duration_s: length of the run, seconds.
        max_at_once: faults in force at one time.
        available_within_s: bound on the time without an acknowledgement, seconds.
        lease_margin_s: so long after a fault should have ended the agent heals it, seconds.
        client: the library of the client processes, as `ClientLibrary.parse` reads it.
        client_cmd: the command of a client that speaks docs/client-protocol.md, instead.
    """

    cluster: Mapping[str, Any] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    workload_name: str | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str | Mapping[str, Any], ...] | None = None
    targets: tuple[str | Mapping[str, Any], ...] | None = None
    patterns: tuple[str | Mapping[str, Any], ...] | None = None
    hold_s: tuple[float, float] | None = None
    gap_s: float | None = None
    steps: tuple[Mapping[str, Any], ...] | None = None
    duration_s: float | None = None
    max_at_once: int | None = None
    available_within_s: float | None = None
    lease_margin_s: float | None = None
    client: str | None = None
    client_cmd: str | None = None


def configure(name: str, overrides: Overrides) -> Scenario:
    """Return a registered scenario with the caller's changes.

    Raises:
        UsageError: no such scenario, fault or client, or a combination that cannot be.
    """
    scenario = SCENARIOS[name]()
    if overrides.cluster.get("bootstrap"):
        # Others use that cluster too.
        overrides = replace(overrides, workload={"topic": _TOPIC_OF_OURS, **overrides.workload})
    contract = replace(
        scenario.contract, **field_values(Contract, overrides.contract, owner="The contract")
    )
    workload = _workload(scenario, overrides)
    topics = [getattr(each, "topic", None) for each in (scenario.workload, workload)]
    schedule: Schedule = scenario.schedule
    if overrides.steps is not None:
        steps = (parse_step(step, topic=topics[1]) for step in overrides.steps)
        schedule = Script(script=tuple(steps))
    schedule = _on_topic(schedule, *topics)
    schedule = _dealt(name, schedule, overrides, topic=topics[1])
    schedule = _with_own_names(schedule, workload, is_asked=overrides.targets is not None)
    cluster = _cluster(
        scenario.cluster, field_values(ClusterSpec, overrides.cluster, owner="The cluster")
    )
    if cluster.is_ours:
        wanted = dict(scenario.broker_config(cluster))
        if isinstance(workload, Grouped):
            wanted |= workload.cluster_config(cluster.kafka)
        cluster = replace(cluster, config=tuple(sorted({**wanted, **dict(cluster.config)}.items())))
    if cluster.bootstrap is not None:
        _reject_out_of_reach(schedule, is_asked=overrides.targets is not None)
    contract = contract.kept_by(cluster.kafka)
    if isinstance(workload, Demanding):
        workload.refuse(contract, kafka=cluster.kafka)
    if isinstance(schedule, Mix):
        if overrides.targets is None:
            schedule = _possible(schedule, cluster, workload)
        schedule = _fitting(schedule, cluster, contract, workload)
    bounds = {
        name: getattr(overrides, name)
        for name in ("duration_s", "max_at_once", "available_within_s", "lease_margin_s")
    }
    return replace(
        scenario,
        cluster=cluster,
        contract=contract,
        workload=workload,
        schedule=schedule,
        client=_client(overrides) or scenario.client,
        **field_values(Scenario, bounds, owner="The scenario"),
    )


def _dealt(
    scenario: str, schedule: Schedule, overrides: Overrides, *, topic: str | None
) -> Schedule:
    """Return a schedule that deals what the caller asks for.

    Args:
        scenario: its name.
        schedule: of the scenario.
        overrides: what is asked for.
        topic: what targets speak of that name no topic.

    Raises:
        UsageError: the schedule is not dealt, or there is no such fault or target.
    """
    asked: dict[str, Any] = {}
    if overrides.faults is not None:
        asked["faults"] = tuple(parse_fault(kind) for kind in overrides.faults)
    if overrides.targets is not None:
        asked["targets"] = tuple(parse_target(who, topic=topic) for who in overrides.targets)
    if overrides.patterns is not None:
        asked["patterns"] = tuple(parse_pattern(how) for how in overrides.patterns)
    if overrides.hold_s is not None:
        asked["hold_s"] = overrides.hold_s
    if overrides.gap_s is not None:
        asked["gap_s"] = overrides.gap_s
    if not asked:
        return schedule
    if not isinstance(schedule, Mix):
        flags = " and ".join(f"--{name.removesuffix('_s')}" for name in asked)
        raise UsageError(
            f"The {'plan' if overrides.steps else f'scenario {scenario!r}'} is written out step by "
            f"step, which {flags} cannot change: leave out {flags}, or choose another."
        )
    return replace(schedule, **asked)


def _reject_out_of_reach(schedule: Schedule, *, is_asked: bool) -> None:
    """Reject faults and targets that brokers outside Docker cannot have.

    Args:
        schedule: of any kind.
        is_asked: whether the caller has asked for the targets of a mix.

    Raises:
        UsageError: with what there is instead.
    """
    faults: list[Fault] = []
    targets: list[Target] = []
    if isinstance(schedule, Mix):
        faults += schedule.faults
        targets += schedule.targets if is_asked else ()
    elif isinstance(schedule, Script):
        faults += [step.fault for step in schedule.script]
        targets += [step.target for step in schedule.script]
    if names := _named(fault for fault in faults if fault_traits(fault).needs_container):
        raise UsageError(
            f"Brokers outside Docker are out of reach of {names}: break them by commands of yours, "
            "--faults 'own_command(./break.sh, ./heal.sh, ./look.sh)', or not at all, "
            "`kafka-chaos run undisturbed`."
        )
    if names := _named(target for target in targets if target_traits(target).needs_container):
        raise UsageError(
            f"Outside Docker nobody can tell who {names} is: choose a leader, a follower or id(…)."
        )


def _named(things: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(describe(thing)["name"] for thing in things))


def _fitting(mix: Mix, cluster: ClusterSpec, contract: Contract, workload: Workload) -> Mix:
    """Leave out what cannot happen: no link of a single node can be cut, no follower of one copy.

    Holds are drawn around the limits of the cluster and, if asked for, of the workload's clients.

    Raises:
        UsageError: nothing is left of what was asked for.
    """
    faults, targets = mix.faults, mix.targets
    if cluster.brokers + cluster.controllers == 1:
        faults = tuple(fault for fault in faults if not fault_traits(fault).cuts_links)
        if not faults:
            raise UsageError("A single node has no links to cut: raise --brokers.")
    if cluster.security.endswith("ssl"):
        faults = tuple(fault for fault in faults if not fault_traits(fault).reads_requests)
        if not faults:
            raise UsageError(
                f"What requests carry cannot be read in TLS, as {_named(mix.faults)} must: "
                "choose another --security, or another fault."
            )
    if contract.replication_factor == 1 and any(fault_traits(f).hits_pairs for f in faults):
        raise UsageError("A link needs a leader and a follower: raise --replication-factor.")
    followers = contract.replication_factor - 1
    targets = tuple(t for t in targets if target_traits(t).needs_followers <= followers)
    client_limits_s = workload.limits_s(contract) if isinstance(workload, TimeLimited) else ()
    return replace(
        mix,
        faults=faults,
        targets=targets,
        limits_s=noticed_within_s(cluster),
        client_limits_s=client_limits_s if mix.around_clients else (),
    )


def _possible(mix: Mix, cluster: ClusterSpec, workload: Workload) -> Mix:
    """Return a mix without the targets that there are not in a run of this workload.

    Only for targets of the scenario's own: whoever asks for a target by name means it.
    """
    has_group, has_transactions = isinstance(workload, Grouped), isinstance(workload, Transacting)

    is_outside = cluster.bootstrap is not None
    # No log of a topic lies on an isolated controller: nothing of it can be destroyed.
    needs_brokers = cluster.controllers > 0 and any(
        fault_traits(fault).destroys_data for fault in mix.faults
    )

    def is_possible(target: Target) -> bool:
        traits = target_traits(target)
        return (
            (has_group or not traits.needs_group)
            and (has_transactions or not traits.needs_transactions)
            and not (needs_brokers and traits.hits_controllers)
            and not (is_outside and traits.needs_container)
        )

    return replace(mix, targets=tuple(filter(is_possible, mix.targets)))


def with_topic(scenario: Scenario, topic: str) -> Scenario:
    """Return a scenario whose workload and steps speak of another topic."""
    workload: Any = scenario.workload
    return replace(
        scenario,
        workload=replace(workload, topic=topic),
        schedule=_on_topic(scenario.schedule, workload.topic, topic),
    )


def _on_topic(schedule: Schedule, old: str | None, new: str | None) -> Schedule:
    """Return a schedule that speaks of another topic."""
    changed: Schedule = _changed(
        schedule, lambda name, value: new if name == "topic" and value == old else value
    )
    return changed


def _with_own_names(schedule: Schedule, workload: Workload, *, is_asked: bool) -> Schedule:
    """Return a schedule whose targets and events that name no group, or id, have the workload's.

    Args:
        schedule: of any kind.
        workload: of the run.
        is_asked: whether the caller has asked for the targets.

    Raises:
        UsageError: the workload has none, and a step or the caller asks for it.
    """
    own: dict[str, str] = {}
    if isinstance(workload, Grouped):
        own["group"] = workload.group
    if isinstance(workload, Transacting):
        own["transactional_id"] = workload.transactional_ids[0]
    named: Schedule = _changed(
        schedule, lambda name, value: own.get(name) if value is None else value
    )
    asked: list[tuple[str, Any]] = []
    if isinstance(named, Script):
        asked += [("a step", step.target) for step in named.script]
        asked += [("a step", step.after.event) for step in named.script if step.after is not None]
    elif isinstance(named, Mix) and is_asked:
        asked += [("--targets", target) for target in named.targets]
    for where, part in asked:
        for name in _OF_THE_RUN:
            if getattr(part, name, "") is None:
                part_name, kind = describe(part)["name"], name.replace("_", " ")
                raise UsageError(
                    f"{part_name} in {where} is of the run's {kind}, and the workload "
                    f"{WORKLOADS.name_of(workload)} has none: write {part_name}({name}=…), or "
                    "choose another --workload."
                )
    return named


_OF_THE_RUN = ("group", "transactional_id")
"""What a target or an event gets from the workload, if it does not name another."""


def _changed(part: Any, change: Callable[[str, Any], Any]) -> Any:  # noqa: ANN401 (any part)
    """Return a schedule, or a part of it, with some values of fields changed.

    Args:
        part: whatever a schedule holds.
        change: returns the value to take, given the name of a field and its value.
    """
    if isinstance(part, tuple):
        return tuple(_changed(each, change) for each in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    values = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    new = {name: _changed(change(name, value), change) for name, value in values.items()}
    changes = {name: value for name, value in new.items() if value != values[name]}
    return replace(part, **changes) if changes else part


def _client(overrides: Overrides) -> ClientLibrary | None:
    if overrides.client and overrides.client_cmd:
        raise UsageError("--client and --client-cmd both say what the clients run: leave one out.")
    if overrides.client_cmd is not None:
        return ClientLibrary(command=overrides.client_cmd, kind="command")
    return ClientLibrary.parse(overrides.client) if overrides.client else None


_BROUGHT_BY_USER = (
    "image", "brokers", "controllers", "metadata", "features", "heap_mib", "config", "security",
    "sasl",
)  # fmt: skip
_UNKNOWN = "unknown"


def _cluster(spec: ClusterSpec, changes: dict[str, Any]) -> ClusterSpec:
    compose, bootstrap = changes.get("compose"), changes.get("bootstrap")
    if compose is None and bootstrap is None:
        return replace(spec, **changes)
    if compose is not None and bootstrap is not None:
        raise UsageError("--compose starts a cluster, --bootstrap finds one: leave one out.")
    # Only a broker in a container tells its version.
    brought = _BROUGHT_BY_USER if compose is None else ("kafka", *_BROUGHT_BY_USER)
    if surplus := [name.replace("_", "-") for name in brought if name in changes]:
        whose, flag = ("A Compose file brings its", "compose")
        if compose is None:
            whose, flag = ("Brokers that run already bring their", "bootstrap")
        raise UsageError(f"{whose} own cluster: leave out --{', --'.join(surplus)} or --{flag}.")
    properties = changes.get("client_config")
    if properties is not None:
        # What clients cannot use is refused before anything starts.
        read_client_properties(Path(properties))
    if bootstrap is not None:
        return ClusterSpec(
            kafka=changes.get("kafka", _UNKNOWN), bootstrap=bootstrap, client_config=properties
        )
    file = read_compose_file(Path(str(compose)))
    return ClusterSpec(
        kafka=_UNKNOWN,
        brokers=file.brokers,
        controllers=file.controllers,
        metadata="zookeeper" if file.has_zookeeper else None,
        compose=str(compose),
        client_config=properties,
    )


def _workload(scenario: Scenario, overrides: Overrides) -> Workload:
    """Return the scenario's workload, or another one on the same topic, changed as asked."""
    workload: Any = scenario.workload
    name = overrides.workload_name
    if name is not None and name != WORKLOADS.name_of(workload):
        # Targets and scripts speak of partitions of this topic.
        kept = {key: getattr(workload, key) for key in ("topic", "partitions")}
        make: Any = WORKLOADS[name]
        workload = make(**kept)
    owner = f"The workload {WORKLOADS.name_of(workload)!r} of scenario {scenario.name!r}"
    changed: Workload = replace(
        workload, **field_values(type(workload), overrides.workload, owner=owner)
    )
    return changed


def repeated(run_dir: RunDir) -> tuple[Scenario, int]:
    """Return the scenario of a run, with every setting that the run had, and its seed.

    Raises:
        UsageError: it was the run of a claim, or its settings cannot be read.
    """
    run = run_dir.meta()
    if "claim" in run:
        raise UsageError(f"{run_dir.path} is the run of a claim: repeat it by `{run['command']}`.")
    owner = f"settings in {run_dir.path / 'run.json'}"
    try:
        name, seed, settings = run["scenario"], int(run["seed"]), dict(run["settings"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{run_dir.path} does not hold the settings of its run ({error!r}), so it cannot be "
            "repeated: give the flags of the run instead."
        ) from error
    return configure(name, Overrides(**field_values(Overrides, settings, owner=owner))), seed
