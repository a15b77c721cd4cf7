"""Throughput of the recorder beside that of Kafka's own ProducerPerformance, in one run.

    kafka-chaos bench throughput [--bootstrap SERVERS --image IMAGE] [--rounds 3] [--processes 2]

Both send the same number of 100-byte records with acks=all, flat out, to the same topic (three
partitions, three replicas, min.insync.replicas=2) of the same cluster, one after the other, round
by round, through the same published ports:

- ProducerPerformance, as kafka-producer-perf-test starts it (-Xmx512M), in a container of the
  broker's image on the host's network, once with its defaults and once with the recorder's
  batch.size and linger.ms; its own "records/sec" counts, which leaves out the start of its JVM;
- the recorder: several of the real producer processes at once, every record numbered, stamped,
  encoded with its checksum, reserved, and its outcome on disk. From the common start until the
  last of them has closed its history; the start of the interpreters is left out.

The first round warms the brokers and is not counted. What counts is the ratio, for all of them meet
the same machine: its load average stands beside it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.launch import launch
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.errors import EnvironmentBroken
from harness.machine.images import broker_image
from tests.bench._goals import Goal, exit_code
from tests.bench.recording import BATCH, open_recorded

TOPIC = "throughput-bench"
PARTITIONS = 3
RECORD_BYTES = 100
GOAL = 1.0
_LIMIT_S = 300.0
_SENT = re.compile(r"^(\d+) records sent, ([\d.,]+) records/sec.*ms avg latency.*50th", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is measured.

    Attributes:
        bootstrap: of the cluster.
        image: the broker's image.
        records: sent by each contender in each round.
        processes: of the recorder.
    """

    bootstrap: str
    image: str
    records: int
    processes: int

    def performance(self, **config: object) -> float:
        """Return records a second by ProducerPerformance's own word."""
        given = {"bootstrap.servers": self.bootstrap, "acks": "all", **config}
        words = [
            "docker", "run", "--rm", "--network", "host", "--entrypoint", "java", self.image,
            "-Xmx512M", "-cp", "/opt/kafka/libs/*", "org.apache.kafka.tools.ProducerPerformance",
            "--topic", TOPIC, "--num-records", str(self.records),
            "--record-size", str(RECORD_BYTES), "--throughput", "-1",
            "--producer-props", *(f"{name}={value}" for name, value in given.items()),
        ]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        return rate_of(done.stdout, self.records, done.stderr)

    def recorder(self) -> float:
        """Return records a second of all processes of the recorder together."""
        with tempfile.TemporaryDirectory() as folder:
            share = self.records // self.processes
            started = [
                subprocess.Popen(
                    [sys.executable, "-m", "tests.bench.throughput",
                     json.dumps([self.bootstrap, process, share, folder])],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
                for process in range(self.processes)
            ]  # fmt: skip
            try:
                for client in started:
                    assert client.stdout is not None
                    client.stdout.readline()
                begin = time.monotonic()
                for client in started:
                    assert client.stdin is not None
                    client.stdin.write(b"go\n")
                    client.stdin.flush()
                told = [json.loads(client.communicate(timeout=_LIMIT_S)[0]) for client in started]
            finally:
                for client in started:
                    client.kill()
                    client.wait()
            acked: int = sum(one["acked"] for one in told)
            if acked != share * self.processes:
                raise EnvironmentBroken(
                    f"Of {share * self.processes} records {acked} were acknowledged: the cluster "
                    "was in trouble, and this is no figure."
                )
            ended: float = max(one["ended"] for one in told)
            return acked / (ended - begin)


def rate_of(output: str, records: int, errors: str = "") -> float:
    """Return the rate in the last line of ProducerPerformance.

    Raises:
        EnvironmentBroken: it did not send as many records.
    """
    found = _SENT.search(output)
    if found is None or int(found[1]) != records:
        told = " ".join((errors or output).strip().splitlines()[-3:])
        raise EnvironmentBroken(f"ProducerPerformance did not send {records} records: {told}")
    return float(found[2].replace(",", "."))


def send(bootstrap: str, process: int, records: int, folder: str) -> dict[str, float]:
    """Send so many records as the real producer does, once told to, with its whole history."""
    producer, recorder = open_recorded(bootstrap, TOPIC, PARTITIONS, Path(folder), process=process)
    # Until it knows the topic's leaders a producer cannot send.
    producer.poll(0.5)
    _print("ready")
    sys.stdin.readline()
    sent = 0
    while sent < records:
        wanted = min(BATCH, records - sent)
        done = producer.send(wanted)
        sent += done
        producer.poll(0.05 if done < wanted else 0)
        recorder.flush_if_due()
    last = time.monotonic() + _LIMIT_S
    producer.drain(lambda: last - time.monotonic())
    recorder.close(used=producer.used)
    acked = sum(count for kind, count in recorder.counts.items() if kind.value == "ok")
    return {"acked": acked, "ended": time.monotonic()}


def compare(bench: Bench, *, rounds: int) -> dict[str, float]:
    """Run all of them round by round, and print the ratios.

    Returns:
        Median ratios, the recorder by ProducerPerformance: "defaults" and "same batches".
    """
    contract = Contract()
    same = {"batch.size": contract.batch_size_bytes, "linger.ms": int(contract.linger_ms)}
    runs = {
        "defaults": lambda: bench.performance(),
        "same batches": lambda: bench.performance(**same),
        "recorder": bench.recorder,
    }
    ratios: dict[str, list[float]] = {"defaults": [], "same batches": []}
    _print(
        f"{bench.records:,} records of {RECORD_BYTES} bytes each time, acks=all, idempotent · "
        f"recorder: {bench.processes} processes, batch.size={same['batch.size']}, "
        f"linger.ms={same['linger.ms']} · {os.cpu_count()} cores"
    )
    for number in range(rounds + 1):
        # The order changes from round to round: nobody is always the one after another.
        turn = number % len(runs)
        names = [*list(runs)[turn:], *list(runs)[:turn]]
        rates = {name: runs[name]() for name in names}
        if number == 0:
            continue
        for name, found in ratios.items():
            found.append(rates["recorder"] / rates[name])
        _print(
            " · ".join(f"{name} {rates[name]:,.0f}/s" for name in runs)
            + " · ratio "
            + ", ".join(f"{found[-1]:.2f} to {name}" for name, found in ratios.items())
            + f" · load {os.getloadavg()[0]:.1f}"
        )
    medians = {name: median(found) for name, found in ratios.items()}
    for name, ratio in medians.items():
        _print(f"recorder / ProducerPerformance, {name}: {ratio:.2f} (goal: at least {GOAL:g})")
    return medians


def main(arguments: list[str]) -> int:
    """Measure on a cluster of its own, or on the one that is named; return 1 below the goal."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench throughput")
    parser.add_argument("--bootstrap", help="a running cluster; default: three brokers of our own")
    parser.add_argument("--image", help="an image with Kafka's jars; default: our broker's")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each, in each round")
    parser.add_argument("--rounds", type=int, default=3, help="how many are counted")
    parser.add_argument("--processes", type=int, default=2, help="of the recorder")
    given = parser.parse_args(arguments)
    image = given.image or broker_image(ClusterSpec().kafka)

    def measure(bootstrap: str) -> int:
        make_topic(bootstrap)
        bench = Bench(
            bootstrap=bootstrap, image=image, records=given.records, processes=given.processes
        )
        ratios = compare(bench, rounds=given.rounds)
        return exit_code(
            [
                Goal(name=f"recorder / ProducerPerformance, {name}", measured=ratio, at_least=GOAL)
                for name, ratio in ratios.items()
            ]
        )

    if given.bootstrap:
        return measure(given.bootstrap)
    with tempfile.TemporaryDirectory() as folder:
        cluster = launch(
            ClusterSpec(), run="bench-throughput", folder=Path(folder), say=lambda _: None
        )
        try:
            return measure(cluster.bootstrap)
        finally:
            cluster.shut_down()


def make_topic(bootstrap: str) -> None:
    """Make the topic if there is none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        new = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([new])[TOPIC].result(30)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        _print(json.dumps(send(*json.loads(sys.argv[1]))))
        os._exit(0)
    sys.exit(main(sys.argv[1:]))
