"""Sends and reads of new clients, which the run does not have.

They leave the order of what the run's own clients did as it was.
"""

from typing import Any

from harness.core.op import value_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition


def new_producer_sends(
    copy: RunCopy,
    kind: str,
    tp: TopicPartition,
    offset: int | None,
    *,
    sequence: int = 0,
    txn: int | None = None,
) -> int:
    """Add a send of a new producer, and return its value.

    Args:
        copy: the copy.
        kind: ok, fail or info.
        tp: topic and partition.
        offset: as told to the producer.
        sequence: its number there.
        txn: the number of its transaction.
    """
    process, now_ns = copy.new_process, copy.contents.after_ns
    (topic, partition), value = tp, value_of(process, sequence)
    copy.add(
        "send", process=process, op=sequence, type=kind, topic=topic, partition=partition,
        offset=offset, value=value, invoke_ns=now_ns, complete_ns=now_ns, txn=txn,
        error=None if kind == "ok" else "planted",
    )  # fmt: skip
    return value


def new_producer_ends_transaction(copy: RunCopy, kind: str, *, number: int = 0) -> int:
    """Add a transaction of the new producer: ok, fail or info; return its number.

    Each takes no time, and comes a nanosecond after the one before it.
    """
    now_ns = copy.contents.after_ns + number
    copy.add(
        "txn", process=copy.contents.new_process, txn=number, type=kind, invoke_ns=now_ns,
        complete_ns=now_ns, committing=kind != "fail",
    )  # fmt: skip
    return number


def finally_read(copy: RunCopy, tp: TopicPartition, offset: int, value: int) -> None:
    """Add a record to the final read."""
    finals = copy.contents.rows("final")
    reader = (
        int(finals.numbers("process")[0])
        if finals.table.num_rows
        else copy.contents.new_process + 1
    )
    _read(copy, "final", reader, tp, offset, value)


def new_consumer_polls(
    copy: RunCopy,
    tp: TopicPartition,
    offset: int,
    value: int,
    **more: Any,  # noqa: ANN401  (cells)
) -> int:
    """Add a record that a new consumer was given, and return the consumer's number."""
    reader = int(more.pop("process", copy.contents.new_process + 1))
    _read(copy, "poll", reader, tp, offset, value, **more)
    return reader


def _read(
    copy: RunCopy,
    dataset: str,
    reader: int,
    tp: TopicPartition,
    offset: int,
    value: int,
    **more: Any,  # noqa: ANN401  (cells)
) -> None:
    topic, partition = tp
    row = {
        "process": reader, "op": 1 << 30, "position": 0, "topic": topic, "partition": partition,
        "offset": offset, "value": value, "time_ns": copy.contents.after_ns,
    }  # fmt: skip
    copy.add(dataset, **(row | more))
