"""The flags of the command line: each has an environment variable and a place in files."""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from harness.cli.settings import project_settings, reject_unknown, scenario_file
from harness.cli.values import levels, milliseconds, properties, seconds
from harness.core.scenario import Scenario

DEFAULT_STORE = Path("runs")


def _environment(name: str) -> str:
    return f"KAFKA_CHAOS_{name}"


def option(*names: str, help: str, **more: Any) -> Any:  # noqa: ANN401 (typer's own)
    """Return a flag that KAFKA_CHAOS_<NAME> can set as well."""
    variable = names[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(*names, help=help, envvar=_environment(variable), **more)


class OnOff(StrEnum):
    """A switch that can be left to its default."""

    ON = "on"
    OFF = "off"


class Acks(StrEnum):
    """What a producer waits for."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


def scenario_argument(context: typer.Context, value: str | None) -> str | None:
    """Let a scenario file take its place below flags and environment, above pyproject.toml."""
    common = dict(context.default_map or {})
    if value is not None and value.endswith((".yaml", ".yml")):
        known = [parameter.name or "" for parameter in context.command.params]
        from_file = scenario_file(Path(value))
        reject_unknown(from_file, known, f"The scenario file {value}")
        value = from_file.pop("scenario", None)
        common |= from_file
        context.default_map = common
    return value or common.get("scenario")


_CONFIGURED = ("run", "plan", "nightly", "verify", "matrix")
"""Commands that pyproject.toml speaks to; `heal` must work whatever is written there."""


def read_project_settings(context: typer.Context) -> None:
    """Make `[tool.kafka-chaos]` of the folder's pyproject.toml the defaults of the commands.

    Raises:
        UsageError: it sets what no flag is called.
    """
    command = context.invoked_subcommand
    if command not in _CONFIGURED:
        return
    settings = project_settings(Path.cwd())
    commands: Mapping[str, Any] = context.command.commands  # type: ignore[attr-defined]
    known = {name: {parameter.name for parameter in commands[name].params} for name in _CONFIGURED}
    reject_unknown(settings, set().union(*known.values()), "[tool.kafka-chaos] in pyproject.toml")
    own = {key: value for key, value in settings.items() if key in known[command]}
    context.default_map = {command: own}


ScenarioName = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO|FILE.yaml]",
        help="A registered scenario, or a YAML file of settings; default: mixed.",
        is_eager=True,
        callback=scenario_argument,
    ),
]
Kafka = Annotated[str | None, option("--kafka", help="Version of Apache Kafka.")]
Image = Annotated[str | None, option("--image", help="Broker image to use instead of our own.")]
Compose = Annotated[
    str | None, option("--compose", help="A Compose file of your own to start and break.")
]
Brokers = Annotated[int | None, option("--brokers", help="How many brokers, 1 to 9.")]
Controllers = Annotated[
    int | None, option("--controllers", help="Isolated controllers; 0: brokers are controllers.")
]
Metadata = Annotated[
    str | None,
    option("--metadata", help="kraft or zookeeper; default: KRaft from 3.3 on."),
]
Feature = Annotated[
    list[str] | None,
    option("--feature", help="Feature NAME=LEVEL that KRaft formats disks with; repeatable."),
]
HeapMib = Annotated[int | None, option("--heap-mib", help="Heap of each JVM, MiB.")]
BrokerConfig = Annotated[
    list[str] | None, option("--broker-config", help="Broker property KEY=VALUE; repeatable.")
]
Partitions = Annotated[int | None, option("--topic-partitions", help="Partitions of the topic.")]
Replication = Annotated[int | None, option("--replication-factor", help="Replicas of each.")]
AcksOption = Annotated[Acks | None, option("--acks", help="What producers wait for.")]
MinIsr = Annotated[int | None, option("--min-isr", help="min.insync.replicas of the topic.")]
Idempotence = Annotated[
    OnOff | None, option("--idempotence", help="Default: on exactly with acks=all.")
]
Unclean = Annotated[OnOff | None, option("--unclean-election", help="Default: off.")]
Retries = Annotated[int | None, option("--retries", help="Of a producer; default: endless.", min=0)]
MaxInFlight = Annotated[
    int | None, option("--max-in-flight", help="Requests in flight per connection.")
]
DeliveryTimeout = Annotated[
    str | None, option("--delivery-timeout", help="When a producer gives a record up: 20s, 2m.")
]
LingerMs = Annotated[
    float | None,
    option("--linger-ms", help="Milliseconds to wait for a full batch.", min=0),
]
BatchSize = Annotated[int | None, option("--batch-size", help="Most bytes of a batch.", min=1)]
Faults = Annotated[
    str | None,
    option(
        "--faults",
        help="Kinds to deal, with commas, each with parameters if need be: "
        "broker_kill,partition(listener=replication). `list faults` names them.",
    ),
]
KafkaList = Annotated[str | None, option("--kafka", help="Versions, with commas.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the newest matrix that was asked the same.")
]
AcksList = Annotated[str | None, option("--acks", help="With commas; default: 0,1,all.")]
MinIsrList = Annotated[str | None, option("--min-isr", help="With commas; default: 1,2.")]
IdempotenceList = Annotated[
    str | None, option("--idempotence", help="With commas; default: on,off.")
]
UncleanList = Annotated[str | None, option("--unclean-election", help="With commas; default: off.")]
MaxInFlightList = Annotated[
    str | None, option("--max-in-flight", help="With commas; default: the scenario's.")
]
Duration = Annotated[str | None, option("--duration", help="500ms, 30s, 5m, 8h.")]
MaxAtOnce = Annotated[int | None, option("--max-at-once", help="Faults in force at one time.")]
AvailableWithin = Annotated[
    str | None,
    option(
        "--available-within",
        help="Longest time without an acknowledgement while enough brokers are left: 30s.",
    ),
]
Rate = Annotated[int | None, option("--rate", help="Records a second in all; 0: flat out.")]
RecordSize = Annotated[int | None, option("--record-size", help="Bytes of each record's value.")]
WorkloadName = Annotated[
    str | None,
    option("--workload", help="What the clients do instead: `list workloads` names them."),
]
PartitioningOption = Annotated[
    str | None,
    option("--partitioning", help="Who chooses a record's partition: turn, hash or sticky."),
]
CompressionOption = Annotated[
    str | None, option("--compression", help="Of producers: none, gzip, snappy, lz4 or zstd.")
]
Headers = Annotated[int | None, option("--headers", help="Headers of each record.")]
SeekEvery = Annotated[
    str | None,
    option("--seek-every", help="About how often each consumer goes back: 5s; default: never."),
]
AssignorOption = Annotated[
    str | None,
    option(
        "--assignor",
        help="Of a consumer_group: range, roundrobin, cooperative-sticky, or consumer, the "
        "protocol of KIP-848 (Kafka 4.0 on). librdkafka has no sticky that is not cooperative.",
    ),
]
CommitsOption = Annotated[
    str | None,
    option(
        "--commits",
        help="Of a consumer_group: auto-delivered (librdkafka's default: consumed when handed "
        "over), auto-stored (when processed), before-processing or after-processing.",
    ),
]
ProcessTime = Annotated[
    str | None,
    option("--process-time", help="How long a member of a consumer_group needs a record: 2ms."),
]
ChurnEvery = Annotated[
    str | None,
    option(
        "--churn-every",
        help="About how often a member of a consumer_group joins, leaves or is killed: 5s.",
    ),
]
Producers = Annotated[int | None, option("--producers", help="Producer processes.")]
Consumers = Annotated[int | None, option("--consumers", help="Consumer processes (assign).")]
Subscribers = Annotated[int | None, option("--subscribers", help="Consumer processes in a group.")]
Seed = Annotated[int | None, option("--seed", help="Draws the plan; default: a new one.", min=0)]
Store = Annotated[Path, option("--store", help="Where run folders lie.")]
Master = Annotated[str | None, option("--master", help="Spark master; default: local[*].")]
Keep = Annotated[str, option("--keep-cluster", help="never, failed or always.")]
ReplicaLimit = Annotated[
    int,
    option("--replica-limit-mib", help="Copy the brokers' logs up to so many MiB in all.", min=0),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Verified = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH…",
        help="Run folders, such as runs/latest, and op histories in JSON lines; in any mix.",
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
RunFolder = Annotated[Path, typer.Argument(help="A run folder, such as runs/latest.")]


Flags = Mapping[str, Any]
"""The flags of `Experiment` by their names, None where one was not given."""


class Experiment:
    """What describes an experiment on the command line: the one list of its flags."""

    scenario: ScenarioName
    kafka: Kafka
    image: Image
    compose: Compose
    brokers: Brokers
    controllers: Controllers
    metadata: Metadata
    feature: Feature
    heap_mib: HeapMib
    broker_config: BrokerConfig
    topic_partitions: Partitions
    replication_factor: Replication
    acks: AcksOption
    min_isr: MinIsr
    idempotence: Idempotence
    unclean_election: Unclean
    retries: Retries
    max_in_flight: MaxInFlight
    linger_ms: LingerMs
    batch_size: BatchSize
    delivery_timeout: DeliveryTimeout
    faults: Faults
    duration: Duration
    max_at_once: MaxAtOnce
    available_within: AvailableWithin
    rate: Rate
    record_size: RecordSize
    workload: WorkloadName
    partitioning: PartitioningOption
    compression: CompressionOption
    headers: Headers
    seek_every: SeekEvery
    assignor: AssignorOption
    commits: CommitsOption
    process_time: ProcessTime
    churn_every: ChurnEvery
    producers: Producers
    consumers: Consumers
    subscribers: Subscribers
    seed: Seed


class Contracts(Experiment):
    """The flags of a matrix: those of an experiment, some of which hold lists there."""

    kafka: KafkaList
    acks: AcksList  # type: ignore[assignment]  # the same flag, with another meaning
    min_isr: MinIsrList  # type: ignore[assignment]
    idempotence: IdempotenceList  # type: ignore[assignment]
    unclean_election: UncleanList  # type: ignore[assignment]
    max_in_flight: MaxInFlightList  # type: ignore[assignment]


def experiment(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `Experiment`; it gets them as its first argument."""
    return _with_flags(command, Experiment)


def contracts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `Contracts`; it gets them as its first argument."""
    return _with_flags(command, Contracts)


def _with_flags(command: Callable[..., None], described: type) -> Callable[..., None]:
    flags = get_type_hints(described, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()

    @functools.wraps(command)
    def with_flags(**values: Any) -> None:  # noqa: ANN401 (whatever the flags hold)
        command({name: values.pop(name) for name in flags}, **values)

    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind
        )
        for name, kind in flags.items()
    ]
    # Typer reads a command's flags off its signature and its annotations.
    with_flags.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
    with_flags.__annotations__ = {
        **flags,
        **{parameter.name: parameter.annotation for parameter in own},
    }
    return with_flags


def scenario_of(given: Flags) -> Scenario:
    """Return the scenario that the flags describe, the default one if they name none.

    Raises:
        UsageError: they describe nothing that can be run.
    """
    from harness.campaigns.configure import DEFAULT_SCENARIO, Overrides, configure, split_faults

    switch = {None: None, OnOff.ON: True, OnOff.OFF: False}
    overrides = Overrides(
        cluster={
            "kafka": given["kafka"],
            "image": given["image"],
            "compose": given["compose"],
            "brokers": given["brokers"],
            "controllers": given["controllers"],
            "metadata": given["metadata"],
            "features": levels(given["feature"]),
            "heap_mib": given["heap_mib"],
            "config": properties(given["broker_config"]),
        },
        contract={
            "acks": given["acks"] and str(given["acks"]),
            "min_isr": given["min_isr"],
            "replication_factor": given["replication_factor"],
            "idempotence": switch[given["idempotence"]],
            "unclean_election": switch[given["unclean_election"]],
            "retries": given["retries"],
            "max_in_flight": given["max_in_flight"],
            "linger_ms": given["linger_ms"],
            "batch_size_bytes": given["batch_size"],
            "delivery_timeout_ms": milliseconds(given["delivery_timeout"]),
        },
        workload_name=given["workload"],
        workload={
            "partitions": given["topic_partitions"],
            "rate_per_s": given["rate"],
            "record_size_bytes": given["record_size"],
            "partitioning": given["partitioning"],
            "compression": given["compression"],
            "headers": given["headers"],
            "seek_s": seconds(given["seek_every"]),
            "assignor": given["assignor"],
            "commits": given["commits"],
            "process_s": seconds(given["process_time"]),
            "churn_s": seconds(given["churn_every"]),
            "producers": given["producers"],
            "consumers": given["consumers"],
            "subscribers": given["subscribers"],
        },
        faults=None if given["faults"] is None else split_faults(given["faults"]),
        duration_s=seconds(given["duration"]),
        max_at_once=given["max_at_once"],
        available_within_s=seconds(given["available_within"]),
    )
    return configure(given["scenario"] or DEFAULT_SCENARIO, overrides)
