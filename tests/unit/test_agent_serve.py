"""The agent's program that serves: one process a request, answers whole and by number."""

import json
import subprocess
import sys
from pathlib import Path

import fault_agent

_PROGRAM = """
import sys, time
from fault_agent.serve import serve

def perform(verb, argument):
    if verb == "wait":
        time.sleep(float(argument))
    if verb == "fail":
        raise LookupError(argument)
    if verb == "end":
        import os; os._exit(3)
    if verb == "start":
        import subprocess; return str(subprocess.run(["false"]).returncode)
    return "\\"" + verb * int(argument if verb == "x" else 1) + "\\""

serve(sys.stdin.buffer, sys.stdout.buffer, perform)
"""


def _served(*requests: str) -> list[tuple[int, object]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=Path(fault_agent.__file__).parents[1],
        input="".join(f"{number} {text}\n" for number, text in enumerate(requests)),
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return [(int(number), json.loads(text)) for number, _, text in lines]


def test_a_request_that_takes_its_time_keeps_nobody_waiting() -> None:
    assert _served("wait 0.5", "quick {}") == [(1, "quick"), (0, "wait")]


def test_long_answers_of_many_processes_do_not_mix() -> None:
    answers = _served(*["x 300000"] * 20)

    assert sorted(answers) == [(number, "x" * 300_000) for number in range(20)]


def test_a_verb_that_goes_wrong_is_an_error_and_the_next_is_served() -> None:
    (_, failed), (_, quick) = sorted(_served("fail nothing", "quick {}"))

    assert failed == {"error": "fail went wrong: LookupError('nothing')."}
    assert quick == "quick"


def test_a_verb_that_ends_its_process_ends_no_other() -> None:
    assert _served("end now", "quick {}") == [(1, "quick")]


def test_a_verb_hears_how_its_own_programs_end() -> None:
    assert _served("start {}") == [(0, 1)]
