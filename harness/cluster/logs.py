"""What a cluster's nodes write: their logs, and the pauses that a JVM notes in its GC log."""

import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.agent import Agent
from harness.cluster.topology import Node
from harness.core.errors import ClusterBroken
from harness.core.run_dir import canonical_json, write_atomically

log = logging.getLogger(__name__)

_SETTINGS = re.compile(r"KafkaConfig values: ?\n((?:\t.*\n)+)")
_PAUSE = re.compile(rb"\] *GC\(\d+\) Pause .*?(\d+\.\d+)ms")


class ClusterLogs:
    """Reads the nodes' files through the fault agent.

    Args:
        agent: of the cluster.
        pids: first process of each node's container, by node id.
        folder: of the run; logs go to `cluster/<service>/` in it.
    """

    def __init__(self, agent: Agent, pids: Mapping[int, int], folder: Path) -> None:
        self._agent = agent
        self._pids = pids
        self._folder = folder
        # Which file, and where it ended, when a fault began; by fault and node.
        self._marks: dict[tuple[str, int], tuple[str, int]] = {}

    def keep_settings(self, node: Node, settings: Mapping[str, str]) -> None:
        """Write a broker's effective configuration into the run folder."""
        folder = self._folder / "cluster" / node.service
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "effective.json", canonical_json(dict(settings)))

    def move_to(self, folder: Path) -> None:
        """Write into another run's folder from now on, which gets the effective configurations."""
        for file in sorted((self._folder / "cluster").glob("*/effective.json")):
            target = folder / "cluster" / file.parent.name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / file.name)
        self._folder = folder
        self._marks.clear()

    def logged_settings(self, node: Node) -> dict[str, str]:
        """Return the configuration that a broker wrote into its log when it started.

        This is how brokers before 0.11 are asked, which cannot describe their configuration.
        """
        if node.server_log is None:
            return {}
        text, _ = self._agent.read(self._pids[node.node_id], node.server_log)
        return settings_in(text.decode(errors="replace"))

    def save(self, node: Node, words: bytes, folder: Path) -> None:
        """Copy a node's logs into `folder/<service>/`.

        What cannot be had is left out with a warning: logs are for people, verdicts do not
        depend on them.

        Args:
            node: whose.
            words: what its container has said, for a node without a log file.
            folder: where to.
        """
        target = folder / node.service
        target.mkdir(parents=True, exist_ok=True)
        if node.properties:
            (target / "server.properties").write_text(node.properties, encoding="utf-8")
        if node.server_log is None:
            (target / "server.log").write_bytes(words)
        try:
            for name, path in (("server.log", node.server_log), ("gc.log", self.gc_log(node))):
                if path is not None:
                    content, _ = self._agent.read(self._pids[node.node_id], path)
                    (target / name).write_bytes(content)
        except (KeyError, ClusterBroken) as error:
            log.warning("Not all logs of %s could be kept: %s", node.service, error)

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

        Raises:
            ClusterBroken: nothing was marked.
        """
        if (fault_id, node_id) not in self._marks:
            raise ClusterBroken("No garbage collection was begun under this lease.")
        path, size = self._marks[fault_id, node_id]
        text, _ = self._agent.read(self._pids[node_id], path, offset=size)
        return [float(match[1]) / 1000 for match in _PAUSE.finditer(text)]


def settings_in(log_text: str) -> dict[str, str]:
    """Return the last configuration in a broker's log; what is null there is left out."""
    found = _SETTINGS.findall(log_text)
    pairs = (line.strip().partition(" = ") for line in (found[-1] if found else "").splitlines())
    return {key: value for key, _, value in pairs if value != "null"}
