"""A cluster that starts: what is looked at meanwhile, and who must not be in it."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster import launch
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.logs import ClusterLogs
from harness.cluster.topology import Node, Topology
from harness.core.cluster import Broker, ClusterSpec
from harness.core.errors import ClusterBroken

NODE = Node(node_id=1, service="broker-1", container="kc-broker-1", port=32001)
NODES = tuple(replace(NODE, node_id=n, service=f"broker-{n}") for n in (1, 2, 3))


class Agent:
    """Reads files of containers, by their first process; and counts the commands."""

    def __init__(self, files: dict[tuple[int, str], bytes] | None = None) -> None:
        self.files = files or {}
        self.commands: list[Sequence[str]] = []

    def stream(self, command: Sequence[str], *, may_end_in: Collection[int]) -> Iterator[bytes]:
        assert may_end_in == {0, 1, 2}
        self.commands.append(command)
        wanted = [path for path in command if path.startswith("/proc/")]
        named = {f"/proc/{pid}/root{path}": text for (pid, path), text in self.files.items()}
        yield "".join(f"{path}\n" for path in wanted if named.get(path)).encode()

    def read(self, pid: int, path: str, *, offset: int = 0) -> bytes:
        return self.files.get((pid, path), b"")[offset:]

    def jvm(self, pid: int) -> Any:
        return SimpleNamespace(pid_inside=900 + pid)


def cluster(agent: Agent, registered: set[int], nodes: Sequence[Node] = NODES) -> DockerCluster:
    """Return a cluster of three brokers that is not ready yet."""
    made = DockerCluster.__new__(DockerCluster)
    made.spec = ClusterSpec()
    made.security = None
    made.topology = Topology(project="kc", compose="", nodes=tuple(nodes), agent="kc-agent")
    made.agent = cast("Any", agent)
    made.zookeeper = None
    made._seen = dict
    made.timing_s = {}
    made.admin = cast("Any", SimpleNamespace(create_topic=lambda _: None))
    state = SimpleNamespace(leader=4, isr=(1, 4), replicas=(1, 4))
    made._source = cast(
        "Any",
        SimpleNamespace(
            broker_ids=lambda **_: registered,
            partitions=lambda *_, **__: {("kafka-chaos-ready", 0): state},
        ),
    )
    container = SimpleNamespace(logs=lambda **_: b"OutOfMemoryError\n")
    made._containers = {
        node.node_id: cast("Any", SimpleNamespace(pid=node.node_id, container=container))
        for node in nodes
    }
    return made


def test_one_command_looks_at_all_nodes_of_a_cluster_that_starts(
    instant_time: list[float],
) -> None:
    agent = Agent()
    registered: set[int] = set()
    made = cluster(agent, registered)
    begin_s = instant_time[0]
    made._source.broker_ids = lambda **_: (  # type: ignore[method-assign]
        {1, 2, 3} if instant_time[0] > begin_s + 5 else set()
    )

    launch._await_registered(made)

    assert 5 <= len(agent.commands) <= 7
    assert all(len([p for p in c if p.startswith("/proc/")]) == 3 for c in agent.commands)


def test_a_node_that_ends_while_the_cluster_starts_is_named_with_its_last_lines(
    instant_time: list[float],
) -> None:
    agent = Agent({(2, "/run/kafka-chaos/exits"): b'{"pid": 7, "status": 1}\n'})

    with pytest.raises(ClusterBroken, match=r"Node 2 ended .*\n.*OutOfMemoryError"):
        launch._await_registered(cluster(agent, set()))


def test_a_broker_that_no_service_is_known_to_run_is_refused_at_the_start(
    instant_time: list[float],
) -> None:
    made = cluster(Agent(), {1, 2, 3, 4})

    with pytest.raises(ClusterBroken, match=r"Broker 4 belongs to the cluster.*label every"):
        launch._make_ready(made, 0.0, lambda _: None)


def test_a_leader_that_no_service_is_known_to_run_is_an_error_with_a_name() -> None:
    with pytest.raises(ClusterBroken, match="Broker 4 belongs to the cluster"):
        cluster(Agent(), {1, 2, 3}).leader_of("kafka-chaos-ready", 0)


# --- the logs that are kept


def exits(*pids: int) -> bytes:
    return "".join(json.dumps({"pid": pid, "status": 137}) + "\n" for pid in pids).encode()


def test_the_gc_logs_of_all_jvms_are_kept(tmp_path: Path) -> None:
    folder = "/var/log/kafka"
    agent = Agent(
        {
            (1, "/run/kafka-chaos/exits"): exits(20, 80),
            (1, f"{folder}/server.log"): b"server",
            (1, f"{folder}/gc.log"): b"third",
            (1, f"{folder}/gc-1.log"): b"first",
            (1, f"{folder}/gc-2.log"): b"second",
        }
    )

    ClusterLogs(cast("Any", agent), {1: 1}).save(NODE, tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "server.log": b"server", "gc.log": b"third", "gc-1.log": b"first", "gc-2.log": b"second",
    }  # fmt: skip


def test_gc_logs_that_are_named_after_pids_are_kept_in_the_order_of_the_jvms(
    tmp_path: Path,
) -> None:
    agent = Agent(
        {
            (1, "/run/kafka-chaos/exits"): exits(20, 80),
            (1, "/logs/gc-20.log"): b"first",
            (1, "/logs/gc-901.log"): b"present",
            (1, "/logs/gc-77.log"): b"of a tool",
        }
    )
    node = replace(NODE, gc_log="/logs/gc-%p.log", server_log=None)

    ClusterLogs(cast("Any", agent), {1: 1}).save(node, tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "gc-1.log": b"first", "gc.log": b"present",
    }  # fmt: skip


def test_container_logs_are_fetched_only_where_there_is_no_log_file(tmp_path: Path) -> None:
    nodes = (NODE, replace(NODE, node_id=2, service="broker-2", server_log=None))
    made = cluster(Agent({(1, "/var/log/kafka/server.log"): b"server"}), set(), nodes)
    made.logs = ClusterLogs(cast("Any", made.agent), {1: 1, 2: 2})
    made._folder = tmp_path
    asked: list[int] = []

    def container_log(node: Broker | Node, *, lines: int) -> bytes:
        asked.append(node.node_id)
        return b"said"

    made.container_log = container_log  # type: ignore[method-assign]

    made.save_logs()

    assert asked == [2]
    assert (tmp_path / "cluster" / "broker-1" / "server.log").read_bytes() == b"server"
    assert (tmp_path / "cluster" / "broker-2" / "server.log").read_bytes() == b"said"


def test_logs_that_cannot_be_had_of_one_node_do_not_cost_the_others(tmp_path: Path) -> None:
    class Broken(Agent):
        def read(self, pid: int, path: str, *, offset: int = 0) -> bytes:
            if pid == 1:
                raise ClusterBroken("no answer")
            return super().read(pid, path, offset=offset)

    made = cluster(Broken({(2, "/var/log/kafka/server.log"): b"two"}), set(), NODES[:2])
    made.logs = ClusterLogs(cast("Any", made.agent), {1: 1, 2: 2})
    made._folder = tmp_path

    made.save_logs()

    assert (tmp_path / "cluster" / "broker-2" / "server.log").read_bytes() == b"two"
