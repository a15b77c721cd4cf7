"""What the brokers wrote into their logs around each fault: the lines that tell of replication."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import median_low

from harness.core.run_dir import RunDir
from verifiers.report.fields import Json
from verifiers.report.model import FaultRecord, LogLine, Partition
from verifiers.report.units import visible
from verifiers.run_folder.broker_logs import broker_logs, in_utc, logged_ms

_MOST = 14
"""Kinds of lines around one fault."""
_BEFORE_S = 0.2
_AFTER_S = 3.0
_LONGEST = 240
_STAMP = 24
"""Signs of a line's time, `[2026-11-25 03:54:19,203`."""
_TELLING = (
    "Truncat", "Shrinking ISR", "Expanding ISR", "elected", "nclean", "fenced", "leader epoch",
    "starts at", "Recovering unflushed", "Loading producer state", "hut down", "hutting down",
    "started (kafka.server",
)  # fmt: skip
_WORRYING = {"ERROR": 1, "FATAL": 1, "WARN": 2}
_NOISE = ("no open connection", "meta.properties", "Connection to node", "disconnected")
_NUMBER = re.compile(r"\d+")


def around(
    run_dir: Path,
    samples: Sequence[Json],
    origin_ns: int,
    faults: Sequence[FaultRecord],
    partitions: Iterable[Partition],
) -> dict[str, tuple[LogLine, ...]]:
    """Return the lines around the beginning and the end of each fault, by its id.

    Of lines that differ in numbers alone the first is told; those of the run's own partitions go
    before errors, these before warnings, and all others last.
    """
    ahead_ns = _ahead_ns(samples)
    moments = [
        (fault.judged.id, at_s)
        for fault in faults
        for at_s in {fault.decided_s, fault.injected_s, fault.healed_s} - {None}
        if at_s is not None
    ]
    if ahead_ns is None or not moments:
        return {}

    def stamp(at_s: float) -> str:
        at_ms = round((origin_ns + at_s * 1e9 + ahead_ns) / 1e6)
        return f"[{in_utc(at_ms).replace('.', ',')}"

    windows = [(stamp(s - _BEFORE_S), stamp(s + _AFTER_S), fault_id) for fault_id, s in moments]
    names = re.compile(
        "|".join(re.escape(f"{topic}-{n}") + r"\b" for topic, n in partitions) or "$^"
    )
    found: dict[str, list[tuple[int, LogLine]]] = {}
    for node, path in broker_logs(RunDir(run_dir)):
        for line, inside in _within(path, windows):
            if (rank := _rank(line, names)) is None or (at_ms := logged_ms(line)) is None:
                continue
            at_s = (at_ms * 1e6 - ahead_ns - origin_ns) / 1e9
            told = rank, LogLine(at_s=at_s, node=node, text=line[_STAMP + 2 :])
            for fault_id in inside:
                found.setdefault(fault_id, []).append(told)
    return {fault_id: _told(lines) for fault_id, lines in found.items()}


def _ahead_ns(samples: Sequence[Json]) -> int | None:
    """Return how far the brokers' clock is ahead of ours, ns; None if nobody asked."""
    asked = [
        line["host_ns"] - (line["asked_ns"] + line["answered_ns"]) // 2
        for line in samples
        if line.get("sample") == "clock"
    ]
    return median_low(asked) if asked else None


def _within(
    path: Path, windows: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the lines of a log that lie in a window, and the faults whose windows these are."""
    # Times of one form are in the order of their texts.
    edges = sorted({edge for low, high, _ in windows for edge in (low, high)})
    between = [
        frozenset(fault_id for low, high, fault_id in windows if low <= begin and end <= high)
        for begin, end in pairwise(edges)
    ]
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            place = bisect_right(edges, line[:_STAMP]) - 1
            if 0 <= place < len(between) and between[place]:
                yield line.rstrip("\n"), between[place]


def _rank(line: str, own: re.Pattern[str]) -> int | None:
    """Return how much a line tells, the least first; None if nothing."""
    level = line[_STAMP + 2 : _STAMP + 8].split(" ", 1)[0]
    worry = _WORRYING.get(level)
    if worry is None and not any(word in line for word in _TELLING):
        return None
    if any(word in line for word in _NOISE):
        return None
    if own.search(line):
        return 0
    # Of the fifty partitions of each internal topic nobody wants to know.
    return worry or (None if "__" in line else 3)


def _told(lines: Sequence[tuple[int, LogLine]]) -> tuple[LogLine, ...]:
    kinds: dict[tuple[int, str], list[tuple[int, LogLine]]] = {}
    for rank, line in sorted(lines, key=lambda entry: entry[1].at_s):
        kinds.setdefault((line.node, _NUMBER.sub("#", line.text[:_LONGEST])), []).append(
            (rank, line)
        )
    firsts = [(same[0][0], replace(same[0][1], times=len(same))) for same in kinds.values()]
    most = sorted(firsts, key=lambda entry: (entry[0], entry[1].at_s))[:_MOST]
    told = [replace(line, text=visible(line.text, _LONGEST)) for _, line in most]
    return tuple(sorted(told, key=attrgetter("at_s")))
