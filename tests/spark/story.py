"""A story: a short history written by hand, why it offends or not, and all that is found in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.op import value_of
from tests.spark.disks import BROKERS, Disks, write_disks
from tests.spark.ops import TOPIC, Folder, Op, end

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Story:
    """One story; every checker meets it, and must find what is written here and nothing else.

    Attributes:
        title: a sentence.
        why: where it is laid down that this is an offence, or none: a KIP, an issue of Kafka's, the
            definition of an analysis. It is printed when the story fails.
        ops: what happened, a second each.
        finds: every row that any checker returns, with all its columns.
        reasons: how sentences begin that must stand among the reasons of the verdict.
        ends: how far the final read got; two partitions to their ends unless given.
        subscribed: consumers whose partitions a group moves.
        uncommitted: consumers that read uncommitted.
        timeline: rows of the frames of the timeline, by name.
        disks: what lies on the brokers' disks; nothing was copied unless given.
        isr: the brokers in the ISR at the end; the first one leads.
    """

    title: str
    why: str
    ops: Sequence[Op] = ()
    finds: Sequence[Row] = ()
    reasons: Sequence[str] = ()
    ends: Sequence[dict[str, Any]] | None = None
    subscribed: Sequence[int] = ()
    uncommitted: Sequence[int] = ()
    timeline: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    disks: Disks | None = None
    isr: Sequence[int] = BROKERS

    def write(self, path: Path) -> Path:
        """Write the story as the folder of a run."""
        clients = [{"process": process, "mode": "subscribe"} for process in self.subscribed]
        clients += [{"process": p, "isolation": "read_uncommitted"} for p in self.uncommitted]
        ends = [end(partition=p) for p in (0, 1)] if self.ends is None else self.ends
        meta: dict[str, Any] = {"clients": clients}
        if self.disks is not None:
            meta["topics"] = [{"name": TOPIC, "partitions": 1, "replication_factor": 3}]
        folder = Folder(self.ops, meta=meta, ends=ends).write(path, disks=False)
        if self.disks is not None:
            write_disks(path, self.disks, isr=self.isr)
        return folder


def row(
    anomaly: str,
    kind: str | None = None,
    *,
    topic: str | None = TOPIC,
    partition: int | None = 0,
    offset: int | None = None,
    value: tuple[int, int] | None = None,
    process: int | None = None,
    at_s: float | None = None,
    **detail: str,
) -> Row:
    """Return a whole row of what checkers find; a value is named by producer and sequence."""
    return {
        "anomaly": anomaly,
        "kind": kind,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "value": None if value is None else value_of(*value),
        "process": process,
        "time_ns": None if at_s is None else round(at_s * 1e9),
        "detail": detail,
    }


def of(producer: int, sequence: int) -> str:
    """Return a value as details tell it."""
    return str(value_of(producer, sequence))
