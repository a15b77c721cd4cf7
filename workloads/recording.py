"""What every client does with its settings first: it opens its history, and makes its config."""

from collections.abc import Callable
from pathlib import Path

from harness.core.workload import Role
from harness.history.recorder import Identity, Recorder
from harness.history.sends import SendRecorder
from harness.history.transactions import TxnRecorder
from workloads.client_config import Config
from workloads.control import Control, Settings, setting
from workloads.record import block_encoder, decoder, encoder, values_of


def open_sends(
    settings: Settings, control: Control
) -> tuple[SendRecorder, Callable[[range], list[bytes]]]:
    """Return the history of a producer, begun, and the function that makes its records.

    Raises:
        KafkaChaosError: a setting is missing or wrong, or the history cannot be written.
    """
    identity = _producer(settings)
    recorder = SendRecorder(
        Path(setting(settings, "history", str)),
        identity,
        values_of=values_of,
        flush_s=control.interval_s / 2,
    )
    size_bytes = setting(settings, "record_size_bytes", int)
    return recorder, block_encoder(
        run_id=identity.run_id, topic=identity.topic, size_bytes=size_bytes
    )


def open_transactions(
    settings: Settings, control: Control
) -> tuple[TxnRecorder, Callable[[int], bytes]]:
    """Return the history of a client of transactions, begun, and what makes its records.

    Raises:
        KafkaChaosError: a setting is missing or wrong, or the history cannot be written.
    """
    identity = _producer(settings)
    size_bytes = setting(settings, "record_size_bytes", int)
    encode = encoder(run_id=identity.run_id, topic=identity.topic, size_bytes=size_bytes)
    recorder = TxnRecorder(
        Path(setting(settings, "history", str)),
        identity,
        values_of=values_of,
        decode=decoder(run_id=identity.run_id),
        flush_s=control.interval_s / 2,
    )
    return recorder, encode


def open_polls(settings: Settings, control: Control, *, role: Role) -> Recorder:
    """Return the history of a consumer or reader, begun.

    Raises:
        KafkaChaosError: a setting is missing or wrong, or the history cannot be written.
    """
    run_id = setting(settings, "run_id", str)
    return Recorder(
        Path(setting(settings, "history", str)),
        Identity(process=setting(settings, "process", int), role=role, run_id=run_id),
        decode=decoder(run_id=run_id),
        flush_s=control.interval_s / 2,
    )


def _producer(settings: Settings) -> Identity:
    return Identity(
        process=setting(settings, "process", int),
        role="producer",
        run_id=setting(settings, "run_id", str),
        topic=setting(settings, "topic", str),
    )


def consuming_config(settings: Settings, *, role: str) -> Config:
    """Return a consumer's settings for librdkafka, whole."""
    process = setting(settings, "process", int)
    return {
        # librdkafka wants a group even from a consumer that never joins one.
        "group.id": f"unused-{setting(settings, 'run_id', str)}-{process}",
        **setting(settings, "config", dict),
        "bootstrap.servers": setting(settings, "bootstrap", str),
        "client.id": f"{role}-{process}",
    }
