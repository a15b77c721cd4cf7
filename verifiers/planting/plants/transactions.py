"""Plants of torn transactions, early reads and fenced commits."""

import numpy as np

from verifiers.planting.new_clients import (
    finally_read,
    new_consumer_polls,
    new_producer_ends_transaction,
    new_producer_sends,
)
from verifiers.planting.plant import Planted, offence_at, plant, planted
from verifiers.planting.run_contents import (
    NONE,
    NothingToPlant,
    Offence,
)
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import name_of


@plant("torn-transaction")
def torn_transaction(copy: RunCopy) -> Planted:
    """Let the final read find one of the two records of a transaction in doubt.

    In doubt, because a record of a committed one that is not there would be lost as well.
    """
    copy.contents.demand_transactions()
    tp = copy.contents.some_partition
    there = copy.contents.free_offset(tp)
    number = new_producer_ends_transaction(copy, "info")
    first = new_producer_sends(copy, "info", tp, there, sequence=0, txn=number)
    second = new_producer_sends(copy, "info", tp, there + 1, sequence=1, txn=number)
    finally_read(copy, tp, there, first)
    return planted(
        f"of a transaction in {name_of(tp)} @{there} is there, @{there + 1} is not",
        offence_at(
            "torn-transaction", tp, there + 1, second, copy.new_process,
            detail={"type": "info", "found": "1", "lacking": "1"},
        ),
    )  # fmt: skip


@plant("precommitted-read")
def precommitted_read(copy: RunCopy) -> Planted:
    """Let a transaction be given a record of its own."""
    copy.contents.demand_transactions()
    tp = copy.contents.some_partition
    offset = copy.contents.free_offset(tp)
    number = new_producer_ends_transaction(copy, "ok")
    value = new_producer_sends(copy, "ok", tp, offset, txn=number)
    finally_read(copy, tp, offset, value)
    new_consumer_polls(copy, tp, offset, value, process=copy.new_process, txn=number)
    return planted(
        f"a transaction was given its own record, {name_of(tp)} @{offset}",
        offence_at(
            "precommitted-read", tp, offset, value, copy.new_process,
            kind="read_committed", detail={"txn": str(number), "records": "1"},
        ),
    )  # fmt: skip


@plant("G1c")
def circular_read(copy: RunCopy) -> Planted:
    """Let two transactions of a new producer be given each other's record."""
    return _circle(copy, "G1c", readers=(1, 0))


@plant("G1c-realtime")
def circular_read_realtime(copy: RunCopy) -> Planted:
    """Let a transaction of a new producer be given a record of one that began after it ended."""
    return _circle(copy, "G1c-realtime", readers=(None, 0))


def _circle(copy: RunCopy, anomaly: str, readers: tuple[int | None, int]) -> Planted:
    """Let a new producer do two transactions, each with a record that one of `readers` is given."""
    copy.contents.demand_transactions()
    tp, process = copy.contents.some_partition, copy.new_process
    there = copy.contents.free_offset(tp)
    values = []
    for number, reader in enumerate(readers):
        new_producer_ends_transaction(copy, "ok", number=number)
        values.append(
            new_producer_sends(copy, "ok", tp, there + number, sequence=number, txn=number)
        )
        finally_read(copy, tp, there + number, values[number])
        if reader is not None:
            new_consumer_polls(
                copy, tp, there + number, values[number], process=process, op=number, txn=reader
            )
    first = readers.index(None) + 1 if None in readers else 0
    return planted(
        f"two transactions of process {process} read in a circle in {name_of(tp)}",
        offence_at(
            anomaly, tp, there + first, values[first], process, detail={"transactions": "2"}
        ),
    )


@plant("zombie-commit")
def zombie_commit(copy: RunCopy) -> Planted:
    """Let another client have taken over before a transaction was committed."""
    contents = copy.contents
    contents.demand_transactions()
    txns, events = contents.rows("txn"), contents.rows("event")
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
            copy.add("event", process=process, op=number, f="takeover", time_ns=committed_ns - 1)
            return planted(
                f"process {process} committed its transaction {number} as a zombie",
                Offence(anomaly="zombie-commit", process=process, detail={"txn": str(number)}),
            )
    raise NothingToPlant("no transaction was committed")
