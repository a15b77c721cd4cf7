"""Strangers: processes that a run did not have, and what plants let them do.

A send or a read of their own leaves the order in which the run's own clients did things as it was.
"""

from typing import Any

from harness.core.op import value_of
from verifiers.planting.plot import Plot
from verifiers.planting.stock import Place


def stranger_sends(
    plot: Plot,
    kind: str,
    place: Place,
    offset: int | None,
    *,
    sequence: int = 0,
    txn: int | None = None,
) -> int:
    """Add a send of a new producer, and return its value.

    Args:
        plot: the copy.
        kind: ok, fail or info.
        place: topic and partition.
        offset: as told to the producer.
        sequence: its number there.
        txn: the number of its transaction.
    """
    process, now_ns = plot.stock.newcomer, plot.stock.after_ns
    value = value_of(process, sequence)
    plot.add(
        "send", process=process, op=sequence, type=kind, topic=place[0], partition=place[1],
        offset=offset, value=value, invoke_ns=now_ns, complete_ns=now_ns, txn=txn,
        error=None if kind == "ok" else "planted",
    )  # fmt: skip
    return value


def stranger_ends_transaction(plot: Plot, kind: str) -> int:
    """Add transaction 0 of the new producer: ok, fail or info; return its number."""
    now_ns = plot.stock.after_ns
    plot.add(
        "txn", process=plot.stock.newcomer, txn=0, type=kind, invoke_ns=now_ns, complete_ns=now_ns,
        committing=kind != "fail",
    )  # fmt: skip
    return 0


def finally_read(plot: Plot, place: Place, offset: int, value: int) -> None:
    """Let the final read hold a record more."""
    finals = plot.stock.rows("final")
    reader = int(finals.numbers("process")[0]) if finals.count else plot.stock.newcomer + 1
    _read(plot, "final", reader, place, offset, value)


def stranger_polls(
    plot: Plot,
    place: Place,
    offset: int,
    value: int,
    **more: Any,  # noqa: ANN401  (cells)
) -> int:
    """Add a record that a new consumer was given, and return the consumer's number."""
    reader = int(more.pop("process", plot.stock.newcomer + 1))
    _read(plot, "poll", reader, place, offset, value, **more)
    return reader


def _read(
    plot: Plot, dataset: str, reader: int, place: Place, offset: int, value: int,
    **more: Any,  # noqa: ANN401  (cells)
) -> None:  # fmt: skip
    told = {
        "process": reader, "op": 1 << 30, "position": 0, "topic": place[0], "partition": place[1],
        "offset": offset, "value": value, "time_ns": plot.stock.after_ns,
    }  # fmt: skip
    plot.add(dataset, **(told | more))
