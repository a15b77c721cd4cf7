"""A mock cluster inside this process (librdkafka's own), and client processes that talk to it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq
from confluent_kafka import Producer

from harness.core.wait import wait_until
from harness.core.workload import ClientSpec

RUN_ID = "00112233445566ff"
TOPIC = "orders"
PARTITIONS = 4
"""What librdkafka's mock cluster gives a topic that it makes when asked for it."""


class MockKafka:
    """A mock cluster; it lives as long as the object."""

    def __init__(self, brokers: int = 3) -> None:
        self._owner = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
        listed = self._owner.list_topics(TOPIC, timeout=120).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in listed)

    def append(self, payload: bytes | None, partition: int) -> None:
        """Put a record into the topic that no client of ours made."""
        self._owner.produce(TOPIC, payload, partition=partition)
        self._owner.flush(120)


@dataclass
class RunningClient:
    """A client process.

    Attributes:
        process: the operating system's.
        stdin: what the harness would hold.
        lines: where its stdout goes.
    """

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    lines: Path

    def progress(self) -> list[dict[str, Any]]:
        """Return the whole lines said so far."""
        said = self.lines.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in said]

    def await_total(self, name: str, least: int) -> None:
        """Wait until a number in its progress is at least so high."""
        wait_until(
            lambda: any(line.get(name, 0) >= least for line in self.progress()),
            timeout_s=120,
            what=f"{name} ≥ {least}",
            interval_s=0.02,
        )

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.stdin.write(b"stop\n")
        self.stdin.flush()
        return self.process.wait(120)


@dataclass
class Run:
    """A run folder with clients of a mock cluster."""

    folder: Path
    kafka: MockKafka
    clients: list[RunningClient] = field(default_factory=list)

    def start(self, spec: ClientSpec, **changes: object) -> RunningClient:
        """Start a client as the harness does."""
        settings = {
            **spec.settings,
            "run_id": RUN_ID,
            "seed": 7,
            "bootstrap": self.kafka.bootstrap,
            "process": spec.process,
            "interval_s": 0.05,
            "history": str(self.folder / "history" / "raw" / f"{spec.process}.frames"),
            **changes,
        }
        file = self.folder / f"{spec.process}.json"
        file.write_text(json.dumps(settings))
        lines = file.with_suffix(".out")
        with lines.open("wb") as out, file.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", spec.module, str(file)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
            )
        assert process.stdin is not None
        client = RunningClient(process, process.stdin, lines)
        self.clients.append(client)
        return client

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        """Return the rows of a sealed dataset."""
        return list(pq.read_table(self.folder / "history" / dataset).to_pylist())

    def ends(self) -> list[Mapping[str, Any]]:
        """Return the sealed ends of the final read."""
        return list(json.loads((self.folder / "history" / "ends.json").read_text()))


@contextmanager
def mock_run(folder: Path, brokers: int = 3) -> Iterator[Run]:
    """Give a run folder with a mock cluster; no client outlives it."""
    (folder / "history" / "raw").mkdir(parents=True)
    run = Run(folder, MockKafka(brokers))
    try:
        yield run
    finally:
        for client in run.clients:
            client.process.kill()
            client.process.wait(120)
            client.stdin.close()
