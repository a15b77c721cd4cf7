"""The client library of a run's client processes, where it is not the harness's own."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from harness.core.errors import UsageError
from harness.core.version import FIRST_RENEWED_EPOCHS, numbers

Kind = Literal["librdkafka", "java", "command"]
_EXAMPLES = "librdkafka:2.13.0 or java:3.9.1"
CLIENT_COMMAND = "KC_CLIENT_CMD"
"""The variable in which a client process finds the command of its client, a JSON list."""
_FIRST_JAVA = (2, 5)
"""The Java consumer tells its group's metadata, which transactions need (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLibrary:
    """A client under test.

    librdkafka goes by the version of the confluent-kafka package that holds it: confluent-kafka
    2.13.2 holds librdkafka 2.13.2. Some releases mend only the package: confluent-kafka 2.16.1
    holds librdkafka 2.16.0. The package's version names both without doubt.

    Attributes:
        version: of confluent-kafka, such as "2.13.0", or of Kafka's Java client.
        kind: whose client it is.
        command: starts a client of somebody else, which speaks docs/client-protocol.md and has no
            version that we know.
    """

    version: str = ""
    kind: Kind = "librdkafka"
    command: str = ""

    def __post_init__(self) -> None:
        """Reject what is no version of a release, and no command.

        Raises:
            UsageError: it is none.
        """
        if self.kind == "command":
            self._reject_command()
            return
        if not re.fullmatch(r"\d+(\.\d+){1,3}", self.version):
            raise UsageError(
                f"{self.version!r} is no released version of {self.kind}: write it in full, as in "
                f"{_EXAMPLES}."
            )
        if self.kind == "java" and numbers(self.version) < _FIRST_JAVA:
            raise UsageError(
                f"The Java client {self.version} lacks what workloads ask of it: 2.5 or later has "
                "it."
            )

    def _reject_command(self) -> None:
        try:
            words = self.words
        except ValueError as error:
            raise UsageError(f"The client command {self.command!r}: {error}.") from error
        if not words:
            raise UsageError("The client command is empty: give the words that start it.")

    @property
    def words(self) -> list[str]:
        """The words of the command."""
        return shlex.split(self.command)

    @property
    def renews_epochs(self) -> bool:
        """Whether it takes a new epoch for each transaction: Java's since 4.0 (KIP-890, part 2)."""
        return self.kind == "java" and numbers(self.version) >= FIRST_RENEWED_EPOCHS

    def __str__(self) -> str:
        return f"{self.kind}:{self.command or self.version}"

    @classmethod
    def parse(cls, text: str) -> "ClientLibrary":
        """Return the library that a text names, as `--client librdkafka:2.13.0` does.

        Raises:
            UsageError: it names none; the message says how one is written.
        """
        name, sign, version = (part.strip() for part in text.partition(":"))
        kinds = {kind: kind for kind in get_args(Kind)}
        if name not in kinds:
            raise UsageError(f"There is no client {text!r}: write it as in {_EXAMPLES}.")
        if not sign or not version:
            raise UsageError(f"The client {text!r} has no version: write it as in {_EXAMPLES}.")
        if name == "command":
            return cls(command=version, kind="command")
        return cls(version=version, kind=kinds[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRuntime:
    """What a client process needs to run another library than the harness.

    Attributes:
        packages: a folder whose packages it takes before any others; None: it has ours.
        command: starts the client that does its work, by docs/client-protocol.md; empty: none.
    """

    packages: Path | None = None
    command: tuple[str, ...] = ()
