"""Transactions that are not whole, or not their client's any more."""

import numpy as np

from verifiers.planting.plant import Offence, Planted, plant
from verifiers.planting.plot import NothingToPlant, Plot
from verifiers.planting.stock import NONE, Place, Stock
from verifiers.planting.strangers import (
    finally_read,
    stranger_ends_transaction,
    stranger_polls,
    stranger_sends,
)


@plant("torn-transaction")
def torn_transaction(plot: Plot) -> Planted:
    """Let the final read find one of the two records of a transaction in doubt.

    In doubt, because a record of a committed one that is not there would be lost as well.
    """
    place = _place(plot.stock)
    there = plot.stock.free_offset(place)
    number = stranger_ends_transaction(plot, "info")
    first = stranger_sends(plot, "info", place, there, sequence=0, txn=number)
    second = stranger_sends(plot, "info", place, there + 1, sequence=1, txn=number)
    finally_read(plot, place, there, first)
    return Planted(
        told=f"of a transaction @{there} of {place[0]}/{place[1]} is there, @{there + 1} is not",
        offences=(
            Offence(
                anomaly="torn-transaction", topic=place[0], partition=place[1], offset=there + 1,
                value=second, process=plot.stock.newcomer,
                detail={"type": "info", "found": "1", "lacking": "1"},
            ),
        ),
    )  # fmt: skip


@plant("precommitted-read")
def precommitted_read(plot: Plot) -> Planted:
    """Let a transaction be given a record of its own."""
    place = _place(plot.stock)
    offset = plot.stock.free_offset(place)
    number = stranger_ends_transaction(plot, "ok")
    value = stranger_sends(plot, "ok", place, offset, txn=number)
    finally_read(plot, place, offset, value)
    stranger_polls(plot, place, offset, value, process=plot.stock.newcomer, txn=number)
    return Planted(
        told=f"a transaction was given its own record, {place[0]}/{place[1]} @{offset}",
        offences=(
            Offence(
                anomaly="precommitted-read", topic=place[0], partition=place[1], offset=offset,
                value=value, process=plot.stock.newcomer, kind="read_committed",
                detail={"txn": str(number), "records": "1"},
            ),
        ),
    )  # fmt: skip


@plant("zombie-commit")
def zombie_commit(plot: Plot) -> Planted:
    """Let another client have taken over before a transaction was committed."""
    stock = plot.stock
    _place(stock)
    txns, events = stock.rows("txn"), stock.rows("event")
    taken = set(
        zip(
            events.numbers("process")[events.words("f") == "takeover"].tolist(),
            events.numbers("op")[events.words("f") == "takeover"].tolist(),
            strict=True,
        )
    )
    for row in np.flatnonzero(txns.words("type") == "ok").tolist():
        process, number = int(txns.numbers("process")[row]), int(txns.numbers("txn")[row])
        if (process, number) not in taken and number != NONE:
            committed_ns = int(txns.numbers("complete_ns")[row])
            plot.add("event", process=process, op=number, f="takeover", time_ns=committed_ns - 1)
            return Planted(
                told=f"process {process} committed its transaction {number} as a zombie",
                offences=(
                    Offence(anomaly="zombie-commit", process=process, detail={"txn": str(number)}),
                ),
            )
    raise NothingToPlant("no transaction was committed")


def _place(stock: Stock) -> Place:
    if not stock.has("txn"):
        raise NothingToPlant("the run has no transactions")
    if not stock.places:
        raise NothingToPlant("no partition was finally read to its end")
    return stock.places[0]
