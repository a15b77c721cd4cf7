"""Where packets are dropped, so that a link carries nothing, and what clients get for an answer."""

import socket
import struct
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.models.containers import Container

from harness.cluster.containers import NodeContainer
from harness.cluster.links import Rule, client_rule, fetch_rules, knock, link_rules
from harness.cluster.topology import Node
from harness.core.cluster import Answer, ClientDirection, Direction
from harness.core.errors import ClusterBroken

PORTS = {"9092/tcp": None, "9094/tcp": [{"HostIp": "127.0.0.1", "HostPort": "32001"}]}


def place(number: int, ports: dict[str, Any] | None = None) -> NodeContainer:
    container = SimpleNamespace(attrs={"NetworkSettings": {"Ports": ports or {}}})
    return NodeContainer(
        container=cast("Container", container), pid=number, addresses={"net": f"10.0.0.{number}"}
    )


def only(rules: list[Rule]) -> Rule:
    (rule,) = rules
    return rule


@pytest.mark.parametrize(
    ("direction", "at", "away", "side"),
    [("both", 1, 2, "both"), ("forth", 2, 1, "in"), ("back", 1, 2, "in")],
)
def test_one_way_is_cut_where_packets_arrive(
    direction: Direction, at: int, away: int, side: str
) -> None:
    rule = only(link_rules([(place(1), place(2), (9092,))], direction=direction, longer_than=200))

    assert rule == {
        "container_pid": at,
        "peers": [f"10.0.0.{away}"],
        "ports": (9092,),
        "direction": side,
        "longer_than": 200,
    }


def test_fetch_requests_are_dropped_where_they_come_in_at_both_ends() -> None:
    one, other = fetch_rules([(place(1), place(2), (9092,)), (place(1), place(3), ())])

    assert one == {
        "container_pid": 1,
        "peers": ["10.0.0.2"],
        "ports": (9092,),
        "direction": "in",
        "api_key": 1,
    }
    assert (other["container_pid"], other["peers"]) == (2, ["10.0.0.1"])


def test_the_links_of_one_node_are_one_rule() -> None:
    links = [(place(1), place(2), None), (place(1), place(3), None), (place(1), place(4), ())]

    rule = only(link_rules(links, direction="both", longer_than=0))

    assert rule["peers"] == ["10.0.0.2", "10.0.0.3"]


@pytest.mark.parametrize(
    ("direction", "side"), [("both", "both"), ("to_client", "out"), ("to_broker", "in")]
)
def test_clients_are_whoever_is_not_of_the_cluster(direction: ClientDirection, side: str) -> None:
    node = Node(node_id=1, service="broker-1", container="c", port=32001)
    broker = place(1, PORTS)

    rule = client_rule(node, broker, [broker, place(2), place(3)], direction=direction)

    # Its own address must not be spared: every packet that comes in goes there.
    assert rule == {
        "container_pid": 1,
        "spared": ["10.0.0.2", "10.0.0.3"],
        "ports": [9094],
        "direction": side,
    }


def test_a_broker_without_a_published_port_has_no_clients_to_cut_off() -> None:
    node = Node(node_id=1, service="broker-1", container="c", port=None)

    with pytest.raises(ClusterBroken, match="publishes no port"):
        client_rule(node, place(1, PORTS), [], direction="both")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (struct.pack(">iih", 6, 0x6B63, 0), Answer.ANSWERED),
        (b"", Answer.REFUSED),
        (None, Answer.SILENT),
    ],
)
def test_a_knock_tells_answers_from_silence(said: bytes | None, answer: Answer) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                if said is None:
                    connection.recv(1024)
                else:
                    connection.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        seen = knock({7: server.getsockname()}, timeout_s=1.0 if said is None else 60.0)
        thread.join()

    assert seen == {7: answer}


def test_a_closed_port_refuses_and_an_unknown_one_is_out_of_reach() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))

        seen = knock({1: reserved.getsockname(), 2: None}, timeout_s=60.0)

    assert seen == {1: Answer.REFUSED, 2: Answer.UNREACHABLE}
