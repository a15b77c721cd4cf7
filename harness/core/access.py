"""How clients get at a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.client_properties import read_client_properties


@dataclass(frozen=True, slots=True)
class Access:
    """Where a cluster's brokers are, and how a client gets in.

    It holds the name of a file with secrets, and never a secret: so it may stand in settings of
    clients, on command lines and in run folders.

    Attributes:
        bootstrap: `host:port,…`.
        properties: a file of Kafka's security settings of clients; None: whoever comes is let in.
    """

    bootstrap: str
    properties: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Access":
        """Return what `to_json` made."""
        return cls(document["bootstrap"], document.get("properties"))

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in documents."""
        secured = {"properties": self.properties} if self.properties else {}
        return {"bootstrap": self.bootstrap, **secured}

    def security(self) -> dict[str, str]:
        """Return librdkafka's security settings; empty if whoever comes is let in.

        Raises:
            UsageError: the file cannot be read or used.
        """
        return read_client_properties(Path(self.properties)) if self.properties else {}

    def config(self) -> dict[str, str]:
        """Return librdkafka's settings to get at the brokers.

        Raises:
            UsageError: as `security`.
        """
        return {"bootstrap.servers": self.bootstrap, **self.security()}
