"""Plants in what clients were told."""

import json

import numpy as np

from verifiers.planting.plant import Planted, plant, planted
from verifiers.planting.run_contents import Offence, first_of
from verifiers.planting.run_copy import RunCopy


@plant("unexplained-answer")
def unexplained_answer(copy: RunCopy) -> Planted:
    """Let a client be told that its record is none."""
    told = "a broker told client {} that its record is none"
    return _error_noted(copy, told, "error", "INVALID_RECORD", "unexplained-answer", "record")


@plant("client-gave-up")
def client_gave_up(copy: RunCopy) -> Planted:
    """Let a producer have met an error after which it is of no more use."""
    told = "client {} met a fatal error"
    return _error_noted(copy, told, "fatal", "_FATAL", "client-gave-up", "fatal")


def _error_noted(
    copy: RunCopy, told: str, event: str, error: str, anomaly: str, kind: str
) -> Planted:
    """Let a producer have noted an error among its events."""
    process, words = _client(copy), f"{error}: planted"
    copy.add("event", process=process, f=event, time_ns=copy.contents.after_ns, detail=words)
    detail = {"error": error, "words": words}
    return planted(
        told.format(process),
        Offence(anomaly=anomaly, process=process, kind=kind, detail=detail),
    )


@plant("client-gave-up", "crash")
def client_crashed(copy: RunCopy) -> Planted:
    """Let a producer have crashed, though it had written all that it had to."""
    process, crash = _client(copy), -11
    line = {
        "event": "ended", "process": process, "role": "producer", "exit_code": crash,
        "asked_to_stop": False, "killed": False, "time_ns": copy.contents.after_ns,
    }  # fmt: skip
    endings = [
        old for old in copy.contents.folder.lines("clients.jsonl") if old.get("process") != process
    ]
    copy.write("clients.jsonl", "".join(json.dumps(e) + "\n" for e in [*endings, line]).encode())
    return planted(
        f"client {process} crashed",
        Offence(
            anomaly="client-gave-up", process=process, kind="crashed",
            detail={"exit_code": str(crash)},
        ),
    )  # fmt: skip


def _client(copy: RunCopy) -> int:
    producers = np.unique(copy.contents.rows("send").numbers("process"))
    return int(first_of(producers, "the run has no producer"))
