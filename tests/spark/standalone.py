"""A Spark cluster of our own: a master and two workers, as processes of this machine."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from harness.core.wait import wait_until
from verifiers.spark.session import find_java

_START_S = 300


class Node:
    """A master or a worker, in a process of its own that knows nothing of our packages."""

    def __init__(self, home: Path, name: str, *arguments: str) -> None:
        self._log = home / f"{name}.log"
        spark = Path(pyspark.__file__).parent
        environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(find_java().parents[1]),
            "SPARK_HOME": str(spark),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                cwd=home, env=environment, stdout=log, stderr=log,
            )  # fmt: skip

    def await_words(self, words: str) -> re.Match[str]:
        """Wait until it has said what the pattern matches."""

        def said() -> re.Match[str] | None:
            assert self._process.poll() is None, self._log.read_text()
            return re.search(words, self._log.read_text())

        return wait_until(said, timeout_s=_START_S, what=f"{self._log.stem} to say {words!r}")

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)


@contextmanager
def standalone(home: Path) -> Iterator[str]:
    """Give the address of a cluster, as long as it is needed."""
    nodes = []
    try:
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        # It takes a port that is free, and says which: one that we found free may be taken by then.
        nodes.append(Node(home, "master.Master", *at, "--port", "0"))
        address = nodes[0].await_words(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s")[1]
        nodes[0].await_words("I have been elected leader")
        for number in (1, 2):
            place = home / f"worker-{number}"
            place.mkdir()
            size = ("--cores", "1", "--memory", "700m", "--work-dir", str(place))
            nodes.append(Node(place, "worker.Worker", *at, *size, address))
        for worker in nodes[1:]:
            worker.await_words("Successfully registered with master")
        yield address
    finally:
        for node in reversed(nodes):
            node.end()
