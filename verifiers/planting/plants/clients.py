"""Plants in what clients were told."""

import json

import numpy as np

from verifiers.planting.plant import Offence, Planted, plant
from verifiers.planting.run_contents import NothingToPlant
from verifiers.planting.run_copy import RunCopy


@plant("unexplained-answer")
def unexplained_answer(copy: RunCopy) -> Planted:
    """Let a client be told that its record is none."""
    process = _client(copy)
    words = "INVALID_RECORD: planted"
    copy.add(
        "event", process=process, f="error", time_ns=copy.contents.after_ns, detail=words,
    )  # fmt: skip
    return Planted(
        told=f"a broker told client {process} that its record is none",
        offences=(
            Offence(
                anomaly="unexplained-answer", process=process, kind="record",
                detail={"error": "INVALID_RECORD", "words": words},
            ),
        ),
    )  # fmt: skip


@plant("client-gave-up")
def client_gave_up(copy: RunCopy) -> Planted:
    """Let a producer have met an error after which it is of no more use."""
    process = _client(copy)
    words = "_FATAL: planted"
    copy.add(
        "event", process=process, f="fatal", time_ns=copy.contents.after_ns, detail=words,
    )  # fmt: skip
    return Planted(
        told=f"client {process} met a fatal error",
        offences=(
            Offence(
                anomaly="client-gave-up", process=process, kind="fatal",
                detail={"error": "_FATAL", "words": words},
            ),
        ),
    )  # fmt: skip


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
    return Planted(
        told=f"client {process} crashed",
        offences=(
            Offence(
                anomaly="client-gave-up", process=process, kind="crashed",
                detail={"exit_code": str(crash)},
            ),
        ),
    )  # fmt: skip


def _client(copy: RunCopy) -> int:
    processes = np.unique(copy.contents.rows("send").numbers("process"))
    if not len(processes):
        raise NothingToPlant("the run has no producer")
    return int(processes[0])
