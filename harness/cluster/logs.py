"""What a cluster's nodes write: their logs, and the pauses that a JVM notes in its GC log."""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.agent import Agent
from harness.cluster.topology import Node
from harness.core.errors import ClusterBroken

log = logging.getLogger(__name__)

_SETTINGS = re.compile(r"KafkaConfig values: ?\n((?:\t.*\n)+)")
_PAUSE = re.compile(rb"\] *GC\(\d+\) Pause .*?(\d+\.\d+)ms")
_LIFE = re.compile(
    r"\b(?:(?P<up>starting|started)|shutting[ _]down) \(kafka\.server\.\w*Server\)$", re.I
)
EXITS = "/run/kafka-chaos/exits"
"""Where a node's supervisor notes how each of its JVMs ended, one JSON object a line."""


def shuts_down(log: str) -> bool:
    """Return whether the last thing that a broker's log says of its life is that it shuts down."""
    told = filter(None, map(_LIFE.search, reversed(log.splitlines())))
    last = next(told, None)
    return last is not None and last["up"] is None


class ClusterLogs:
    """Reads the nodes' files through the fault agent.

    Args:
        agent: of the cluster.
        pids: first process of each node's container, by node id.
    """

    def __init__(self, agent: Agent, pids: Mapping[int, int]) -> None:
        self._agent = agent
        self._pids = pids
        # Which file, and where it ended, when a fault began; by fault and node.
        self._marks: dict[tuple[str, int], tuple[str, int]] = {}

    def forget_marks(self) -> None:
        """Forget the faults of the run before: the ids of the next one's begin anew."""
        self._marks.clear()

    def server_log(self, node: Node) -> bytes:
        """Return a node's log file; empty if it has none."""
        if node.server_log is None:
            return b""
        return self._agent.read(self._pids[node.node_id], node.server_log)

    def exits(self, node: Node) -> list[Mapping[str, int]]:
        """Return the pid inside the container and the status of each JVM that has ended."""
        lines = self._agent.read(self._pids[node.node_id], EXITS)
        return [json.loads(line) for line in lines.splitlines()]

    def save(self, node: Node, folder: Path) -> None:
        """Copy a node's log file and the GC logs of all its JVMs into a folder.

        Raises:
            ClusterBroken: the agent does not answer.
        """
        if node.server_log is not None:
            (folder / "server.log").write_bytes(self.server_log(node))
        pid = self._pids[node.node_id]
        for name, path in self._gc_logs(node).items():
            content = self._agent.read(pid, path)
            # The pid of a JVM that never logged its collections leads to no file.
            if content:
                (folder / name).write_bytes(content)

    def _gc_logs(self, node: Node) -> dict[str, str]:
        """Return the paths of the GC logs of a node's JVMs, by the names of their copies.

        `gc.log` is that of the present JVM, `gc-1.log` that of the first one that has ended.
        """
        if node.gc_log is None:
            return {}
        paths = {}
        for number, ended in enumerate(self.exits(node), start=1):
            path = Path(node.gc_log)
            # Our own broker moves the log of a JVM that has ended to `gc-<n>.log` beside it.
            earlier = path.with_name(path.name.replace("%p", str(ended["pid"])))
            if "%p" not in node.gc_log:
                earlier = path.with_name(f"{path.stem}-{number}{path.suffix}")
            paths[f"gc-{number}.log"] = str(earlier)
        if present := self.gc_log(node):
            paths["gc.log"] = present
        return paths

    def gc_log(self, node: Node) -> str | None:
        """Return the GC log of a node's present JVM, or None if it is not known."""
        if node.gc_log is None or "%p" not in node.gc_log:
            return node.gc_log
        jvm = self._agent.jvm(self._pids[node.node_id])
        return node.gc_log.replace("%p", str(jvm.pid_inside)) if jvm else None

    def has_gc_log(self, node: Node) -> bool:
        """Return whether the node's GC log is being written."""
        path = self.gc_log(node)
        return path is not None and self._agent.size(self._pids[node.node_id], path) > 0

    def mark_collections(self, node: Node, fault_id: str) -> None:
        """Remember where a node's GC log ends now, at the beginning of a fault.

        Raises:
            ClusterBroken: it has none that is known, so its pauses could not be witnessed.
        """
        path = self.gc_log(node)
        if path is None:
            raise ClusterBroken(
                f"Node {node.node_id} writes no GC log that is known, so pauses could not be "
                "witnessed: start its JVM with -Xlog:gc*:file=…, or label the service "
                "kafka-chaos.gc-log with the path."
            )
        size = self._agent.size(self._pids[node.node_id], path)
        self._marks[fault_id, node.node_id] = (path, size)

    def pauses_s(self, node_id: int, fault_id: str) -> list[float]:
        """Return the stop-the-world pauses logged since the mark of this fault, in seconds.

        Where nothing was marked there are none.
        """
        if (fault_id, node_id) not in self._marks:
            return []
        path, size = self._marks[fault_id, node_id]
        text = self._agent.read(self._pids[node_id], path, offset=size)
        return [float(match[1]) / 1000 for match in _PAUSE.finditer(text)]


def settings_in(log_text: str) -> dict[str, str]:
    """Return the last configuration in a broker's log; what is null there is left out.

    Brokers before 0.11 cannot describe their configuration, and write it when they start.
    """
    blocks = _SETTINGS.findall(log_text)
    pairs = (line.strip().partition(" = ") for line in (blocks[-1] if blocks else "").splitlines())
    return {key: value for key, _, value in pairs if value != "null"}
