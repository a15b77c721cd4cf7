"""The client library of a run's client processes, where it is not the harness's own."""

import re
from dataclasses import dataclass

from harness.core.errors import UsageError

_NAME = "librdkafka"
_EXAMPLE = f"{_NAME}:2.13.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLibrary:
    """A published librdkafka, by the version of the confluent-kafka package that holds it.

    confluent-kafka 2.13.2 holds librdkafka 2.13.2. Some releases mend only the package:
    confluent-kafka 2.16.1 holds librdkafka 2.16.0. The package's version names both without doubt.

    Attributes:
        version: of the confluent-kafka package, such as "2.13.0".
    """

    version: str

    def __post_init__(self) -> None:
        """Reject what is no version of a release.

        Raises:
            UsageError: it is none.
        """
        if not re.fullmatch(r"\d+(\.\d+){1,3}", self.version):
            raise UsageError(
                f"{self.version!r} is no released version of confluent-kafka: write it in full, as "
                f"in {_EXAMPLE}."
            )

    def __str__(self) -> str:
        return f"{_NAME}:{self.version}"

    @classmethod
    def parse(cls, text: str) -> "ClientLibrary":
        """Return the library that a text names, as `--client librdkafka:2.13.0` does.

        Raises:
            UsageError: it names none; the message says how one is written.
        """
        name, sign, version = (part.strip() for part in text.partition(":"))
        if name == "java":
            raise UsageError(
                f"Java clients are not supported yet, so {text!r} cannot be the client of a run: "
                f"choose a librdkafka, as in {_EXAMPLE}."
            )
        if name != _NAME:
            raise UsageError(f"There is no client {text!r}: write it as in {_EXAMPLE}.")
        if not sign or not version:
            raise UsageError(f"The client {text!r} has no version: write it as in {_EXAMPLE}.")
        return cls(version=version)
