"""Variations: a claim's experiment with one thing other than the claim says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """In what an experiment differs from that of its claim; nothing by default.

    Attributes:
        contract: fields of `Contract`, whatever the claim and its script say.
        config: properties of the brokers beyond those of the claim, or instead of them.
    """

    contract: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.contract or self.config)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.words().items())

    def words(self) -> dict[str, str]:
        """Return what differs, by the names of Kafka's settings."""
        names = {"min_isr": "min.insync.replicas"}
        contract = {names.get(name, name): str(value) for name, value in self.contract.items()}
        return contract | dict(self.config)
