"""Workloads: what the clients do, as processes of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from harness.core.cluster import TopicSpec
from harness.core.contract import Contract
from harness.core.registry import Registry

Role = Literal["producer", "consumer", "reader"]


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


WORKLOADS: Registry[type[Workload]] = Registry("workload", "workloads")
workload = WORKLOADS.register
