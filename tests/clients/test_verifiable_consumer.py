"""The translation of what VerifiableConsumer prints; claim 62 runs the tool itself."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.wait import wait_until
from harness.core.workload import ClientSpec
from harness.history.seal import seal
from tests.clients.mock_kafka import TOPIC, Run, RunningClient, mock_run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        yield made


def record(offset: int) -> dict[str, Any]:
    return {"name": "record_data", "topic": TOPIC, "partition": 1, "offset": offset, "value": "?"}


PLACE = [{"topic": TOPIC, "partition": 1}]
JOINED = {"name": "partitions_assigned", "partitions": PLACE}
CONSUMED = {"name": "records_consumed", "count": 2, "partitions": []}


def printing(*lines: dict[str, Any] | str, last: str = "") -> list[str]:
    """Return a command that prints these lines, and at last something without a line's end."""
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text + last!r})"]


def member(command: list[str], stall_after: int | None = None) -> ClientSpec:
    return ClientSpec(
        process=200,
        role="consumer",
        module="workloads.verifiable_consumer",
        settings={
            "command": command,
            "topic": TOPIC,
            "group": "g one",
            "stall_after": stall_after,
        },
    )


def ask(client: RunningClient, what: str, order: int) -> dict[str, Any]:
    client.stdin.write(json.dumps({"do": what, "order": order}).encode() + b"\n")
    client.stdin.flush()

    def answer() -> dict[str, Any] | None:
        return next((line for line in client.progress() if line.get("reply") == order), None)

    return wait_until(answer, timeout_s=120, what="an answer", interval_s=0.02)


def told(run: Run) -> list[tuple[str, int | None, int | None, str | None]]:
    return [(row["f"], row["partition"], row["offset"], row["detail"]) for row in run.rows("event")]


def test_what_it_prints_becomes_events_of_a_member(run: Run) -> None:
    left = {"name": "partitions_revoked", "partitions": PLACE}
    refused = {"name": "offsets_committed", "success": False, "error": "no", "offsets": []}
    lines = (JOINED, record(0), record(1), CONSUMED, "not JSON", "17", refused, left)
    client = run.start(member(printing(*lines, last='{"name": "record_da')))

    answer = ask(client, "go", 1)
    client.stop()

    assert answer == {"reply": 1, "processed": 2, "in_poll": False}
    seal(run.folder)
    assert told(run) == [
        ("start", None, None, None),
        ("subscribe", None, None, "auto-polled g one"),
        ("rebalance", 1, None, "assigned"),
        ("processed", 1, 0, None),
        ("processed", 1, 1, None),
        ("error", None, None, "commit: no"),
        ("rebalance", 1, None, "revoked"),
        ("close", None, None, None),
    ]


def test_a_member_that_stands_still_is_in_the_middle_of_a_poll(run: Run) -> None:
    lines = [JOINED, record(0), record(1), CONSUMED, *map(record, range(2, 9))]
    client = run.start(member(printing(*lines), stall_after=3))

    held = ask(client, "held", 1)
    gone = ask(client, "go", 2)
    client.stop()

    assert held == {"reply": 1, "processed": 3, "in_poll": True}
    assert gone == {"reply": 2, "processed": 9, "in_poll": True}
    seal(run.folder)
    assert [offset for f, _, offset, _ in told(run) if f == "processed"] == list(range(9))
