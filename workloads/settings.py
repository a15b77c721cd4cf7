"""What clients are told: the settings in their files, checked before they begin."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from harness.core.access import Access
from harness.core.errors import UsageError
from harness.core.workload import Role
from harness.history.recorder import Identity, Recorder
from harness.history.sends import SendRecorder
from workloads.client_config import Config
from workloads.record import decoder, values_of

T = TypeVar("T")
R = TypeVar("R", bound=SendRecorder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What every client is told.

    Attributes:
        run_id: 16 hexadecimal digits.
        seed: of the run.
        process: the client's number in the run.
        history: the file that it writes; there must be none yet.
        bootstrap: where the brokers are.
        properties: a file of Kafka's security settings of clients; None: none are needed.
        topic: the topic.
        interval_s: seconds between two lines of progress; history is flushed twice as often.
        config: librdkafka's settings (`workloads.client_config`).
    """

    run_id: str
    seed: int
    process: int
    history: str
    bootstrap: str
    topic: str
    properties: str | None = None
    interval_s: float = 1.0
    config: Config = field(default_factory=dict)

    def identity(self, role: Role) -> Identity:
        """Return whose history it is."""
        topic = self.topic if role == "producer" else ""
        return Identity(process=self.process, role=role, run_id=self.run_id, topic=topic)

    def begin_polls(self, role: Role) -> Recorder:
        """Begin the history of a consumer or reader.

        Raises:
            KafkaChaosError: it cannot be written.
        """
        return Recorder(
            Path(self.history),
            self.identity(role),
            decode=decoder(run_id=self.run_id),
            flush_s=self.interval_s / 2,
        )

    def kafka_config(self, name: str) -> Config:
        """Return librdkafka's settings, whole; the client's id begins with `name`."""
        access: Config = {**Access(self.bootstrap, self.properties).config()}
        return self.config | access | {"client.id": f"{name}-{self.process}"}

    def consumer_config(self, name: str) -> Config:
        """Return the same for a consumer that may join no group: librdkafka wants one even so."""
        return {"group.id": f"unused-{self.run_id}-{self.process}", **self.kafka_config(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingSettings(ClientSettings):
    """What every client that sends is told.

    Attributes:
        partitions: how many.
        rate_per_s: records a second; 0 is as fast as the client can.
        record_size_bytes: length of a record's value.
    """

    partitions: int
    rate_per_s: float = 0.0
    record_size_bytes: int

    def begin_sends(self, kind: type[R]) -> R:
        """Begin the history, in a recorder of this kind.

        Raises:
            KafkaChaosError: it cannot be written.
        """
        return kind(
            Path(self.history),
            self.identity("producer"),
            values_of=values_of,
            decode=decoder(run_id=self.run_id),
            flush_s=self.interval_s / 2,
        )


def read_settings(kind: type[T], document: Mapping[str, Any]) -> T:
    """Return the settings in a client's file; those that it has no field for are passed over.

    Raises:
        UsageError: one is missing, or is of another type than its field.
    """
    hints = get_type_hints(kind)
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]  # a dataclass, as all settings are
        required = each.default is MISSING and each.default_factory is MISSING
        if not required and each.name not in document:
            continue
        value, hint = document.get(each.name), hints[each.name]
        if not _fits(value, hint):
            raise UsageError(
                f"The client's setting {each.name!r} is {value!r} and should be a "
                f"{getattr(hint, '__name__', hint)}: correct the settings file."
            )
        values[each.name] = value
    return kind(**values)


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 (a type)
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if isinstance(value, bool):
        return hint is bool
    kind = get_origin(hint) or hint
    return isinstance(value, int | float if kind is float else kind)
