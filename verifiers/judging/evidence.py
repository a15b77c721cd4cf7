"""What a fault did, and what was seen of it, in words of a verdict's reasons and of the report."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.core.grouping import by_key

Details = Mapping[str, Any]


def in_words(details: Details) -> str:
    """Return evidence as short text: 0 packets were dropped, probes: 1→2 answered."""
    if not details:
        return "nothing was written down"
    # What was there before stands before what came of it, however a file has sorted them.
    places = {key: place for place, key in enumerate(_PHRASES)}
    ordered = sorted(details, key=lambda key: places.get(key, 0))
    return ", ".join(_said(key, details[key]) for key in ordered)


def lost_when(causes: Mapping[str, int], say: Callable[[int], str]) -> list[str]:
    """Return what lost records, the worst first: 4,227 were lost when broker 1 lost the lead."""
    worst = sorted(causes.items(), key=lambda cause: -cause[1])
    return [f"{say(count)} were lost when {words}" for words, count in worst]


def spoken(value: object) -> str:
    """Return a JSON value as a person reads it, without braces and quotes."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {spoken(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(spoken, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


def _said(key: str, value: object) -> str:
    if key.startswith("broker_") and isinstance(value, Mapping) and "pauses" in value:
        total = spoken(value.get("total_s", value.get("paused_s", "?")))
        node, pauses = key.removeprefix("broker_"), spoken(value["pauses"])
        return f"broker {node} logged {pauses} pauses of {total} s in all"
    phrase = _PHRASES[key](value) if key in _PHRASES else None
    return phrase or f"{key.replace('_', ' ')} {spoken(value)}"


def _of_each(
    sentence: str, words: Mapping[str, str], *, nothing: str = ""
) -> Callable[[object], str | None]:
    """Return a function that words a fact which is known for each broker; None if it is not.

    Args:
        sentence: what to say of one broker: its id and the fact are filled in.
        words: other words for some facts as they are `spoken`.
        nothing: what to say if it is told of no broker.
    """

    def told(value: object) -> str | None:
        if not isinstance(value, Mapping):
            return None
        facts = {node: spoken(fact) for node, fact in value.items()}
        said = [sentence.format(node, words.get(fact, fact)) for node, fact in facts.items()]
        return ", ".join(said) or nothing

    return told


def _process(verb: str) -> Callable[[object], str | None]:
    def one(known: object) -> str:
        pid = known.get("pid") if isinstance(known, Mapping) else known
        return f"{verb} no process" if pid is None else f"{verb} process {spoken(pid)}"

    def told(value: object) -> str:
        if not isinstance(value, Mapping):
            return one(value)
        said = [f"broker {node} {one(known)}" for node, known in value.items()]
        return ", ".join(said) or "no process was looked for"

    return told


def _probes(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    by_answer = by_key(value, lambda link: spoken(value[link]))
    told = "; ".join(f"{' '.join(links)} {answer}" for answer, links in by_answer.items())
    return f"probes: {told or 'none'}"


def _cut(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    told = [
        f"broker {node} lost {log} from offset {cut.get('end_after')} to {cut.get('end_before')} "
        f"({cut.get('bytes')} bytes)"
        for node, logs in value.items()
        for log, cut in (logs.items() if isinstance(logs, Mapping) else ())
    ]
    shown = ", ".join(told[:_MOST_LOGS])
    more = f" and {len(told) - _MOST_LOGS} more logs were cut" if len(told) > _MOST_LOGS else ""
    return f"{shown}{more}" or "nothing was cut"


_MOST_LOGS = 4
_ANSWERS = {"silent": "accepted and stayed silent", "unreachable": "could not be reached"}
_STATES = {"T": "stopped", "S": "running", "R": "running", "D": "running", "Z": "dead"}
_PHRASES: Mapping[str, Callable[[object], str | None]] = {
    "process_before": _process("had"),
    "process_after": _process("then had"),
    "still_running": lambda value: f"still running: {spoken(value)}",
    "limit_s": lambda value: f"{spoken(value)} s were given",
    "killed": lambda value: f"killed, for it did not end: {spoken(value)}",
    "exit_status": lambda value: f"exit status {spoken(value)}",
    "clean_shutdown": _of_each(
        "broker {} left {} marker of a clean shutdown",
        {"yes": "its"},
        nothing="no marker was looked for",
    ),
    "process": _process("has"),
    "process_state": _of_each("the process of broker {} is {}", _STATES),
    "listener": _of_each("the listener of broker {} {}", _ANSWERS, nothing="no listener was asked"),
    "cut": _cut,
    "files_shorter": _of_each(
        "the files of broker {} are {} by as much",
        {"yes": "shorter", "no": "not shorter"},
        nothing="no files were looked at",
    ),
    "dropped_packets": lambda value: (
        f"{spoken(value)} {'packet was' if value == 1 else 'packets were'} dropped"
    ),
    "from_outside": _of_each(
        "from outside broker {} {}", _ANSWERS, nothing="nobody was asked from outside"
    ),
    "probes": _probes,
    "wanted_s": lambda value: f"{spoken(value)} s were wanted",
}
