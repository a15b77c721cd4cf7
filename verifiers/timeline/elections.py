"""Which node says that it is the active controller, and in which epoch.

Each node's own word counts: what it logged when it took over, and what stands in its copy of the
metadata log. So nothing is said of when a claim ended: a controller that was deposed while it could
not hear of it keeps an old epoch, and does no harm in it.

Source: KIP-595 (a voter votes once in an epoch, so an epoch has one leader); kafka.controller of
the versions with ZooKeeper, where the epoch is a znode that is raised by a conditional update.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verifiers.run_folder.broker_logs import in_utc, logged_ms
from verifiers.timeline.partition_states import Timeline

_CLAIMS = (
    # QuorumState of KafkaRaftClient, since 2.7; since 3.7 it names more of the node.
    re.compile(
        rb"Completed transition to Leader\(.*?(?:localId=|ReplicaKey\(id=)(?P<node>\d+)"
        rb".*?\bepoch=(?P<epoch>\d+)"
    ),
    # KafkaController up to 0.11, and since 1.0.
    re.compile(rb"[Cc]ontroller (?P<node>\d+) incremented epoch to (?P<epoch>\d+)"),
    re.compile(rb"\[Controller id=(?P<node>\d+)\].*?[Ee]poch incremented to (?P<epoch>\d+)"),
)


def read_elections(cluster: Path, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the rows of the frame `elections`; `cluster` is the folder of this name in a run."""
    claims = [
        (change.epoch, change.node_id, f"log of {name}", change.at_ms)
        for name, log in timeline.logs.items()
        for change in log.controllers
    ]
    for file in sorted(cluster.glob("*/server.log")):
        claims += _claims(file)
    return [
        {"topic": "", "epoch": epoch, "node": node, "told_by": told_by, "at_utc": in_utc(at_ms)}
        for epoch, node, told_by, at_ms in claims
    ]


def _claims(file: Path) -> Iterator[tuple[int, int, str, int]]:
    """Yield epoch, node, teller and time of what a log tells of its own node.

    Every such line names the node.
    """
    with file.open("rb") as content:
        for line in content:
            if b" to Leader(" not in line and b"ncremented" not in line:
                continue
            at_ms = logged_ms(line.decode(errors="replace"))
            claim = next((found for one in _CLAIMS if (found := one.search(line))), None)
            if at_ms is None or claim is None:
                continue
            node = int(claim["node"])
            yield int(claim["epoch"]), node, f"node {node}", at_ms
