"""How the processes of a cluster's nodes ended, and which fault explains it."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from harness.core.run_dir import RunDir
from verifiers.run_folder.broker_logs import logged_ms
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.journal import FaultSpan, fault_spans
from verifiers.timeline.clock import Clock

_Row = dict[str, Any]
_BY_A_SIGNAL = 128
_KILL = _BY_A_SIGNAL + 9
_TO_END = frozenset({_BY_A_SIGNAL + 1, _BY_A_SIGNAL + 2, _BY_A_SIGNAL + 15})
_COMPLAINT = re.compile(rb"\[[^\]]+\] (ERROR|FATAL) ")
_TAKEN = re.compile(r"NodeExists|already (?:exists|registered)")
_NO_SPACE = "No space left on device"
_BEFORE_S = 30.0
_LONGEST_WORD = 300


def read_processes(run: RunInput, clock: Clock) -> list[_Row]:
    """Return the rows of the frame `processes`; the clock is that of the brokers' machine."""
    folder = RunDir.open(run.path)
    if not (run.path / "cluster" / "processes.json").is_file():
        return []
    document = folder.read_json("cluster/processes.json")
    # A fault explains one end of each of its victims.
    stops = [
        (node, fault)
        for fault in fault_spans(folder.lines("faults.jsonl"))
        if fault.traits.stops_process
        for node in fault.victims
    ]
    has_zookeeper = run.meta.get("cluster", {}).get("metadata") == "zookeeper"
    restarts = list(stops) if has_zookeeper else []
    rows: list[_Row] = []
    for node in document["nodes"]:
        number = int(node["node"])
        known = {"topic": "", "node": number, "service": str(node["service"])}
        log = run.path / "cluster" / str(node["service"]) / "server.log"
        rows.append({**known, "kind": None})
        for end in sorted(node["exits"], key=lambda end: int(end["from_ns"])):
            span = {"from_ns": int(end["from_ns"]), "to_ns": int(end["to_ns"])}
            if span["to_ns"] < run.origin_ns or _is_explained(stops, number, **span):
                continue
            said, status = _last_words(log, clock, **span), int(end["status"])
            if status == 1 and _is_in_vain(restarts, number, said, **span):
                continue
            rows.append(
                {**known, **span, "kind": _kind(status, said), "status": status, "said": said}
            )
        container = node["container"]
        whole = {**known, "from_ns": run.origin_ns, "to_ns": int(document["asked_ns"])}
        if container is None or (container["running"] and node["why"]):
            rows.append({**whole, "kind": "unasked", "said": node["why"]})
        elif not container["running"]:
            status, said = int(container["exit_code"]), _of_container(container)
            rows.append({**whole, "kind": "container", "status": status, "said": said})
    return rows


def _is_in_vain(
    restarts: list[tuple[int, FaultSpan]], node: int, said: str | None, from_ns: int, to_ns: int
) -> bool:
    """Tell whether a broker was started again while its own place in ZooKeeper was still taken.

    It ends at once: the session of the process that a fault ended lasts until its timeout.
    """
    is_restarted = any(
        victim == node and fault.decided_ns <= from_ns and to_ns <= fault.end_ns
        for victim, fault in restarts
    )
    return is_restarted and (said is None or _TAKEN.search(said) is not None)


def _is_explained(stops: list[tuple[int, FaultSpan]], node: int, from_ns: int, to_ns: int) -> bool:
    """Tell whether a fault explains an end; another one is not explained by it any more."""
    for stop in stops:
        victim, fault = stop
        if victim == node and fault.decided_ns <= to_ns and from_ns <= fault.end_ns:
            stops.remove(stop)
            return True
    return False


def _kind(status: int, said: str | None) -> str:
    if status == _KILL:
        return "killed"
    if status in _TO_END:
        return "terminated"
    if said is not None and _NO_SPACE in said:
        return "no-space"
    return "crashed" if status > _BY_A_SIGNAL else "exited"


def _of_container(state: Mapping[str, Any]) -> str:
    words = [f"its container ended at {state['finished_at']}"]
    words += ["out of memory"] if state["oom_killed"] else []
    words += [str(state["error"])] if state["error"] else []
    return ", ".join(words)


def _last_words(log: Path, clock: Clock, from_ns: int, to_ns: int) -> str | None:
    """Return the worst of what a node logged in the half minute before its end, the latest first.

    A line counts as far as the two clocks allow.
    """
    if not log.is_file():
        return None
    worst: tuple[int, str] | None = None
    for level, at_ms, line in _complaints(log):
        rank = (level == "FATAL") + 2 * (_NO_SPACE in line)
        at_ns = clock.span_ns(at_ms)
        is_near = at_ns and at_ns[1] >= from_ns - _BEFORE_S * 1e9 and at_ns[0] <= to_ns
        if is_near and (worst is None or rank >= worst[0]):
            worst = (rank, line)
    return worst[1] if worst else None


def _complaints(log: Path) -> Iterator[tuple[str, int, str]]:
    """Yield level, time (ms since 1970) and text of every error, and what follows it.

    The exception behind a complaint is the line after it.
    """
    with log.open("rb") as content:
        for line, following in pairwise(chain(content, [b"["])):
            complaint = _COMPLAINT.match(line)
            if complaint and (at_ms := logged_ms(_text(line))) is not None:
                follows = "" if following.startswith(b"[") else f" {_text(following)}"
                text = _text(line[complaint.end() :]) + follows
                yield complaint[1].decode(), at_ms, text[:_LONGEST_WORD]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").strip()
