"""Which node says that it is the active controller, and in which epoch.

Each node's own word counts: what it logged when it took over, and what stands in its copy of the
metadata log. So nothing is said of when a claim ended: a controller that was deposed while it could
not hear of it keeps an old epoch, and does no harm in it.

Source: KIP-595 (a voter votes once in an epoch, so an epoch has one leader); kafka.controller of
the versions with ZooKeeper, where the epoch is a znode that is raised by a conditional update.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verifiers.timeline.partition_states import Timeline

_Row = dict[str, Any]
_NUMBER = re.compile(r"(\d+)$")
_CLAIM = re.compile(
    rb"^\[(?P<when>[^\]]{19,23})\].*?(?:"
    # KafkaRaftClient and QuorumState, since 2.7.
    rb"Completed transition to Leader\(.*?\bepoch=(?P<raft>\d+)"
    # KafkaController: up to 0.11; 1.0; since 2.1.
    rb"|[Cc]ontroller \d+ incremented epoch to (?P<old>\d+)"
    rb"|[Ee]poch incremented to (?P<zookeeper>\d+)"
    rb")"
)


def read_elections(cluster: Path, timeline: Timeline) -> list[_Row]:
    """Return the rows of the frame `elections` (ELECTION_SCHEMA).

    Args:
        cluster: the folder `cluster/` of a run.
        timeline: with each node's copy of the metadata log.
    """
    rows = [
        {
            "topic": "", "epoch": change.epoch, "node": change.node_id, "told_by": f"log of {name}",
            "at_utc": _utc(change.at_ms),
        }
        for name, log in timeline.logs.items()
        for change in log.controllers
    ]  # fmt: skip
    for file in sorted(cluster.glob("*/server.log")):
        number = _NUMBER.search(file.parent.name)
        if number:
            rows += _claims(file, int(number[1]))
    return rows


def _claims(file: Path, node: int) -> Iterator[_Row]:
    with file.open("rb") as content:
        for line in content:
            if b" to Leader(" not in line and b"ncremented" not in line:
                continue
            claim = _CLAIM.match(line)
            if claim is None:
                continue
            epoch = claim["raft"] or claim["old"] or claim["zookeeper"]
            yield {
                "topic": "", "epoch": int(epoch), "node": node, "told_by": f"node {node}",
                "at_utc": claim["when"].decode().replace(",", "."),
            }  # fmt: skip


def _utc(at_ms: int) -> str:
    when = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return when.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
