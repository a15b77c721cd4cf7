"""The kernel's and the broker's own word: what suites hold what is claimed of a cluster against."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from harness.cluster.docker_cluster import DockerCluster
from harness.core.cluster import Broker
from harness.core.wait import wait_until

READY = "kafka-chaos-ready"
"""The topic that every cluster has, of one partition."""

CALLING_PORTS = count(20_001)
"""Below those that kernels choose from."""

CALL = """
import socket, sys
with socket.socket() as caller:
    caller.settimeout(2)
    caller.bind(("", int(sys.argv[2])))
    try:
        caller.connect((sys.argv[1], 9092))
    except OSError:
        pass
"""


def shell(container: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "exec", container, "bash", "-c", command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def java_states(container: str) -> list[str]:
    """State letters of every java process, as the container's own /proc shows them."""
    return shell(
        container,
        "for p in /proc/[0-9]*; do read -r c < $p/comm; "
        '[ "$c" = java ] && cut -d" " -f3 $p/stat; done; true',
    ).stdout.split()


def await_states(container: str, states: list[str]) -> None:
    """Wait for the states of a container's java processes: what has just woken still runs."""
    wait_until(
        lambda: java_states(container) == states,
        timeout_s=30,
        what=f"the java processes of {container} to be in the states {states}",
    )


def connects(container: str, host: str, port: int = 9092) -> bool:
    """Whether a connection opens; that it does is known at once, that it does not after 2 s."""
    return shell(container, f"timeout 2 bash -c '</dev/tcp/{host}/{port}'").returncode == 0


def await_connects(container: str, host: str, port: int = 9092) -> None:
    """Wait for a connection to open: on a busy machine the shell alone may take its two seconds."""
    wait_until(
        lambda: connects(container, host, port),
        timeout_s=30,
        what=f"a connection from {container} to {host}:{port}",
    )


def ends(cluster: DockerCluster, leader: Broker) -> tuple[Broker, Broker]:
    """The ends of a link: the leader and a follower."""
    follower = wait_until(
        # Any broker may be asked, and they hear of a full ISR one after the other.
        lambda: next((other for other in cluster.isr_of(READY, 0) if other != leader), None),
        timeout_s=60,
        what=f"a follower of {READY}-0 in the ISR",
    )
    return leader, follower


def accepted(at: Broker, of: Broker, cluster: DockerCluster) -> int:
    """How often the kernel of a node agrees to a connection of another node (SYN, ACK).

    One connection of our own is counted, by the port that it comes from. A kernel agrees again and
    again, for a minute, to a connection whose caller does not hear it: those of the test before
    would be among them.
    """
    port = next(CALLING_PORTS)
    agreed = f"-p tcp --sport 9092 --dport {port} --tcp-flags SYN,ACK SYN,ACK".split()
    address = shell(at.container, "hostname -I").stdout.split()[0]
    # Before the filter of what leaves, and after the filter of what comes in.
    in_network_of(at, cluster, "iptables", "-t", "mangle", "-A", "OUTPUT", *agreed)
    try:
        in_network_of(of, cluster, "python3", "-c", CALL, address, str(port))
        counted = in_network_of(at, cluster, "iptables", "-t", "mangle", "-nvxL", "OUTPUT")
    finally:
        in_network_of(at, cluster, "iptables", "-t", "mangle", "-D", "OUTPUT", *agreed)
    return int(counted.splitlines()[-1].split()[0])


def in_network_of(node: Broker, cluster: DockerCluster, *command: str) -> str:
    """Return what a command prints that the agent runs in the network of a node."""
    pid = shell_of_engine("inspect", "--format", "{{.State.Pid}}", node.container).strip()
    enter = ["exec", cluster.agent.name, "nsenter", f"--net=/proc/{pid}/ns/net"]
    return shell_of_engine(*enter, *command)


def packet_filter(cluster: DockerCluster, node: Broker) -> str:
    """Return all rules of the packet filter in the network of a node."""
    return in_network_of(node, cluster, "iptables-save")


def shell_of_engine(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=120, check=True
    ).stdout


def log_bytes(broker: Broker, topic: str) -> int:
    sizes = shell(broker.container, f"stat -c %s /var/lib/kafka/data/{topic}-0/*.log").stdout
    return sum(map(int, sizes.split()))


def checkpoint(broker: Broker, topic: str) -> int | None:
    """Return the high watermark that a broker has on its disk for a topic of one partition."""
    path = "/var/lib/kafka/data/replication-offset-checkpoint"
    lines = shell(broker.container, f"cat {path}").stdout.splitlines()
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), None)


def log_end(cluster: DockerCluster, broker: Broker, topic: str) -> int:
    """Return the end of a broker's own log of a topic of one partition, by its own MBean."""
    name = f"kafka.log:type=Log,name=LogEndOffset,topic={topic},partition=0"
    return int(cluster.jmx(broker, name, "Value")[name])


def produce(cluster: DockerCluster, topic: str, *, records: int) -> int:
    """Produce records, each a batch of its own, and return the log end offset then."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    for _ in range(records):
        producer.produce(topic, os.urandom(100))
        assert producer.flush(60) == 0
    return end_offset(cluster, topic)


def end_offset(cluster: DockerCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "end"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    finally:
        consumer.close()


def await_end(cluster: DockerCluster, topic: str, end: int) -> None:
    """Wait until every replica has copied up to `end`, and nothing lies above it.

    Brokers that went down at the same moment are all in the ISR when they come back, while the
    leader's high watermark starts at its last checkpoint: it is the end of the log only after the
    followers have fetched.
    """
    cluster.await_full_isr([topic], timeout_s=120)
    seen: list[int] = []

    def is_there() -> bool:
        with suppress(KafkaException):  # whoever is asked may not know yet who leads
            seen.append(end_offset(cluster, topic))
        return seen[-1:] == [end]

    wait_until(is_there, timeout_s=120, what=f"{topic}-0 to end at offset {end}")


@dataclass(slots=True)
class Traffic:
    """What a producer does in the background.

    Attributes:
        first_offset: where the log ended before its first record.
        sent: how many records were handed to the client so far.
        acknowledged: the offsets that the client learned so far.
    """

    first_offset: int
    sent: int = 0
    acknowledged: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset behind the records sent so far, once all of them are in the log."""
        return self.first_offset + self.sent


@contextmanager
def produced(cluster: DockerCluster, topic: str, *, acks: str, size: int) -> Iterator[Traffic]:
    """Produce a record every 20 ms to a topic of one partition that nobody else writes to."""
    idempotent = acks == "all"
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "enable.idempotence": idempotent,
            "message.timeout.ms": 60_000,
        }
    )
    traffic = Traffic(end_offset(cluster, topic))
    stop = threading.Event()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            traffic.acknowledged.append(message.offset() or 0)

    def work() -> None:
        while not stop.is_set():
            producer.produce(topic, os.urandom(size), on_delivery=on_delivery)
            traffic.sent += 1
            producer.poll(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield traffic
    finally:
        stop.set()
        thread.join()
        # What is left would be appended in the middle of the next test.
        assert producer.flush(60) == 0
