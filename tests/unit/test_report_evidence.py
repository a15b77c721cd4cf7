"""What witnesses saw, as a sentence has it."""

from typing import Any

import pytest

from verifiers.judging.evidence import in_words


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, "nothing was written down"),
        ({"dropped_packets": 0}, "0 packets were dropped"),
        ({"dropped_packets": 1}, "1 packet was dropped"),
        (
            {"probes": {"1→3": "refused", "2→3": "refused", "3→1": "answered"}},
            "probes: 1→3 2→3 refused; 3→1 answered",
        ),
        ({"listener": {"2": "unreachable"}}, "the listener of broker 2 could not be reached"),
        (
            {
                "process_after": None,
                "process_before": {"2": {"pid": 4711, "start_ticks": 9, "state": "S"}},
            },
            "broker 2 had process 4711, then had no process",
        ),
        ({"process": {"2": None}}, "broker 2 has no process"),
        ({"process_state": {"1": "T"}}, "the process of broker 1 is stopped"),
        (
            {"broker_1": {"pauses": 71, "total_s": 1.2, "longest_s": 0.1}, "wanted_s": 4},
            "broker 1 logged 71 pauses of 1.2 s in all, 4 s were wanted",
        ),
        (
            {
                "cut": {"2": {"orders-0": {"end_before": 9, "end_after": 4, "bytes": 700}}},
                "files_shorter": {"2": True},
            },
            "broker 2 lost orders-0 from offset 4 to 9 (700 bytes), "
            "the files of broker 2 are shorter by as much",
        ),
        ({"cut": {"2": {}}}, "nothing was cut"),
        (
            {"limit_s": 25, "still_running": [2]},
            "still running: 2, 25 s were given",
        ),
        (
            {"exit_status": {"1": 143}, "clean_shutdown": {"1": True, "2": False}},
            "exit status 1: 143, broker 1 left its marker of a clean shutdown, "
            "broker 2 left no marker of a clean shutdown",
        ),
        (
            {"from_outside": {"1": "silent"}, "listener": {"1": "answered"}},
            "the listener of broker 1 answered, from outside broker 1 accepted and stayed silent",
        ),
        (
            {"listener": {}, "from_outside": {}, "clean_shutdown": {}, "files_shorter": {}},
            "no marker was looked for, no listener was asked, no files were looked at, "
            "nobody was asked from outside",
        ),
        (
            {"listener": None, "from_outside": "silent", "process_state": "S"},
            "process state S, listener none, from outside silent",
        ),
        ({"files_shorter": {"1": False}}, "the files of broker 1 are not shorter by as much"),
        ({"pid": "changed", "seen": {"a": [1, 2]}}, "pid changed, seen a: 1 2"),
    ],
)
def test_evidence_reads_without_braces(details: dict[str, Any], words: str) -> None:
    assert in_words(details) == words
