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
        settings: what the module is told, JSON values only; the runner adds `run_id`,
            `seed`, `bootstrap`, `process` and `history` (the file to write).
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
        """Return what it may read: only what is committed, or all; None if it does not read."""
        for name in ("config", "consume"):
            config = self.settings.get(name)
            if isinstance(config, Mapping) and "isolation.level" in config:
                return str(config["isolation.level"])
        return None


class Workload(Protocol):
    """Topics, and the clients that use them under a contract; frozen and stateless."""

    def topics(self, contract: Contract) -> tuple[TopicSpec, ...]:
        """Return the topics to create."""
        ...

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return the producers and consumers that run while faults are injected."""
        ...

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return the fresh clients that read every partition from its beginning to its end."""
        ...


@runtime_checkable
class Demanding(Protocol):
    """A workload that cannot be run under every contract, or on every version of Kafka."""

    def refuse(self, contract: Contract, *, kafka: str) -> None:
        """Do nothing if it can be run.

        Args:
            contract: what the producers are promised.
            kafka: version of the brokers; "unknown" with a Compose file of a user's own.

        Raises:
            UsageError: it cannot; the message says what would do.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a member of a group does, or is done to it.

    Attributes:
        at_s: when, seconds after the workload was steady.
        kind: "join", a new member begins; "leave", one ends in order; "crash", one is killed.
            Which one is decided when it is time.
        before: a crash may be laid right before the processing of a record, or before a commit.
        count: before the how many-th from then on.
        linger_s: how long it is left there before it is killed, seconds.
    """

    at_s: float
    kind: MoveKind
    before: Act | None = None
    count: int = 1
    linger_s: float = 0.0


@runtime_checkable
class Grouped(Protocol):
    """A workload of a consumer group whose members come and go while it runs."""

    @property
    def topic(self) -> str:
        """What the group reads."""
        ...

    @property
    def group(self) -> str:
        """Its name."""
        ...

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of the group, JSON values."""
        ...

    def cluster_config(self, kafka: str) -> Mapping[str, str]:
        """Return the properties of brokers that the group wants; a user's own win."""
        ...

    def member(self, number: int) -> ClientSpec:
        """Return a member; the first ones are among the workload's clients."""
        ...

    def moves(self, random: Random, duration_s: float) -> Sequence[Move]:
        """Return who comes and goes, in the order of their times; the same for one random state."""
        ...


WORKLOADS: Registry[type[Workload]] = Registry("workload", "workloads")
workload = WORKLOADS.register
