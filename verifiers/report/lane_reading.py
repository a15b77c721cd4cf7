"""What a run folder has for some lanes of its report; a run without it has no such lane."""

import re
from itertools import pairwise
from math import inf
from operator import attrgetter
from pathlib import Path

from harness.core.run_dir import RunDir
from verifiers.report import fields
from verifiers.report.model import GroupState, LogSample, Partition, Pause
from verifiers.report.units import visible
from verifiers.run_folder.broker_logs import node_folders

_PAUSE = re.compile(r"^\[\d+ms\]\[(\d+)ns\]\[gc *\].* Pause .* (\d+\.\d+)ms$")
"""The end of a pause: JVMs of ours write the machine's monotonic clock, as we do."""


def logs(run_dir: Path, origin_ns: int) -> dict[Partition, dict[int, tuple[LogSample, ...]]]:
    """Return how far each copy of a partition went over time, by broker."""
    found: dict[Partition, dict[int, list[LogSample]]] = {}
    for line in fields.lines(run_dir / "samples.jsonl", []):
        if line.get("sample") != "replica":
            continue
        topic, partition = line.get("topic"), fields.integer(line, "partition")
        broker, log_end = fields.integer(line, "broker"), fields.integer(line, "log_end")
        at_ns = fields.integer(line, "answered_ns")
        if (
            isinstance(topic, str)
            and partition is not None
            and broker is not None
            and log_end is not None
            and at_ns is not None
        ):
            sample = LogSample(
                at_s=(at_ns - origin_ns) / 1e9,
                log_end=log_end,
                high_watermark=fields.integer(line, "high_watermark") or 0,
            )
            found.setdefault((topic, partition), {}).setdefault(broker, []).append(sample)
    return {
        place: {
            broker: tuple(sorted(samples, key=attrgetter("at_s")))
            for broker, samples in sorted(copies.items())
        }
        for place, copies in sorted(found.items())
    }


def pauses(run_dir: Path, origin_ns: int) -> tuple[Pause, ...]:
    """Return the pauses of the nodes' JVMs, in the order of time."""
    found = []
    for node, folder in node_folders(RunDir(run_dir)):
        for path in sorted(folder.glob("gc*.log")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if told := _PAUSE.match(line):
                    to_s = (int(told[1]) - origin_ns) / 1e9
                    found.append(Pause(node=node, from_s=to_s - float(told[2]) / 1e3, to_s=to_s))
    return tuple(sorted(found, key=attrgetter("from_s")))


def group(run_dir: Path, origin_ns: int) -> tuple[GroupState, ...]:
    """Return the states of the workload's group, in the order of time."""
    told = [
        line
        for line in fields.lines(run_dir / "members.jsonl", [])
        if line.get("event") == "group" and fields.integer(line, "answered_ns") is not None
    ]
    begins_s = [(int(line["answered_ns"]) - origin_ns) / 1e9 for line in told]
    return tuple(
        GroupState(
            from_s=from_s,
            to_s=to_s,
            state=fields.text(line, "state") or "?",
            members={
                visible(name): tuple(n for n in numbers if isinstance(n, int))
                for name, numbers in fields.mapping(line, "members").items()
                if isinstance(numbers, list)
            },
        )
        for line, (from_s, to_s) in zip(told, pairwise([*begins_s, inf]), strict=True)
    )
