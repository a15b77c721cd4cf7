"""What a run folder has for some lanes of its report; a run without it has no such lane."""

import re
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Literal

from harness.core.run_dir import RunDir
from verifiers.report import fields
from verifiers.report.fields import Json
from verifiers.report.model import GroupState, LogSample, Partition, Pause, ScriptStep
from verifiers.report.units import counted, visible
from verifiers.run_folder.broker_logs import node_folders

_PAUSE = re.compile(r"^\[\d+ms\]\[(\d+)ns\]\[gc *\].* Pause .* (\d+\.\d+)ms$")
"""The end of a pause: JVMs of ours write the machine's monotonic clock, as we do."""


def logs(
    samples: Sequence[Json], origin_ns: int
) -> dict[Partition, dict[int, tuple[LogSample, ...]]]:
    """Return how far each copy of a partition went over time, by broker."""
    found: dict[Partition, dict[int, list[LogSample]]] = {}
    for line in samples:
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


def script(run_dir: Path, origin_ns: int) -> tuple[ScriptStep, ...]:
    """Return what the script of a claim did, in the order of time."""
    found = []
    for line in fields.lines(run_dir / "lab.jsonl", []):
        told, at_ns = _told(line), fields.integer(line, "time_ns")
        if told is None or at_ns is None:
            continue
        begun_ns = fields.integer(line, "begun_ns")
        found.append(
            ScriptStep(
                kind=told[0],
                words=told[1],
                title=told[2],
                from_s=((at_ns if begun_ns is None else begun_ns) - origin_ns) / 1e9,
                to_s=(at_ns - origin_ns) / 1e9,
            )
        )
    return tuple(sorted(found, key=attrgetter("from_s")))


def _told(line: Json) -> tuple[Literal["batch", "wait", "fact"], str, str] | None:
    """Return kind, words and title of a line of lab.jsonl; None of one that is shown elsewhere."""
    event, name = line.get("event"), fields.text(line, "name") or "?"
    if event == "batch":
        ok, info, fail = (
            sum(last for *_, last in fields.items(line, kind)) for kind in ("ok", "info", "fail")
        )
        sent = f"{counted(ok, 'record')} acknowledged, {info} unknown, {fail} refused"
        return "batch", name, f"batch {name}: {sent}"
    if event == "wait":
        what = fields.text(line, "what") or "?"
        return "wait", what, f"waited for {what}" + ("" if line.get("met") else ", in vain")
    if event == "fact":
        value = visible(str(line.get("value")))
        return "fact", name, f"{name}: {value}"
    return None
