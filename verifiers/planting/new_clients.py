"""Sends and reads of new clients, which the run does not have.

They leave the order of what the run's own clients did as it was.
"""

from dataclasses import asdict
from typing import Any

from harness.core.op import value_of
from verifiers.planting.run_contents import Record
from verifiers.planting.run_copy import RunCopy


def new_record(
    copy: RunCopy,
    sent: str = "",
    *,
    at: Record | None = None,
    sequence: int = 0,
    txn: int | None = None,
) -> Record:
    """Return a record of a new producer; nobody has read it yet.

    Args:
        copy: the copy.
        sent: how its send ended: ok, fail or info; empty if nobody sent it. A producer is told the
            offset of a record that was acknowledged, or that it sent in a transaction.
        at: a record that has its offset; None puts it behind all records of some partition.
        sequence: its number there, and how many new ones are before it.
        txn: the number of its transaction.
    """
    contents = copy.contents
    tp = contents.some_partition if at is None else at.topic_partition
    offset = contents.free_offset(tp) + sequence if at is None else at.offset
    record = Record(
        topic=tp[0], partition=tp[1], offset=offset, value=value_of(contents.new_process, sequence),
        process=contents.new_process, op=sequence, txn=txn,
    )  # fmt: skip
    if sent:
        is_told = sent == "ok" or txn is not None
        copy.add(
            "send", **{**asdict(record), "offset": offset if is_told else None}, type=sent,
            invoke_ns=contents.after_ns, complete_ns=contents.after_ns,
            error=None if sent == "ok" else "planted",
        )  # fmt: skip
    return record


def new_producer_ends_transaction(copy: RunCopy, kind: str, *, number: int = 0) -> int:
    """Add a transaction of the new producer: ok, fail or info; return its number.

    Each takes no time, and comes a nanosecond after the one before it.

    Raises:
        NothingToPlant: the run has no transactions.
    """
    copy.contents.demand_transactions()
    now_ns = copy.contents.after_ns + number
    copy.add(
        "txn", process=copy.contents.new_process, txn=number, type=kind, invoke_ns=now_ns,
        complete_ns=now_ns, committing=kind != "fail",
    )  # fmt: skip
    return number


def finally_read(copy: RunCopy, record: Record) -> None:
    """Add a record to the final read."""
    readers = copy.contents.rows("final").numbers("process")
    reader = int(readers[0]) if len(readers) else copy.contents.new_process + 1
    _read(copy, "final", record, process=reader)


def new_consumer_polls(copy: RunCopy, record: Record, **more: Any) -> int:  # noqa: ANN401  (cells)
    """Add a record that a new consumer was given, and return the consumer's number."""
    reader = int(more.pop("process", copy.contents.new_process + 1))
    _read(copy, "poll", record, process=reader, **more)
    return reader


def _read(copy: RunCopy, dataset: str, record: Record, **more: Any) -> None:  # noqa: ANN401  (cells)
    row = {
        "op": 1 << 30, "position": 0, "topic": record.topic, "partition": record.partition,
        "offset": record.offset, "value": record.value, "time_ns": copy.contents.after_ns,
    }  # fmt: skip
    copy.add(dataset, **(row | more))
