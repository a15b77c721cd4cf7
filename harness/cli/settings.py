"""The settings of an experiment: each is a flag, and sets one field of the harness."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from harness.campaigns.configure import DEFAULT_SCENARIO, Overrides, configure
from harness.campaigns.described import parse_fault, parse_pattern, parse_target, split_calls
from harness.campaigns.field_values import field_values
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.duration import parse_duration_s, parse_range_s
from harness.core.errors import UsageError
from harness.core.scenario import Scenario
from harness.core.workload import WORKLOADS, Workload
from workloads.consumer_group import ConsumerGroup
from workloads.send_poll import SendPoll
from workloads.transactional import Transactional

Flags = Mapping[str, Any]
"""What was given for each setting, by its name; None where nothing was."""

_hints = cache(get_type_hints)
_Kind = Literal["text", "duration", "durations", "pairs", "calls"]
_CALLS: Mapping[str, Callable[[str], object]] = {
    "faults": parse_fault,
    "targets": lambda text: parse_target(text, topic=""),
    "patterns": parse_pattern,
}
"""What reads each entry of a setting that is a list of such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A flag, and the field that it sets.

    Attributes:
        name: its name in files, and of the parameter of a command.
        owner: the dataclass that has the field; of `Overrides`, what is no part of another one.
        field: the field. The flag of a field in seconds or milliseconds takes a duration, unless
            its own name ends in the unit.
        help: what it is, in a sentence.
        panel: the heading of the help under which the flag stands.
    """

    name: str
    owner: type
    field: str
    help: str
    panel: str

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def type(self) -> Any:  # noqa: ANN401 (a type)
        """The type of the field, None left out."""
        hint = _hints(self.owner)[self.field]
        types = [kind for kind in get_args(hint) if kind is not type(None)]
        return types[0] if types and get_origin(hint) not in (Literal, tuple) else hint

    @property
    def takes(self) -> _Kind:
        """How the value is written."""
        if self.field in _CALLS:
            return "calls"
        if self.field == "hold_s":
            return "durations"
        if get_origin(self.type) is tuple:
            return "pairs"
        is_time = self.field.endswith(("_s", "_ms")) and not self.field.endswith("_per_s")
        return "duration" if is_time and not self.flag.endswith("-ms") else "text"

    @property
    def is_repeatable(self) -> bool:
        """Whether the flag may be given several times."""
        return self.takes == "pairs"

    @property
    def parameter(self) -> Any:  # noqa: ANN401 (an annotation)
        """The annotation of a command's parameter that is this flag, for one value."""
        types: dict[str, Any] = {
            "duration": str, "durations": str, "pairs": list[str], "calls": str,
        }  # fmt: skip
        given = types.get(self.takes, self.type)
        return self._annotated(Literal["on", "off"] if given is bool else given, self.help)

    @property
    def listed(self) -> Any:  # noqa: ANN401 (an annotation)
        """The annotation of the flag that takes several values, with commas between them."""
        return self._annotated(str, f"{self.help} Several, with commas.")

    def _annotated(self, kind: Any, help_: str) -> Any:  # noqa: ANN401 (a type, an annotation)
        # Of a type that says what may be written the help shows just that.
        metavar = {
            "duration": "DURATION", "durations": "DURATION-DURATION", "pairs": "KEY=VALUE",
            "calls": f"{self.name.removesuffix('s').upper()},…",
        }  # fmt: skip
        shown = metavar.get(self.takes)
        return Annotated[
            kind | None,
            option(self.flag, help=help_, metavar=shown, rich_help_panel=self.panel),
        ]

    def read(self, value: Any) -> Any:  # noqa: ANN401 (whatever the flag, or a file, holds)
        """Return what a flag's value means for the field.

        Raises:
            UsageError: it is not written as the flag demands.
        """
        match self.takes:
            case "duration":
                seconds = parse_duration_s(str(value))
                return round(seconds * 1000) if self.field.endswith("_ms") else seconds
            case "durations":
                return parse_range_s(str(value))
            case "calls":
                return split_calls(value)
            case "pairs":
                return tuple(pair(self.flag, text) for text in value)
            case "text":
                return value

    def check(self, value: Any) -> None:  # noqa: ANN401 (whatever the flag, or a file, holds)
        """Reject a flag's value that means none of the field.

        Raises:
            UsageError: it is not written as the flag demands, or is no value of the field.
        """
        read = self.read(value)
        if self.takes == "calls":
            for text in read:
                _CALLS[self.field](text)
        field_values(self.owner, {self.field: read}, owner=f"The setting {self.flag}")

    def written(self, value: Any) -> Any:  # noqa: ANN401 (whatever a field holds)
        """Return the value of the field as a file has it; None if it cannot be written there.

        Settings that list calls are left out: their place is taken by steps.
        """
        match self.takes:
            case "duration" if value:
                return f"{value}ms" if self.field.endswith("_ms") else f"{value:g}s"
            case "pairs" if value:
                return [f"{key}={own}" for key, own in value]
            case "text" if value is not None:
                return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        return None

    def words(self, text: str | None) -> list[str]:
        """Return the values in a list with commas, each once, as they are written.

        Raises:
            UsageError: one of them is no value of the field.
        """
        words = dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip())
        for word in words:
            field_values(self.owner, {self.field: self.read(word)}, owner="The matrix")
        return list(words)


def pair(flag: str, text: str) -> tuple[str, str]:
    """Return the two parts of a flag's KEY=VALUE.

    Raises:
        UsageError: it is none.
    """
    key, sign, value = (part.strip() for part in text.partition("="))
    if not key or not sign:
        raise UsageError(f"{flag} {text!r} is not KEY=VALUE.")
    return key, value


def as_given(value: Any, *, repeatable: bool) -> Any:  # noqa: ANN401 (what a file holds)
    """Return a value of a file as it would be written on the command line."""
    if isinstance(value, list):
        texts = [as_given(entry, repeatable=False) for entry in value]
        return texts if repeatable else ",".join(texts)
    text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
    return [text] if repeatable else text


def option(*names: str, help: str, **more: Any) -> Any:  # noqa: ANN401 (typer's own)
    """Return a flag that KAFKA_CHAOS_<NAME> can set as well."""
    variable = names[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        *names, help=help, envvar=f"KAFKA_CHAOS_{variable}", show_envvar=False, **more
    )


_FIELDS = {
    "feature": "features",
    "broker_config": "config",
    "batch_size": "batch_size_bytes",
    "delivery_timeout": "delivery_timeout_ms",
    "request_timeout": "request_timeout_ms",
    "hold": "hold_s",
    "gap": "gap_s",
    "duration": "duration_s",
    "available_within": "available_within_s",
    "lease_margin": "lease_margin_s",
    "workload": "workload_name",
    "topic_partitions": "partitions",
    "rate": "rate_per_s",
    "record_size": "record_size_bytes",
    "seek_every": "seek_s",
    "quiet": "quiet_s",
    "producer_life": "producer_life_s",
    "transaction_timeout": "timeout_s",
    "think_time": "think_s",
    "process_time": "process_s",
    "churn_every": "churn_s",
}
"""The fields of those settings that are not called like theirs."""


CLIENT_HELP = (
    "Library of the client processes: librdkafka:2.13.0, by the version of confluent-kafka that "
    "holds it, or java:3.9.1; default: the harness's own."
)


def _settings(owner: type, panel: str, **helps: str) -> tuple[Setting, ...]:
    return tuple(
        Setting(name=name, owner=owner, field=_FIELDS.get(name, name), help=text, panel=panel)
        for name, text in helps.items()
    )


SETTINGS: tuple[Setting, ...] = (
    *_settings(
        ClusterSpec,
        "The cluster",
        kafka="Version of Apache Kafka.",
        image="Broker image to use instead of our own.",
        compose="A Compose file of your own to start and break.",
        bootstrap=(
            "Brokers that run already, outside Docker: host:port,…; nothing is started, and only "
            "own_command, a fault by commands of yours, breaks them."
        ),
        brokers="How many brokers, 1 to 9.",
        controllers="Isolated controllers; 0: brokers are controllers too.",
        metadata="Where Kafka keeps its metadata; default: KRaft from 3.3 on.",
        feature="Feature NAME=LEVEL that KRaft formats disks with; repeatable.",
        heap_mib="Heap of each JVM, MiB.",
        security="What clients speak to the brokers: security.protocol; default: plaintext.",
        sasl="How clients log in where --security has it: sasl.mechanism; default: scram-sha-512.",
        client_config=(
            "A file of Kafka's security settings of clients (client.properties), for --compose "
            "and --bootstrap."
        ),
        broker_config="Broker property KEY=VALUE; repeatable.",
    ),
    *_settings(
        Contract,
        "The contract: settings of the topic and of its producers",
        replication_factor="Replicas of each partition.",
        acks="What producers wait for: nothing, the leader, or the whole ISR.",
        min_isr="min.insync.replicas of the topic.",
        idempotence="Of producers; default: on with acks=all, else off.",
        unclean_election="Whether a replica outside the ISR may lead; default: off.",
        retries="Retries of a producer; default: without end.",
        max_in_flight="Requests of a producer in flight, per connection.",
        linger_ms="Milliseconds that a producer waits for a full batch.",
        batch_size="Most bytes of a batch.",
        delivery_timeout="After how long a producer gives a record up: 20s, 2m.",
        request_timeout=(
            "How long a producer waits for an answer: 3s; default: a quarter of the delivery "
            "timeout, 5s at most."
        ),
    ),
    *_settings(
        Overrides,
        "What is broken, and for how long",
        faults=(
            "Faults to draw from, with commas, each with its parameters if need be: "
            "broker_kill,partition(listener=replication). `list faults` names them."
        ),
        targets=(
            "Who may be hit, with commas: leader_of,isr_down_to(1),id(3). Targets of a topic speak "
            "of the run's. `list targets` names them."
        ),
        patterns=(
            "How faults hang together, with commas: alone,successor,returned; default: alone. "
            "`list patterns` names them."
        ),
        hold=(
            "How long faults last, from shortest to longest: 2s-20s; default: around the limits by "
            "which the cluster notices."
        ),
        gap=(
            "How long there is no fault between two patterns, at least: 1s; default: 3s, in a "
            "search 2s."
        ),
        duration="How long faults are injected: 30s, 5m, 8h.",
        max_at_once="How many faults may be in force at one time.",
        available_within=(
            "Longest time that a partition may acknowledge nothing while enough brokers are "
            "left: 30s; default: any."
        ),
        lease_margin=(
            "How long after a fault should have ended the agent heals it by itself; default: 30s."
        ),
        workload="What the clients do: `list workloads` names what there is.",
        client=CLIENT_HELP,
        client_cmd=(
            "A client of your own that runs in the client processes' place: the command that "
            "starts it, docs/client-protocol.md."
        ),
    ),
    *_settings(
        SendPoll,
        "What the clients do",
        topic_partitions="Partitions of the topic.",
        rate="Records a second of all producers together; 0: as fast as they can.",
        record_size="Bytes of each record's value.",
        partitioning="Who chooses a record's partition.",
        compression="compression.type of the producers.",
        headers="Headers of each record.",
        quiet="How long each partition in its turn is sent nothing: 10s; default: never.",
        producer_life="How long until a new producer takes a producer's place: 5s; default: never.",
        seek_every=(
            "About how often each consumer goes back to earlier offsets: 5s; default: never."
        ),
        producers="Producer processes.",
        consumers="Consumer processes that take all partitions (assign).",
        subscribers="Consumer processes in a group (subscribe).",
    ),
    *_settings(
        Transactional,
        "What the clients of --workload transactional do",
        transaction_timeout="transaction.timeout.ms: 10s; default: 60s.",
        think_time=(
            "How long one transaction in ten rests in its middle, at most: 30s; default: 0."
        ),
    ),
    *_settings(
        ConsumerGroup,
        "What the clients of --workload consumer_group do",
        assignor=(
            "Who assigns partitions to members; consumer is the protocol of KIP-848 (Kafka 4.0 "
            "on). librdkafka has no sticky that is not cooperative."
        ),
        commits=(
            "What is committed: automatically, what was handed over (auto-delivered, "
            "librdkafka's default) or what was processed (auto-stored); or each record, before "
            "or after."
        ),
        process_time="How long a member needs for a record: 2ms.",
        poll_records="At most so many records a poll of a member, consume(n).",
        partition_eof=(
            "Whether a member is also told when it is at the end of a partition "
            "(enable.partition.eof); default: off."
        ),
        commit_position=(
            "Whether a member commits its consumer's own position, as after a commit that names "
            "no offsets, instead of the end of what it processed; default: off."
        ),
        churn_every="About how often a member joins, leaves or is killed: 5s.",
    ),
)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


_OF_USERS = ("compose", "bootstrap", "client_config")
"""What there is to say of a cluster of the user's own."""


def flags_of(scenario: Scenario) -> dict[str, Any]:
    """Return the settings that make a scenario, as a file has them; its steps are left out."""
    own: dict[type, Any] = {ClusterSpec: scenario.cluster, Contract: scenario.contract}
    own[Overrides] = Overrides(
        workload_name=WORKLOADS.name_of(scenario.workload),
        duration_s=scenario.duration_s,
        max_at_once=scenario.max_at_once,
        available_within_s=scenario.available_within_s,
        lease_margin_s=scenario.lease_margin_s,
        client=None if scenario.client is None else str(scenario.client),
    )
    flags: dict[str, Any] = {"scenario": scenario.name}
    for setting in SETTINGS:
        part = own.get(setting.owner, scenario.workload)
        is_users = not scenario.cluster.is_ours and setting.owner is ClusterSpec
        if is_users and setting.field not in _OF_USERS:
            continue
        if (text := setting.written(getattr(part, setting.field, None))) is not None:
            flags[setting.name.replace("_", "-")] = text
    return flags


def scenario_of(flags: Flags, topic: str | None = None) -> Scenario:
    """Return the scenario that the flags describe, the default one if they name none.

    Args:
        flags: what was given.
        topic: the topic under test; None leaves the scenario's own.

    Raises:
        UsageError: they describe nothing that can be run.
    """
    parts: dict[type, dict[str, Any]] = {ClusterSpec: {}, Contract: {}, Workload: {}, Overrides: {}}
    for setting in SETTINGS:
        if (given := flags.get(setting.name)) is not None:
            part = parts.get(setting.owner, parts[Workload])
            part[setting.field] = setting.read(given)
    if topic is not None:
        parts[Workload]["topic"] = topic
    overrides = Overrides(
        cluster=parts[ClusterSpec],
        contract=parts[Contract],
        workload=parts[Workload],
        steps=flags.get("steps"),
        **parts[Overrides],
    )
    return configure(flags.get("scenario") or DEFAULT_SCENARIO, overrides)
