"""What high watermarks, ISRs and bounds forbid."""

from collections.abc import Sequence
from typing import Any

from tests.spark.ops import TOPIC, Op, Rec, final, info, ok, poll
from tests.spark.story import Row, Story, row

S = 1_000_000_000
PLACE = {"topic": TOPIC, "partition": 0}


def told(at_s: float, offset: int, *, epoch: int = 0, took_s: float = 0.1) -> dict[str, Any]:
    """Return a sample of a high watermark."""
    asked_ns = round(at_s * S)
    answered_ns = asked_ns + round(took_s * S)
    times = {"asked_ns": asked_ns, "answered_ns": answered_ns}
    return {**PLACE, "leader_epoch": epoch, **times, "offset": offset}


def ceiling(from_s: float, to_s: float, offset: int, *, epoch_start: int = 0) -> dict[str, Any]:
    window = {"from_ns": round(from_s * S), "to_ns": round(to_s * S)}
    return {
        **PLACE, "leader_epoch": 0, **window, "high_watermark": offset, "asked_ns": round(to_s * S),
        "epoch_start": epoch_start,
    }  # fmt: skip


def shortage(from_s: float, to_s: float, *, producers: Sequence[int] = (1,)) -> dict[str, Any]:
    window = {"from_ns": round(from_s * S), "to_ns": round(to_s * S)}
    return {**PLACE, **window, "leader": 1, "isr": "1", "producers": list(producers)}


def demand(from_s: float, to_s: float, bound_s: float) -> dict[str, Any]:
    window = {"from_ns": round(from_s * S), "to_ns": round(to_s * S)}
    return {"topic": TOPIC, **window, "bound_ns": round(bound_s * S)}


def group_end(why: str | None, *, committed: int | None = 7, partition: int | None = 0) -> Row:
    return {
        "topic": TOPIC, "partition": partition, "group": "the group", "committed": committed,
        "end": 9, "time_ns": 90 * S, "still_s": 76.5, "bound_s": 76.0, "why": why,
        "members": "200 201", "strangers": None, "state": "STABLE",
    }  # fmt: skip


def read(*ops: Op) -> list[Op]:
    """Some ops, and a final read of all that was acknowledged in them."""
    sent = [op.rows[0] for op in ops if op.dataset == "send" and op.rows[0]["type"] == "ok"]
    return [*ops, final(*(Rec(r["process"], r["op"], r["offset"]) for r in sent))]


READS = read(ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), ok(1, 1, 1), poll(9, 1, Rec(1, 1, 1)))
SENDS = read(*(ok(1, n, n) for n in range(4)))

_MONOTONE = "KIP-207 and the replication design: a leader takes no high watermark back"
_COMMITTED = "KAFKA-9835: consumers are given nothing at or above the high watermark"
_MIN_ISR = "min.insync.replicas: acks=all is not acknowledged while the ISR is too small"
_STUCK = "KIP-62, KIP-848: a rebalance waits for no member longer than max.poll.interval.ms"
_STOOD: dict[str, Any] = {
    "group": "the group",
    "end": "9",
    "still_s": "76.5",
    "bound_s": "76.0",
    "members": "200 201",
    "state": "STABLE",
}
_BOUND = "available_within_s: a partition that can be written is written within the bound"

# fmt: off
STORIES = (
    Story(
        title="a group that committed to the end of every partition is not stuck",
        why=_STUCK,
        timeline={"group_ends": [group_end(None, committed=9), group_end(None, partition=1)]},
    ),
    Story(
        title="a group that stands still with live members before the end is stuck",
        why=_STUCK,
        timeline={"group_ends": [group_end("stalled"), group_end(None, committed=9, partition=1)]},
        finds=[row("group-stuck", "stalled", offset=7, at_s=90, **_STOOD)],
        reasons=["group-stuck was found 1 time: Who is gone is noticed"],
    ),
    Story(
        title="of a group whose members are all gone nobody knows whether it could go on",
        why="partitions belong to members that are there",
        timeline={"group_ends": [group_end("nobody", committed=None)]},
        finds=[row("group-stuck", "nobody", at_s=90, **_STOOD)],
        reasons=["group-stuck: 1 partition was not committed to its end"],
    ),
    Story(
        title="a high watermark that grows or stays is in order",
        why=_MONOTONE,
        timeline={"watermarks": [told(1, 0), told(2, 5), told(3, 5), told(4, 9, epoch=1)]},
    ),
    Story(
        title="a high watermark that falls within an epoch is found",
        why=_MONOTONE,
        timeline={"watermarks": [told(1, 7), told(2, 5), told(3, 6)]},
        finds=[
            row(
                "hw-regression", offset=5, at_s=2, known_ns="1100000000", leader_epoch="0", was="7"
            ),
            row(
                "hw-regression", offset=6, at_s=3, known_ns="2100000000", leader_epoch="0", was="7"
            ),
        ],
    ),
    Story(
        title="what another epoch told is not compared",
        why="KIP-207 speaks of one leader",
        timeline={"watermarks": [told(1, 7), told(2, 5, epoch=1)]},
    ),
    Story(
        title="answers that overlap are not compared",
        why="whoever was asked first may have answered last",
        timeline={"watermarks": [told(1, 7, took_s=3), told(2, 5)]},
    ),
    Story(
        title="records below the high watermark may be read",
        why=_COMMITTED,
        ops=READS,
        timeline={"ceilings": [ceiling(0, 9, 2)]},
    ),
    Story(
        title="a record that was read before it was committed is found",
        why=_COMMITTED,
        ops=READS,
        timeline={"ceilings": [ceiling(0, 9, 1)]},
        finds=[
            row(
                "read-beyond-hw", offset=1, value=(1, 1), process=1, at_s=3, asked_ns="9000000000",
                high_watermark="1", leader_epoch="0", reader="9",
            )
        ],
    ),
    Story(
        title="a record of an earlier leader may have been read where he showed it",
        why="whoever was deposed may have had a higher high watermark than his successor",
        ops=READS,
        timeline={"ceilings": [ceiling(0, 9, 1, epoch_start=2)]},
    ),
    Story(
        title="a record that was read after the answer proves nothing",
        why="the high watermark may have grown since",
        ops=READS,
        timeline={"ceilings": [ceiling(0, 3, 1), ceiling(3.5, 9, 1)]},
    ),
    Story(
        title="sends outside a shortage may be acknowledged",
        why=_MIN_ISR,
        ops=SENDS,
        timeline={"shortages": [shortage(10, 20)]},
    ),
    Story(
        title="a send that was invoked and acknowledged within a shortage is found",
        why=_MIN_ISR,
        ops=SENDS,
        timeline={"shortages": [shortage(1.9, 2.6)]},
        finds=[
            row(
                "acked-below-min-isr", offset=2, value=(1, 2), process=1, at_s=2.5,
                invoke_ns="2000000000", isr="1", leader="1", short_from_ns="1900000000",
                short_to_ns="2600000000",
            )
        ],
    ),
    Story(
        title="a send that reaches out of a shortage proves nothing",
        why="it may have been written before, or acknowledged after",
        ops=SENDS,
        timeline={"shortages": [shortage(1.1, 1.6), shortage(2.0, 2.4)]},
    ),
    Story(
        title="a producer that asks for less than all may be acknowledged",
        why="min.insync.replicas holds for acks=all alone",
        ops=SENDS,
        timeline={"shortages": [shortage(0, 9, producers=(2, 3))]},
    ),
    Story(
        title="a send in doubt was not acknowledged",
        why=_MIN_ISR,
        ops=[info(1, 0), info(1, 1)],
        timeline={"shortages": [shortage(0, 9)]},
    ),
    Story(
        title="a partition that is written within the bound is available",
        why=_BOUND,
        ops=SENDS,
        timeline={"demands": [demand(0, 4, 1.5)]},
    ),
    Story(
        title="a gap longer than the bound is found",
        why=_BOUND,
        ops=read(ok(1, 0, 0), info(1, 1), info(1, 2), info(1, 3), ok(1, 4, 1)),
        timeline={"demands": [demand(0, 5, 2)]},
        finds=[row("unavailable", at_s=0.5, bound_s="2.0", gap_s="4.0", until_ns="4500000000")],
    ),
    Story(
        title="a partition that is never written again is unavailable",
        why=_BOUND,
        ops=read(ok(1, 0, 0), *(info(1, n) for n in range(1, 6))),
        timeline={"demands": [demand(0, 6, 3)]},
        finds=[row("unavailable", at_s=0.5, bound_s="3.0", gap_s="5.5", until_ns="6000000000")],
    ),
    Story(
        # Between 1 s and 4 s the faults leave too few; then the bound begins anew.
        title="a gap that a fault explains is none",
        why="liveness is demanded only in windows that the faults leave survivable",
        ops=read(ok(1, 0, 0), *(info(1, n) for n in range(1, 5)), ok(1, 5, 1)),
        timeline={"demands": [demand(0, 1, 2), demand(4, 6, 2)]},
    ),
)
# fmt: on
