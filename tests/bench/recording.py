"""What recording costs: the same sending loop with the history and without, in one run.

    kafka-chaos bench recording [--bootstrap SERVERS] [--rounds 7]

The bare loop sends one ready-made record again and again and only counts its delivery reports. The
recorded one is the real producer: every record is numbered, stamped, encoded with its checksum,
reserved, and its outcome written to disk. Both run flat out with the same librdkafka settings, in
processes of their own, alternately, so that both meet the same machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Self

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.launch import launch
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.wait import wait_until
from harness.history.sends import SendRecorder
from tests.bench._goals import Goal, exit_code
from workloads.client_config import producer_config
from workloads.control import calm_collector
from workloads.producer import ProducerSettings, SendingProducer

RUN_ID = "00000000000000be"
BATCH = 500
GOAL = 0.75
"""Of the bare throughput, what recording has to keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one loop achieved.

    Attributes:
        per_s: acknowledged records a second.
        per_cpu_s: acknowledged records by second of processor time, all threads of the client.
    """

    per_s: float
    per_cpu_s: float

    @classmethod
    def of(cls, acked: int, *, since_s: float, since_cpu_s: float) -> Self:
        """Return the rate from these moments of both clocks until now."""
        elapsed_s, cpu_s = time.monotonic() - since_s, time.process_time() - since_cpu_s
        return cls(per_s=acked / elapsed_s, per_cpu_s=acked / cpu_s)


def bare(bootstrap: str, topic: str, partitions: int, seconds: float) -> Rate:
    """Return what the loop that records nothing achieves."""
    producer = Producer({**producer_config(Contract()), "bootstrap.servers": bootstrap})
    payload = bytes(100)
    acked = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acked
        if error is None:
            acked += 1

    produce, poll = producer.produce, producer.poll
    sequence = 0
    started, started_cpu = time.monotonic(), time.process_time()
    while time.monotonic() - started < seconds:
        for _ in range(BATCH):
            try:
                produce(topic, payload, None, sequence % partitions, delivered)
            except BufferError:
                poll(0.05)
                break
            sequence += 1
        poll(0)
    producer.flush(30)
    return Rate.of(acked, since_s=started, since_cpu_s=started_cpu)


def open_recorded(
    bootstrap: str, topic: str, partitions: int, folder: Path, *, process: int = 0
) -> tuple[SendingProducer, SendRecorder]:
    """Return the real producer, flat out, and the history that it writes into a folder."""
    calm_collector()
    settings = ProducerSettings(
        run_id=RUN_ID,
        seed=0,
        process=process,
        history=str(folder / f"history-{process}"),
        bootstrap=bootstrap,
        topic=topic,
        partitions=partitions,
        record_size_bytes=100,
        single_attempt=False,
        flush_s=30,
        config=producer_config(Contract()),
    )
    producer = SendingProducer(settings)
    return producer, producer.recorder


def recorded(bootstrap: str, topic: str, partitions: int, seconds: float) -> Rate:
    """Return what the real producer achieves."""
    with tempfile.TemporaryDirectory() as folder:
        producer, recorder = open_recorded(bootstrap, topic, partitions, Path(folder))
        started, started_cpu = time.monotonic(), time.process_time()
        while time.monotonic() - started < seconds:
            full = producer.send(BATCH) < BATCH
            producer.poll(0.05 if full else 0)
            recorder.flush_if_due()
        producer.drain(lambda: started + seconds + 30 - time.monotonic())
        recorder.close(used=producer.used)
        return Rate.of(recorder.counts.total(), since_s=started, since_cpu_s=started_cpu)


LOOPS = {"bare": bare, "recorded": recorded}


def main(arguments: list[str]) -> int:
    """Measure on a cluster of its own, or on the one that is named; return 1 below the goal."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench recording")
    parser.add_argument("--bootstrap", help="a running cluster; default: three brokers of our own")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long one loop runs")
    parser.add_argument("--rounds", type=int, default=7, help="how often each runs")
    given = parser.parse_args(arguments)

    def measure(bootstrap: str) -> int:
        kept = compare(bootstrap, seconds=given.seconds, rounds=given.rounds)
        return exit_code([Goal(name="recorded / bare", measured=kept, at_least=GOAL)])

    if given.bootstrap:
        return measure(given.bootstrap)
    with tempfile.TemporaryDirectory() as folder:
        cluster = launch(
            ClusterSpec(), run="bench-recording", folder=Path(folder), say=lambda _: None
        )
        try:
            return measure(cluster.bootstrap)
        finally:
            cluster.shut_down()


def compare(
    bootstrap: str, topic: str = "recording-bench", *, seconds: float, rounds: int
) -> float:
    """Run both loops alternately and print the ratios of what they achieve.

    Beside the throughput stands what a second of the client's processor time yields: where brokers
    and client share two cores, how much the brokers take of them decides the throughput of either
    loop from one round to the next.

    Args:
        bootstrap: a running cluster.
        topic: where to send to; made with three partitions and replicas if there is none.
        seconds: how long one loop runs.
        rounds: how often each runs.

    Returns:
        Median of recorded divided by bare throughput, round by round.
    """
    partitions = partitions_of(bootstrap, topic)
    ratios: list[float] = []
    by_cpu: list[float] = []
    for number in range(rounds + 1):
        rates: dict[str, Rate] = {}
        # The order changes from round to round: neither loop is always the one after the other.
        for name in sorted(LOOPS, reverse=bool(number % 2)):
            loop = json.dumps([name, bootstrap, topic, partitions, seconds])
            done = subprocess.run(
                [sys.executable, "-m", "tests.bench.recording", loop],
                capture_output=True,
                check=True,
                timeout=seconds + 120,
            )
            rates[name] = Rate(**json.loads(done.stdout))
        if number == 0:
            # The first round meets brokers whose code is not yet compiled; it warms them.
            continue
        without, with_history = rates["bare"], rates["recorded"]
        ratios.append(with_history.per_s / without.per_s)
        by_cpu.append(with_history.per_cpu_s / without.per_cpu_s)
        _print(
            f"bare {without.per_s:,.0f}/s · recorded {with_history.per_s:,.0f}/s · "
            f"ratio {ratios[-1]:.2f}, by processor time {by_cpu[-1]:.2f}"
        )
    _print(
        f"recording keeps {median(ratios):.2f} of the throughput (goal: at least {GOAL:g}), "
        f"{median(by_cpu):.2f} by processor time"
    )
    return median(ratios)


def partitions_of(bootstrap: str, topic: str) -> int:
    """Return how many partitions the topic has, after making it if need be."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(30)
    return wait_until(
        lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions),
        timeout_s=30,
        what=f"the partitions of {topic}",
    )


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        loop, *where = json.loads(sys.argv[1])
        _print(json.dumps(asdict(LOOPS[loop](*where))))
        sys.stdout.flush()
        os._exit(0)
    sys.exit(main(sys.argv[1:]))
