"""Workloads: what the clients do, as processes of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from harness.core.cluster import TopicSpec
from harness.core.contract import Contract
from harness.core.registry import Registry

Role = Literal["producer", "consumer", "reader"]
MoveKind = Literal["join", "leave", "crash"]
Act = Literal["processing", "commit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One client process.

    Attributes:
        process: its number in the history, unique in a run.
        role: "producer" and "consumer" work while faults come and go; a "reader" makes the
            final reads after healing.
        module: the Python module that is run, `python -m MODULE SETTINGS_FILE`.
        settings: of the module, JSON values only; the runner adds `run_id`, `seed`,
            `bootstrap`, `process` and `history` (the file to write).
    """

    process: int
    role: Role
    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """Return what run.json says of the client."""
        return {
            "process": self.process,
            "role": self.role,
            "mode": self.settings.get("mode"),
            "isolation": self._isolation(),
        }

    def _isolation(self) -> str | None:
        """Return its isolation level: read_committed or read_uncommitted; None if it has none."""
        for name in ("config", "consume"):
            config = self.settings.get(name)
            if isinstance(config, Mapping) and "isolation.level" in config:
                return str(config["isolation.level"])
        return None


class Workload(Protocol):
    """Topics, and the clients that use them under a contract; frozen and stateless."""

    def topics(self, contract: Contract) -> tuple[TopicSpec, ...]:
        """Return the topics to create."""

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return the producers and consumers that run while faults are injected."""

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return the fresh clients that read every partition from its beginning to its end."""


@runtime_checkable
class Demanding(Protocol):
    """A workload that cannot be run under every contract, or on every version of Kafka."""

    def refuse(self, contract: Contract, *, kafka: str) -> None:
        """Raise an error if the workload cannot be run; do nothing if it can.

        Args:
            contract: what the producers are promised.
            kafka: version of the brokers; "unknown" with a Compose file of a user's own.

        Raises:
            UsageError: it cannot be run; the message says what could be.
        """


@runtime_checkable
class Transacting(Protocol):
    """A workload whose producers send in transactions."""

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The `transactional.id` of each producer; those of one run differ."""


@runtime_checkable
class TimeLimited(Protocol):
    """A workload that knows after what time its clients, or brokers for them, give something up."""

    def limits_s(self, contract: Contract) -> tuple[float, ...]:
        """Return these time limits as they are in effect, each once, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A member of a group joins, leaves or crashes.

    Attributes:
        at_s: when, seconds after the workload was steady.
        kind: "join": a new member starts; "leave": a member ends in order; "crash": a member is
            killed. Which member is decided at that time.
        before: the step right before which a member crashes, if any: the processing of a record,
            or a commit.
        count: crash before the count-th such step from then on.
        linger_s: how long the member waits at the step before it is killed, seconds.
        everyone: whether all members go at once, so that none is left, instead of one.
    """

    at_s: float
    kind: MoveKind
    before: Act | None = None
    count: int = 1
    linger_s: float = 0.0
    everyone: bool = False


@runtime_checkable
class Grouped(Protocol):
    """A workload of a consumer group whose members come and go while it runs."""

    @property
    def topic(self) -> str:
        """The topic that the group reads."""

    @property
    def group(self) -> str:
        """Its name."""

    @property
    def stuck_after_s(self) -> float:
        """A group of live members that commits nothing for so long, with brokers well, is stuck."""

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of the group, JSON values."""

    def cluster_config(self, kafka: str) -> Mapping[str, str]:
        """Return the broker properties that the group needs; a user's own take precedence."""

    def member(self, number: int) -> ClientSpec:
        """Return a member by its number; the first members are among the workload's clients."""

    def moves(self, random: Random, duration_s: float) -> Sequence[Move]:
        """Return the moves in the order of their times; the same for the same random state."""


WORKLOADS: Registry[type[Workload]] = Registry("workload", "workloads")
workload = WORKLOADS.register
