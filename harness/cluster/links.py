"""Links as the packet filter is told of them, and the link between a broker and its clients."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from harness.cluster.broker_socket import Address, BrokerSocket
from harness.cluster.containers import NodeContainer
from harness.cluster.topology import Node
from harness.core.cluster import Answer, ClientDirection, Direction
from harness.core.errors import ClusterBroken

Rule = dict[str, Any]
"""What one container's network drops, as the agent's verb `cut` is told (README of the agent)."""

NodeLink = tuple[NodeContainer, NodeContainer, tuple[int, ...] | None]
"""First and second node, and the ports that alone are meant; None for all traffic."""

_FETCH = 1
_API_VERSIONS = 18
_CLIENT_SIDES: Mapping[ClientDirection, str] = {
    "both": "both", "to_broker": "in", "to_client": "out",
}  # fmt: skip


def link_rules(
    links: Iterable[NodeLink],
    *,
    direction: Direction,
    longer_than: int,
) -> list[Rule]:
    """Return what has to be dropped where, so that links carry nothing.

    A cut of both ways is made at the first node. A cut of one way is made where the packets
    arrive: they were sent, and the sender's network stack knows nothing of their loss.

    Args:
        links: first and second node of each, and the ports that alone are cut; None for
            everything. A link with no port has nothing to be cut, and no rule.
        direction: which way.
        longer_than: only IP packets of more bytes; 0 for all.
    """
    side = "both" if direction == "both" else "in"
    peers: dict[tuple[int, tuple[int, ...] | None], list[str]] = {}
    for one, other, ports in links:
        if ports == ():
            continue
        at, away = (other, one) if direction == "forth" else (one, other)
        peers.setdefault((at.pid, ports), []).extend(away.addresses.values())
    return [
        {
            "container_pid": pid,
            "peers": addresses,
            "ports": ports,
            "direction": side,
            "longer_than": longer_than,
        }
        for (pid, ports), addresses in peers.items()
    ]


def fetch_rules(
    links: Iterable[NodeLink],
) -> list[Rule]:
    """Return what has to be dropped where, so that two nodes do not copy from each other.

    Source: Kafka protocol guide, the header of a request and its API keys.

    Args:
        links: first and second node of each, and the ports where brokers fetch.
    """
    return [
        {
            "container_pid": at.pid,
            "peers": list(away.addresses.values()),
            "ports": ports,
            "direction": "in",
            "api_key": _FETCH,
        }
        for one, other, ports in links
        if ports
        for at, away in ((one, other), (other, one))
    ]


def client_rule(
    node: Node,
    container: NodeContainer,
    cluster: Sequence[NodeContainer],
    *,
    direction: ClientDirection,
) -> Rule:
    """Return what has to be dropped at a broker, so that clients outside the cluster are cut off.

    Clients reach a broker through the published port: their packets come from the network's
    gateway, or from wherever they are, and never from an address of the cluster.

    Args:
        node: the broker.
        container: its container.
        cluster: the containers of all nodes; packets of the others pass.
        direction: which way.

    Raises:
        ClusterBroken: the engine does not say which of the broker's ports is published.
    """
    published: Mapping[str, Sequence[Mapping[str, str]] | None]
    published = container.container.attrs["NetworkSettings"]["Ports"]
    inside = {
        int(port.partition("/")[0])
        for port, outside in published.items()
        if any(int(binding["HostPort"]) == node.port for binding in outside or ())
    }
    if not inside:
        raise ClusterBroken(f"{node.service} publishes no port {node.port} for clients.")
    others = [other for other in cluster if other.pid != container.pid]
    return {
        "container_pid": container.pid,
        # Not its own: every packet that comes in goes there.
        "spared": [address for other in others for address in other.addresses.values()],
        "ports": sorted(inside),
        "direction": _CLIENT_SIDES[direction],
    }


def knock(
    addresses: Mapping[int, Address | None],
    *,
    timeout_s: float,
    security: Mapping[str, str] | None = None,
) -> dict[int, Answer]:
    """Return what each listener answers to an ApiVersions request, all asked at once.

    Args:
        addresses: by any key; None, one that is not known, is unreachable.
        timeout_s: for each.
        security: librdkafka's security settings; empty: none are needed.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as threads:
        answers = threads.map(lambda at: _ask(at, timeout_s, security or {}), addresses.values())
        return dict(zip(addresses, answers, strict=True))


def _ask(address: Address | None, timeout_s: float, security: Mapping[str, str]) -> Answer:
    if address is None:
        return Answer.UNREACHABLE
    # A broker says which versions it speaks before anybody has logged in.
    protocol = security.get("security.protocol", "").replace("SASL_", "")
    anonymous = {**security, "security.protocol": protocol}
    try:
        with closing(BrokerSocket(address, anonymous, timeout_s=timeout_s)) as connection:
            connection.ask(_API_VERSIONS, 0, b"")
    except TimeoutError:
        # The engine's own proxy accepts every connection, so nothing tells silence of the broker
        # from silence of the network.
        return Answer.SILENT
    except OSError:
        return Answer.REFUSED
    return Answer.ANSWERED
