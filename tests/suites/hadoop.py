"""A Hadoop of our own: HDFS and YARN as processes of this machine, from Maven Central's jars.

The servers have the version of the Hadoop client that PySpark brings, so its jars are most of their
classpath. Configuration and ports are a test's own; jars are fetched once, into the cache folder.
"""

import fcntl
import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyspark

from harness.core.cache import cache_folder
from harness.core.wait import wait_until
from harness.machine.install import install_packages
from tests.spark.judging import environment
from verifiers.spark.session import find_java

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_FETCH_S = 900
_START_S = 300
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafka-chaos</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{0}</dependencies></project>
"""
_DEPENDENCY = """<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId>
<version>{2}</version><exclusions>{3}</exclusions></dependency>"""
_EXCLUSION = """<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def hadoop_version() -> str:
    """Return the version of the Hadoop client that PySpark brings."""
    (jar,) = SPARK_JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def server_jars() -> Path:
    """Return the folder of the jars of HDFS and YARN, fetched if need be."""
    wanted = {
        "org.apache.hadoop:hadoop-client-minicluster": hadoop_version(),
        # The ResourceManager does not start without.
        "org.bouncycastle:bcpkix-jdk18on": "1.82",
    }
    ours = "hadoop-client-api,hadoop-client-runtime"
    return _jars(f"hadoop-{hadoop_version()}", wanted, f"-DexcludeArtifactIds={ours}")


def s3a_jars() -> Path:
    """Return the folder of the jars by which Spark reads s3a, fetched if need be."""
    # The bundle of the SDK is fifty times as large as what is used of it.
    wanted = {
        "org.apache.hadoop:hadoop-aws": hadoop_version(),
        "software.amazon.awssdk:s3": "2.35.4",
        "software.amazon.awssdk:s3-transfer-manager": "2.35.4",
    }
    there_already = (
        "io.netty,org.slf4j,org.apache.httpcomponents,org.wildfly.openssl,commons-codec,"
        "commons-logging"
    )
    return _jars(
        f"s3a-{hadoop_version()}",
        wanted,
        f"-DexcludeGroupIds={there_already}",
        without=("software.amazon.awssdk", "bundle"),
    )


def _jars(
    name: str, wanted: Mapping[str, str], *options: str, without: tuple[str, str] | None = None
) -> Path:
    folder = cache_folder() / "jars" / name
    folder.parent.mkdir(exist_ok=True)
    # Several test files may want them at the same time.
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        if shutil.which("mvn") is None:
            install_packages(["maven"], say=print)
        draft = folder.with_name(f"{name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        exclusion = _EXCLUSION.format(*without) if without else ""
        listed = "".join(
            _DEPENDENCY.format(*key.split(":"), version, exclusion)
            for key, version in wanted.items()
        )
        (draft / "pom.xml").write_text(_POM.format(listed))
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(draft / "pom.xml"), _COPY, f"-DoutputDirectory={draft}",
             *options],
            check=True, timeout=_FETCH_S,
        )  # fmt: skip
        draft.rename(folder)
    return folder


def free_ports(count: int) -> list[int]:
    """Return so many ports that nobody listens at now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass(frozen=True, kw_only=True)
class Hdfs:
    """A NameNode and two DataNodes; `yarn` starts a ResourceManager and a NodeManager beside them.

    Attributes:
        uri: of the root of the file system.
        conf: the folder of its configuration, for HADOOP_CONF_DIR.
        datanodes: their processes.
    """

    uri: str
    conf: Path
    datanodes: tuple[subprocess.Popen[bytes], ...]
    home: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of somebody who uses this Hadoop."""
        return environment(HADOOP_CONF_DIR=str(self.conf), **more)

    def report(self) -> str:
        """Return what the DataNodes are to the NameNode, as its own tool tells it."""
        return self.shell("org.apache.hadoop.hdfs.tools.DFSAdmin", "-report")

    def list(self, path: str) -> list[str]:
        """Return the paths of all files below a path, as Hadoop's own shell lists them."""
        listed = self.shell("org.apache.hadoop.fs.FsShell", "-ls", "-R", path)
        rows = [line.split(maxsplit=7) for line in listed.splitlines()]
        return [row[7] for row in rows if len(row) == 8 and not row[0].startswith("d")]

    def shell(self, *command: str) -> str:
        """Run one of Hadoop's own programs and return what it prints."""
        return subprocess.run(
            [*_java(self.conf), *command], env=self.environment(),
            check=True, capture_output=True, text=True, timeout=120,
        ).stdout  # fmt: skip


def _java(conf: Path) -> list[str]:
    classpath = f"{conf}:{server_jars()}/*:{SPARK_JARS}/*"
    return [str(find_java()), *_JVM, "-cp", classpath]


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write a file of Hadoop's settings."""
    listed = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    )
    file.write_text(f"<configuration>\n{listed}</configuration>\n")


@contextmanager
def started(home: Path, conf: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server as long as it is needed; its log is `<name>.log` in `home`."""
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([*_java(conf), *command], cwd=home, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


@contextmanager
def hdfs(home: Path) -> Iterator[Hdfs]:
    """Give an HDFS with two DataNodes, each file on both of them."""
    conf = home / "conf"
    conf.mkdir(parents=True)
    port, http = free_ports(2)
    uri = f"hdfs://127.0.0.1:{port}"
    tmp = {"hadoop.tmp.dir": str(home / "tmp")}
    write_settings(conf / "core-site.xml", {"fs.defaultFS": uri, **tmp})
    settings = {
        "dfs.namenode.name.dir": (home / "name").as_uri(),
        "dfs.namenode.http-address": f"127.0.0.1:{http}",
        **{f"dfs.datanode.{part}address": "127.0.0.1:0" for part in ("", "http.", "ipc.")},
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.safemode.extension": "0",
        "dfs.permissions.enabled": "false",
        "dfs.replication": "2",
    }
    write_settings(conf / "hdfs-site.xml", settings)
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n\n"
    )
    subprocess.run(
        [*_java(conf), _NAMENODE, "-format", "-force", "-nonInteractive"],
        cwd=home, check=True, capture_output=True, timeout=_START_S,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(started(home, conf, "namenode", _NAMENODE))
        datanodes = tuple(
            stack.enter_context(
                started(
                    home, conf, f"datanode-{number}", _DATANODE,
                    f"-Ddfs.datanode.data.dir={(home / f'data-{number}').as_uri()}",
                )
            )
            for number in (1, 2)
        )  # fmt: skip
        beans = f"http://127.0.0.1:{http}/jmx?qry=Hadoop:service=NameNode,name="

        def is_up() -> bool:
            state, info = _json(f"{beans}FSNamesystemState"), _json(f"{beans}NameNodeInfo")
            (nodes,), (mode,) = state.get("beans") or [{}], info.get("beans") or [{}]
            return bool(nodes.get("NumLiveDataNodes") == 2 and mode.get("Safemode") == "")

        wait_until(is_up, timeout_s=_START_S, what="two DataNodes that the NameNode counts")
        yield Hdfs(uri=uri, conf=conf, datanodes=datanodes, home=home)


@contextmanager
def yarn(cluster: Hdfs) -> Iterator[None]:
    """Run a ResourceManager and a NodeManager as long as they are needed."""
    main, scheduler, tracker, admin, web = free_ports(5)
    settings = {
        "yarn.resourcemanager.address": f"127.0.0.1:{main}",
        "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{tracker}",
        "yarn.resourcemanager.admin.address": f"127.0.0.1:{admin}",
        "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
        **{f"yarn.nodemanager.{part}address": "127.0.0.1:0" for part in ("", "localizer.")},
        "yarn.nodemanager.webapp.address": "127.0.0.1:0",
        "yarn.nodemanager.local-dirs": str(cluster.home / "local"),
        "yarn.nodemanager.log-dirs": str(cluster.home / "logs"),
        "yarn.nodemanager.resource.memory-mb": "6144",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.scheduler.minimum-allocation-mb": "256",
    }
    write_settings(cluster.conf / "yarn-site.xml", settings)
    queue = "yarn.scheduler.capacity.root"
    queues = {
        f"{queue}.queues": "default",
        f"{queue}.default.capacity": "100",
        f"{queue}.default.maximum-am-resource-percent": "0.9",
    }
    write_settings(cluster.conf / "capacity-scheduler.xml", queues)
    with (
        started(cluster.home, cluster.conf, "resourcemanager", _manager("Resource")),
        started(cluster.home, cluster.conf, "nodemanager", _manager("Node")),
    ):
        metrics = f"http://127.0.0.1:{web}/ws/v1/cluster/metrics"

        def is_up() -> bool:
            told = _json(metrics).get("clusterMetrics") or {}
            return bool(told.get("activeNodes") == 1)

        wait_until(is_up, timeout_s=_START_S, what="a NodeManager that the ResourceManager counts")
        yield


def _manager(kind: str) -> str:
    return f"org.apache.hadoop.yarn.server.{kind.lower()}manager.{kind}Manager"


def _json(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (a server of ours)
            return dict(json.load(answer))
    except (OSError, ValueError):
        return {}
