"""What the brokers wrote into their logs around each fault: the lines that tell of replication."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median_low

from harness.core.run_dir import RunDir
from verifiers.report import fields
from verifiers.report.model import FaultRecord, Partition
from verifiers.report.units import visible
from verifiers.run_folder.broker_logs import broker_logs

_MOST = 14
"""Kinds of lines around one fault."""
_BEFORE_S = 0.2
_AFTER_S = 3.0
_LONGEST = 240
_STAMP = 24
"""Signs of a line's time, `[2026-11-25 03:54:19,203`."""
_TELLS = re.compile(
    r"truncat|shrinking isr|expanding isr|elected|unclean|fenced|leader epoch|starts at|"
    r"recovering unflushed|loading producer state|shut(ting)? ?down|started \(kafka\.server",
    re.IGNORECASE,
)
_WORRIES = re.compile(r"^\S+ \S+ (ERROR|FATAL|WARN) ")
_NOISE = re.compile(r"no open connection|meta\.properties|Connection to node|disconnected")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a broker's log.

    Attributes:
        at_s: when it was written, by the broker's clock as far as we know it.
        node: whose log it is.
        text: the line without its time.
        times: how many lines around that fault differ from it in numbers alone; it is the first.
    """

    at_s: float
    node: int
    text: str
    times: int = 1


def around(
    run_dir: Path, origin_ns: int, faults: Sequence[FaultRecord], partitions: Iterable[Partition]
) -> dict[str, tuple[LogLine, ...]]:
    """Return the lines around the beginning and the end of each fault, by its id.

    Of lines that differ in numbers alone the first is told; those of the run's own partitions go
    before errors, these before warnings, and all others last.
    """
    ahead_ns = _ahead_ns(run_dir)
    moments = [
        (fault.judged.id, at_s)
        for fault in faults
        for at_s in {fault.decided_s, fault.injected_s, fault.healed_s} - {None}
        if at_s is not None
    ]
    if ahead_ns is None or not moments:
        return {}

    def stamp(at_s: float) -> str:
        when = datetime.fromtimestamp((origin_ns + at_s * 1e9 + ahead_ns) / 1e9, tz=UTC)
        return when.strftime("[%Y-%m-%d %H:%M:%S,%f")[:_STAMP]

    windows = [(stamp(s - _BEFORE_S), stamp(s + _AFTER_S), fault_id) for fault_id, s in moments]
    first, last = min(w[0] for w in windows), max(w[1] for w in windows)
    names = [f"{topic}-{number}" for topic, number in partitions]
    own = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b") if names else None
    found: dict[str, list[tuple[int, LogLine]]] = {}
    for node, path in broker_logs(RunDir(run_dir)):
        for line in _between(path, first, last):
            rank = _rank(line, own)
            if rank is None:
                continue
            when = datetime.fromisoformat(f"{line[1:_STAMP].replace(',', '.')}+00:00")
            at_s = (when.timestamp() * 1e9 - ahead_ns - origin_ns) / 1e9
            text = visible(line[_STAMP + 2 :], _LONGEST)
            told = rank, LogLine(at_s=at_s, node=node, text=text)
            inside = {fault_id for low, high, fault_id in windows if low <= line[:_STAMP] <= high}
            for fault_id in inside:
                found.setdefault(fault_id, []).append(told)
    return {fault_id: _told(lines) for fault_id, lines in found.items()}


def _ahead_ns(run_dir: Path) -> int | None:
    """Return how far the brokers' clock is ahead of ours, ns; None if nobody asked."""
    asked = [
        line["host_ns"] - (line["asked_ns"] + line["answered_ns"]) // 2
        for line in fields.lines(run_dir / "samples.jsonl", [])
        if line.get("sample") == "clock"
    ]
    return median_low(asked) if asked else None


def _between(path: Path, first: str, last: str) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            # Texts of one form are in the order of their times.
            if first <= line[:_STAMP] <= last:
                yield line.rstrip("\n")


def _rank(line: str, own: re.Pattern[str] | None) -> int | None:
    """Return how much a line tells, the least first; None if nothing."""
    tells, worries = _TELLS.search(line), _WORRIES.match(line)
    if _NOISE.search(line) or not (tells or worries):
        return None
    if own is not None and own.search(line):
        return 0
    if worries is not None:
        return 2 if worries[1] == "WARN" else 1
    # Of the fifty partitions of each internal topic nobody wants to know.
    return None if "__" in line else 3


def _told(lines: Sequence[tuple[int, LogLine]]) -> tuple[LogLine, ...]:
    kinds: dict[tuple[int, str], list[tuple[int, LogLine]]] = {}
    for rank, line in sorted(lines, key=lambda entry: entry[1].at_s):
        kinds.setdefault((line.node, _NUMBER.sub("#", line.text)), []).append((rank, line))
    firsts = [(same[0][0], replace(same[0][1], times=len(same))) for same in kinds.values()]
    most = sorted(firsts, key=lambda entry: (entry[0], entry[1].at_s))[:_MOST]
    return tuple(sorted((line for _, line in most), key=lambda line: line.at_s))
