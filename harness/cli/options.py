"""The flags that several commands share, and how a command gets the settings of an experiment."""

import functools
import inspect
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness.cli.settings import CLIENT_HELP, SETTINGS, Flags, option, scenario_of
from harness.cli.sources import STEPS, scenario_argument
from harness.core.errors import UsageError

DEFAULT_STORE = Path("runs")

ScenarioName = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO|FILE.yaml]",
        help="A registered scenario, or a YAML file of settings; default: mixed, of "
        "search and up the one of that name.",
        envvar="KAFKA_CHAOS_SCENARIO",
        show_envvar=False,
        is_eager=True,
        callback=scenario_argument,
    ),
]
Again = Annotated[
    Path | None,
    typer.Option(
        "--again",
        metavar="RUN",
        help="Repeat the run in this folder: the same settings, the same seed, the same plan.",
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Carry out this plan, as `plan --json` writes it: its scenario, seed and steps.",
    ),
]
Kafka = Annotated[str | None, option("--kafka", help="Version of Apache Kafka.")]
KafkaList = Annotated[str | None, option("--kafka", help="Versions of Apache Kafka, with commas.")]
WorkloadName = Annotated[
    str | None,
    option("--workload", help="What the clients do: `list workloads` names what there is."),
]
Client = Annotated[str | None, option("--client", help=CLIENT_HELP)]
Duration = Annotated[
    str | None,
    option("--duration", help="How long faults are injected: 30s, 5m, 8h.", metavar="DURATION"),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the newest one that was asked the same.")
]
Seed = Annotated[int | None, option("--seed", help="Draws the plan; default: a new one.", min=0)]
Store = Annotated[Path, option("--store", help="Where run folders lie.")]
Master = Annotated[str | None, option("--master", help="Spark master; default: local[*].")]
KnownFile = Annotated[
    Path | None,
    option(
        "--known",
        metavar="FILE",
        help="Findings that are known, and decide nothing; default: known.yaml, if it is here.",
    ),
]
Keep = Annotated[
    Literal["never", "failed", "always"],
    option("--keep-cluster", help="Whether the containers stay after the run."),
]
ReplicaLimit = Annotated[
    int,
    option("--replica-limit-mib", help="Copy the brokers' logs up to so many MiB in all.", min=0),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Verified = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH…",
        help="Run folders, such as runs/latest, and op histories in JSON lines, in any mix; URIs "
        "too, such as hdfs://name/runs/…",
    ),
]
Archived = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN… URI",
        help="Run folders, such as runs/latest, and the folder they are copied into.",
    ),
]
Subscribe = Annotated[
    bool,
    option(
        "--subscribe",
        help="Op histories: consumers subscribed, so a rebalance may move them between ops.",
    ),
]
Exact = Annotated[
    bool,
    option(
        "--exact",
        help="Look at every record, also where digests or a first look find all in order.",
    ),
]
SelfTest = Annotated[
    bool,
    typer.Option(
        "--self-test",
        help="One run folder: plant every kind of anomaly into copies of it; all must be found.",
    ),
]
Plots = Annotated[
    Path | None,
    option(
        "--plots",
        help="Op histories: draw what was unseen, the lags, and the order of keys with offences "
        "into this folder.",
        metavar="FOLDER",
    ),
]
WwDeps = Annotated[
    bool, option("--ww-deps", help="Op histories: a write depends on the one before it in the log.")
]
Anomaly = Annotated[
    str | None,
    typer.Option(
        "--anomaly",
        metavar="ANOMALY",
        help="Which of the run's forbidden anomalies is meant; default: the worst.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(help="A run folder, such as runs/latest.")]


VARIED = {
    "kafka": None,
    "acks": "0,1,all",
    "min_isr": "1,2",
    "idempotence": "on,off",
    "unclean_election": "off",
    "max_in_flight": None,
}
"""What a matrix varies, and by which values; None leaves the scenario's own."""

_DESCRIBED: Mapping[str, Any] = {
    "scenario": ScenarioName,
    **{setting.name: setting.parameter for setting in SETTINGS},
    "seed": Seed,
}
_CONTRACTS: Mapping[str, Any] = {
    **_DESCRIBED,
    **{setting.name: setting.listed for setting in SETTINGS if setting.name in VARIED},
}


def experiment(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the settings of an experiment; it gets a scenario and a seed.

    With --again they are those of an earlier run. That flag stands above the environment and all
    files, as every flag does; another flag for a setting contradicts it.
    """

    def with_experiment(given: Flags, **others: Any) -> None:  # noqa: ANN401
        from harness.campaigns.configure import repeated
        from harness.core.run_dir import RunDir

        flags = {name: given[name] for name in _DESCRIBED}
        again, context = given["again"], given["context"]
        if given["plan"] is not None:
            if again is not None:
                raise UsageError(
                    "A run is repeated with its own plan: leave out --again or --plan."
                )
            flags = _planned(given["plan"], flags)
        if steps := context.meta.get(STEPS):
            if given["plan"] is not None:
                raise UsageError("A scenario file with steps and --plan contradict each other.")
            flags = {**flags, "steps": steps}
        if again is None:
            seed = flags["seed"]
            command(scenario_of(flags), new_seed() if seed is None else seed, **others)
            return
        beside = sorted(_written(name) for name in flags if _is_flag(context, name))
        if beside:
            raise UsageError(
                f"--again repeats a run with all of its settings: leave out {', '.join(beside)}."
            )
        command(*repeated(RunDir.open(again)), **others)

    _, _, *own = inspect.signature(command).parameters.values()
    flags = {**_DESCRIBED, "plan": PlanFile, "again": Again, "context": typer.Context}
    return _with_flags(command, with_experiment, flags, own)


def _planned(path: Path, flags: Flags) -> dict[str, Any]:
    """Return the flags with what a plan says in the place of those that were not given."""
    from harness.campaigns.described import read_plan

    plan = read_plan(path)
    said = {
        "scenario": plan["scenario"],
        "seed": plan["seed"],
        "duration": f"{plan['duration_s']:g}s",
        "max_at_once": plan["max_at_once"],
    }
    given = {name: value for name, value in flags.items() if value is not None}
    return {**flags, **said, **given, "steps": tuple(plan["steps"])}


def new_seed() -> int:
    """Return a seed that is short enough to be typed."""
    return secrets.randbelow(1_000_000)


def contracts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the settings of many contracts; it gets them as its first argument."""
    _, *own = inspect.signature(command).parameters.values()
    return _with_flags(command, command, _CONTRACTS, own)


def experiments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the settings that many experiments share; it gets them as first argument."""
    _, *own = inspect.signature(command).parameters.values()
    return _with_flags(command, command, _DESCRIBED, own)


def _is_flag(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _written(name: str) -> str:
    return "SCENARIO" if name == "scenario" else f"--{name.replace('_', '-')}"


def _with_flags(
    command: Callable[..., None],
    call: Callable[..., None],
    flags: Mapping[str, Any],
    own: list[inspect.Parameter],
) -> Callable[..., None]:
    """Return a command that typer can read, which hands the values of `flags` on as a mapping."""

    @functools.wraps(command)
    def with_flags(**values: Any) -> None:  # noqa: ANN401 (whatever the flags hold)
        call({name: values.pop(name) for name in flags}, **values)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in flags.items()
    ]
    # Typer reads a command's flags off its signature and its annotations.
    with_flags.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
    with_flags.__annotations__ = {
        parameter.name: parameter.annotation for parameter in (*parameters, *own)
    }
    return with_flags
