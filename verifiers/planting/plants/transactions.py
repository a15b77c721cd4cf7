"""Plants of torn transactions, early reads and fenced commits."""

from verifiers.planting.new_clients import (
    finally_read,
    new_consumer_polls,
    new_producer_ends_transaction,
    new_record,
)
from verifiers.planting.plant import Planted, offence_of, plant, planted
from verifiers.planting.run_contents import Offence, first_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import partition_name


@plant("torn-transaction")
def torn_transaction(copy: RunCopy) -> Planted:
    """Let the final read find one of the two records of a transaction in doubt.

    In doubt, because a record of a committed one that is not there would be lost as well.
    """
    number = new_producer_ends_transaction(copy, "info")
    first, second = (new_record(copy, "info", sequence=at, txn=number) for at in (0, 1))
    finally_read(copy, first)
    return planted(
        f"of a transaction in {partition_name(first.topic_partition)} @{first.offset} is there, "
        f"@{second.offset} is not",
        offence_of(
            "torn-transaction",
            second,
            kind="decided",
            detail={"type": "info", "found": "1", "lacking": "1"},
        ),
    )


@plant("precommitted-read")
def precommitted_read(copy: RunCopy) -> Planted:
    """Let a transaction be given a record of its own."""
    number = new_producer_ends_transaction(copy, "ok")
    record = new_record(copy, "ok", txn=number)
    finally_read(copy, record)
    new_consumer_polls(copy, record, process=copy.contents.new_process, txn=number)
    return planted(
        f"a transaction was given its own record, {record.name}",
        offence_of(
            "precommitted-read", record, kind="read_committed",
            detail={"txn": str(number), "records": "1"},
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
    numbers = [new_producer_ends_transaction(copy, "ok", number=number) for number in (0, 1)]
    records = [new_record(copy, "ok", sequence=number, txn=number) for number in numbers]
    for number, record, reader in zip(numbers, records, readers, strict=True):
        finally_read(copy, record)
        if reader is not None:
            new_consumer_polls(copy, record, process=record.process, op=number, txn=reader)
    first = records[readers.index(None) + 1 if None in readers else 0]
    return planted(
        f"two transactions of process {first.process} read in a circle in "
        f"{partition_name(first.topic_partition)}",
        offence_of(anomaly, first, detail={"transactions": "2"}),
    )


@plant("zombie-commit")
def zombie_commit(copy: RunCopy) -> Planted:
    """Let another client have taken over before a transaction was committed."""
    contents = copy.contents
    contents.demand_transactions()
    txns, events = contents.rows("txn"), contents.rows("event")
    takeovers = events.cells(events.among("f", "takeover"), "process", "op")
    taken = {(process, number) for _, process, number in takeovers}
    committed = txns.cells(txns.among("type", "ok"), "process", "txn", "complete_ns")
    fit = (
        (process, number, committed_ns)
        for _, process, number, committed_ns in committed
        if (process, number) not in taken and number is not None
    )
    process, number, committed_ns = first_of(fit, "no transaction was committed")
    copy.add("event", process=process, op=number, f="takeover", time_ns=committed_ns - 1)
    return planted(
        f"process {process} committed its transaction {number} as a zombie",
        Offence(anomaly="zombie-commit", process=process, detail={"txn": str(number)}),
    )
