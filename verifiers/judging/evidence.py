"""What a fault did, and what was seen of it, in words of a verdict's reasons and of the report."""

import json
from collections.abc import Callable, Mapping
from typing import Any

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
    speak = _PHRASES.get(key)
    if speak is not None:
        return speak(value)
    if key.startswith("broker_") and isinstance(value, Mapping) and "pauses" in value:
        return _pauses(key.removeprefix("broker_"), value)
    return f"{key.replace('_', ' ')} {spoken(value)}"


def _dropped(value: object) -> str:
    return "1 packet was dropped" if value == 1 else f"{spoken(value)} packets were dropped"


def _probes(value: object) -> str:
    if not isinstance(value, Mapping):
        return f"probes {spoken(value)}"
    by_answer: dict[str, list[str]] = {}
    for link, answer in value.items():
        by_answer.setdefault(spoken(answer), []).append(str(link))
    told = "; ".join(f"{' '.join(links)} {answer}" for answer, links in by_answer.items())
    return f"probes: {told or 'none'}"


def _of_each(
    label: str, say: Callable[[object, object], str], *, nothing: str = ""
) -> Callable[[object], str]:
    """Return a function that words a fact which is known for each broker.

    Args:
        label: what it is called where it is not told by broker.
        say: what to say of one broker.
        nothing: what to say if it is told of none.
    """

    def told(value: object) -> str:
        if not isinstance(value, Mapping):
            return f"{label} {spoken(value)}"
        return ", ".join(say(node, known) for node, known in value.items()) or nothing

    return told


def _answer(known: object) -> str:
    return _ANSWERS.get(str(known), spoken(known))


def _state(known: object) -> str:
    return _STATES.get(str(known), spoken(known))


def _process(verb: str) -> Callable[[object], str]:
    def one(known: object) -> str:
        pid = known.get("pid") if isinstance(known, Mapping) else known
        return "no process" if pid is None else f"process {spoken(pid)}"

    def told(value: object) -> str:
        if not isinstance(value, Mapping):
            return f"{verb} {one(value)}"
        told = ", ".join(f"broker {node} {verb} {one(known)}" for node, known in value.items())
        return told or "no process was looked for"

    return told


def _pauses(node: str, seen: Mapping[str, Any]) -> str:
    total = spoken(seen.get("total_s", seen.get("paused_s", "?")))
    return f"broker {node} logged {spoken(seen['pauses'])} pauses of {total} s in all"


def _cut(value: object) -> str:
    if not isinstance(value, Mapping):
        return f"cut {spoken(value)}"
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
_ANSWERS = {
    "answered": "answered",
    "silent": "accepted and stayed silent",
    "refused": "refused",
    "unreachable": "could not be reached",
}
_STATES = {"T": "stopped", "S": "running", "R": "running", "D": "running", "Z": "dead"}
_PHRASES: Mapping[str, Callable[[object], str]] = {
    "process_before": _process("had"),
    "process_after": _process("then had"),
    "still_running": lambda value: f"still running: {spoken(value)}",
    "limit_s": lambda value: f"{spoken(value)} s were given",
    "exit_status": lambda value: f"exit status {spoken(value)}",
    "clean_shutdown": _of_each(
        "clean shutdown",
        lambda node, clean: (
            f"broker {node} left {'its' if clean else 'no'} marker of a clean shutdown"
        ),
        nothing="no marker was looked for",
    ),
    "process": _process("has"),
    "process_state": _of_each(
        "process state", lambda node, state: f"the process of broker {node} is {_state(state)}"
    ),
    "listener": _of_each(
        "listener",
        lambda node, answer: f"the listener of broker {node} {_answer(answer)}",
        nothing="no listener was asked",
    ),
    "cut": _cut,
    "files_shorter": _of_each(
        "files shorter",
        lambda node, shorter: (
            f"the files of broker {node} are {'' if shorter else 'not '}shorter by as much"
        ),
        nothing="no files were looked at",
    ),
    "dropped_packets": _dropped,
    "from_outside": _of_each(
        "from outside",
        lambda node, answer: f"from outside broker {node} {_answer(answer)}",
        nothing="nobody was asked from outside",
    ),
    "probes": _probes,
    "wanted_s": lambda value: f"{spoken(value)} s were wanted",
}
