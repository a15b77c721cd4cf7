"""A run whose evidence is complete, and ways to take some of it away."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.contract import Contract
from tests.unit.event_story import END_S, Story
from verifiers.adequacy.counted import Counted, Fates, ReadCount
from verifiers.adequacy.evidence import Evidence
from verifiers.checking.checker import CHECKERS
from verifiers.checking.execution import Found
from verifiers.replicas.comparison import ReplicaVerdict
from verifiers.run_folder.folder import End, RunInput
from verifiers.run_folder.result import Counts
from verifiers.run_folder.sealed import Sealed
from verifiers.timeline.frames import SCHEMAS, TimelineRows
from verifiers.timeline.partition_states import Timeline

S = 1_000_000_000
PRODUCER, CONSUMER, READER = 0, 100, 900
PARTITIONS = (("orders", 0), ("orders", 1))
RECORDS = 500
ROWS = {"send": PRODUCER, "poll": CONSUMER, "final": READER}


def _story(path: Path) -> Story:
    story = Story(path=path)
    for partition in (0, 1):
        story.state(0, 1, (1, 2, 3), partition=partition)
        story.state(20, 2, (2, 3), partition=partition)
        story.watermark(5, 10, partition=partition).watermark(60, 90, partition=partition)
    story.fault(15, 30, 1).send(16, 17).send(40, 41)
    return story


def _meta() -> dict[str, Any]:
    return {
        "topics": [{"name": "orders", "partitions": 2, "replication_factor": 3}],
        "partitions_at_end": {"orders": {"0": RECORDS, "1": RECORDS}},
        "cluster": {"brokers": 3, "controllers": 0, "metadata": "kraft"},
        "clients": [
            {"process": PRODUCER, "role": "producer", "mode": None},
            {"process": CONSUMER, "role": "consumer", "mode": "assign"},
            {"process": READER, "role": "reader", "mode": None},
        ],
        "clock": "here",
        "ended_ns": END_S * S,
    }


@dataclass
class Given:
    """What a run has recorded; tests change it before they ask a rule.

    Attributes:
        path: its folder.
        story: its faults, leaders and sends.
        meta: its run.json.
        settings: of clients, by process.
        ends: how far the final read got, by partition.
        rows: how many rows each sealed file has, by dataset and process.
        inventory: what was written down when it was sealed.
        counted: what was counted.
        counts: of operations.
        frames: rows of the timeline frames.
        source: "metadata-log", or "polled" if no states are known.
        watched: partitions of which leaders and ISRs were watched.
        checkers: what became of each.
        found: offences by anomaly and kind.
    """

    path: Path
    story: Story
    meta: dict[str, Any] = field(default_factory=_meta)
    settings: dict[int, dict[str, Any]] = field(
        default_factory=lambda: {
            PRODUCER: {"config": {"acks": "all"}},
            CONSUMER: {"mode": "assign", "topic": "orders", "partitions": [0, 1]},
            READER: {},
        }
    )
    ends: dict[tuple[str, int], End] = field(
        default_factory=lambda: {
            tp: End(topic=tp[0], partition=tp[1], low=0, high=RECORDS, reached=RECORDS,
                    complete=True)
            for tp in PARTITIONS
        }
    )  # fmt: skip
    rows: dict[tuple[str, int], int] = field(
        default_factory=lambda: {(name, process): 2 * RECORDS for name, process in ROWS.items()}
    )
    inventory: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            f"process-{process}.arrows": {
                "bytes": 1, "process": process, "clock": "here", "rows": {name: 2 * RECORDS},
            }
            for name, process in ROWS.items()
        }
    )  # fmt: skip
    counted: Counted = field(
        default_factory=lambda: Counted(
            polls={(CONSUMER, tp): ReadCount(rows=RECORDS, first=0, last=RECORDS - 1)
                   for tp in PARTITIONS},
            final={tp: ReadCount(rows=RECORDS, first=0, last=RECORDS - 1) for tp in PARTITIONS},
        )
    )  # fmt: skip
    counts: Counts = field(
        default_factory=lambda: Counts(
            sends=2 * RECORDS, acked=2 * RECORDS, read=2 * RECORDS, final=2 * RECORDS
        )
    )
    frames: dict[str, list[Mapping[str, Any]]] = field(
        default_factory=lambda: {
            **{
                name: [{}]
                for name in (
                    "watermarks",
                    "ceilings",
                    "recoveries",
                    "processes",
                    "elections",
                    "explanations",
                )
            },
            "clients": [{"exit_code": 0}],
        }
    )
    watched: tuple[tuple[str, int], ...] = PARTITIONS
    checkers: dict[str, str] = field(default_factory=lambda: dict.fromkeys(CHECKERS, "ran"))
    crashes: tuple[str, ...] = ()
    found: dict[tuple[str, str | None], int] = field(default_factory=dict)
    disks: dict[str, Any] = field(default_factory=dict)
    forget_states: bool = False
    has_inventory: bool = True
    transactional: bool = False

    def set(self, **attributes: Any) -> "Given":
        """Set attributes."""
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    def final(self, partition: int, rows: int) -> "Given":
        """Let the final read of a partition have given so many rows."""
        read = ReadCount(rows=rows, first=0, last=RECORDS - 1)
        return self.set(
            counted=replace(self.counted, final={**self.counted.final, ("orders", partition): read})
        )

    def fates(self, **fates: int) -> "Given":
        """Let acknowledged records have had these fates."""
        return self.set(counted=replace(self.counted, fates=Fates(**fates)))

    def read(self, partition: int, count: ReadCount | None) -> "Given":
        """Let the consumer have read this of a partition."""
        polls = {**self.counted.polls}
        polls.pop((CONSUMER, ("orders", partition)), None)
        if count is not None:
            polls[CONSUMER, ("orders", partition)] = count
        return self.set(counted=replace(self.counted, polls=polls))

    def evidence(self) -> Evidence:
        """Return it as rules look at it."""
        events = self.story.events()
        (self.path / "run.json").write_text(json.dumps(self.meta))
        for process, settings in self.settings.items():
            file = self.path / "clients" / f"process-{process}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(settings))
        run = RunInput(
            path=self.path,
            meta=self.meta,
            contract=Contract(acks=self.story.acks, min_isr=self.story.min_isr),
            faults=(),
            ends=tuple(self.ends.values()),
            origin_ns=0,
        )
        events.run = run
        timeline = replace(
            events.timeline,
            states={} if self.forget_states else events.timeline.states,
            log=None if self.forget_states else events.timeline.log,
            lines=[{"topic": topic, "partition": number} for topic, number in self.watched],
        )
        events.timeline = timeline
        return Evidence(
            run=run,
            history=Sealed(
                files={"txn": [str(self.path)] if self.transactional else []},
                rows=sum(self.rows.values()),
                processes=READER + 1,
                rows_by_file=self.rows,
                inventory=self.inventory if self.has_inventory else None,
            ),
            counted=self.counted,
            counts=self.counts,
            events=events,
            timeline=_rows(timeline, self.frames),
            found=Found(
                counts=self.found, examples={}, checkers=self.checkers, crashes=self.crashes
            ),
            replicas=ReplicaVerdict(document={"brokers": self.disks}, reasons=()),
        )


def _rows(timeline: Timeline, frames: Mapping[str, list[Mapping[str, Any]]]) -> TimelineRows:
    rows = {name: frames.get(name, []) for name in SCHEMAS}
    return TimelineRows(rows=rows, document={}, timeline=timeline)


def complete(path: Path) -> Given:
    """Return a run with complete evidence."""
    return Given(path=path, story=_story(path))
