"""What the report says of the logs on disk."""

from typing import Any

from verifiers.report import disks

LOG = {
    "leo": 10721, "high_watermark": 10721, "recovery_point": None, "log_start": 0, "batches": 12,
    "size_bytes": 4096, "epochs": [[0, 0], [1, 6581]], "in_sync": True, "leader": False,
    "problem": None,
}  # fmt: skip
STRETCH = {
    "topic": "orders", "partition": 0, "first": 6581, "last": 10720, "count": 4138, "held_by": "",
    "lacking": "1,2,3", "cut_by": "3", "cut_to": "6581", "cut_at_utc": "2026-11-21 14:08:18.021",
    "cut_epoch": "1",
}  # fmt: skip


def said(**located: Any) -> str:
    return plain(" ".join(disks.sentences({"compared": True, "located": located})))


def plain(text: str) -> str:
    """Return a text with usual spaces."""
    return text.replace("\u202f", " ")


def test_each_replica_has_a_row_by_partition_and_broker() -> None:
    logs = {"orders-10": LOG, "orders-2": {**LOG, "leader": True, "problem": "truncated at byte 7"}}

    rows = disks.table({"brokers": {"2": logs, "1": logs}})

    assert [(row["partition"], row["broker"]) for row in rows] == [
        ("orders-2", "1"), ("orders-2", "2"), ("orders-10", "1"), ("orders-10", "2"),
    ]  # fmt: skip
    assert (rows[0]["role"], rows[2]["role"]) == ("leader", "in the ISR")
    assert rows[0]["problem"] == "truncated at byte 7"
    assert rows[0]["recovery_point"] == "—"
    assert plain(rows[0]["epochs"]) == "0 from 0, 1 from 6 581"


def test_a_loss_is_told_with_who_cut_it_where_and_when() -> None:
    text = said(lost=4138, held=0, gone=4138, unplaced=0, stretches=[STRETCH])

    assert "Of 4 138 lost records 0 still lie on a disk, and 4 138 on none." in text
    assert (
        "offsets 6 581 to 10 720 (4 138 lost): on no broker; broker 3 cut its log to offset" in text
    )
    assert "6581 at 2026-11-21 14:08:18.021, leader epoch 1 goes on from there." in text


def test_a_loss_that_lies_somewhere_names_the_brokers() -> None:
    held = {**STRETCH, "held_by": "2", "lacking": "1,3", "cut_by": None}

    text = said(lost=1, held=1, gone=0, unplaced=0, stretches=[held])

    assert "still on broker 2, not on brokers 1, 3; no broker's log tells of a truncation" in text


def test_replicas_that_were_not_compared_are_not_called_equal() -> None:
    assert "not compared in full" in disks.sentences({"compared": False, "brokers": {}})[0]
    assert disks.sentences({}) == []
    assert disks.table({}) == []


def test_each_broker_that_cut_is_told_with_its_own_offset_and_time() -> None:
    text = disks._cuts({"cut_by": "1 (power_loss),2", "cut_to": "5,5", "cut_at_utc": ",15:14:05"})

    assert text == (
        "broker 1 (power_loss) cut its log to offset 5; "
        "broker 2 cut its log to offset 5 at 15:14:05"
    )
