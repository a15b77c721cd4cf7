"""The Spark session: tuned for one machine, or with a cluster's own settings.

Half of the time of a short verification goes into loading ten thousand classes into Spark's JVM.
`verifiers.judging.warm_up` makes an archive of them in the cache folder, which every later JVM on
this machine maps.
"""

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JVMView
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken, SparkEnded
from verifiers.spark import storage
from verifiers.spark.errors import first_line
from verifiers.spark.hadoop import hadoop_files

_LOG = logging.getLogger(__name__)

LOCAL_MASTER = "local[*]"
HEAP_MIB = 2048
"""Heap of the local JVM, MiB; it is driver and executor in one."""
TINY_ROWS = 10_000
"""Compiling the plans for a shorter history takes longer than interpreting them."""
FEW_ROWS = 1_000_000
"""A shorter history is not divided."""
MANY_ROWS = 50_000_000
"""Reading a shorter history takes less time than adapting a plan to it."""
OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_USUAL_PLACES = ("/usr/lib/jvm/default-java", "/usr/lib/jvm/java-21-openjdk-amd64",
                 "/usr/lib/jvm/java-17-openjdk-amd64")  # fmt: skip


def open_session(
    master: str | None = None, *, heap_mib: int = HEAP_MIB, archive_to: Path | None = None
) -> SparkSession:
    """Return a session whose time zone is UTC, starting a JVM if this process has none.

    Args:
        master: any Spark master; None is all cores of this machine. Settings of a master other
            than a local one are left to its own configuration.
        heap_mib: heap of a local JVM, MiB.
        archive_to: a local JVM writes a class archive to this file when it ends; None lets it use
            the archive there is.

    Raises:
        EnvironmentBroken: there is no Java of version 17 or later, or Spark did not start.
    """
    wanted = master or LOCAL_MASTER
    active = SparkSession.getActiveSession()
    if active is not None and active.sparkContext.master == wanted:
        return active
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    # Unless this is set, workers use the first `python3` on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers on this machine import our packages even if they are not installed.
    ours = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([ours, *filter(None, known)]))
    if wanted.startswith("local"):
        # Spark resolves this machine's name and fails if it does not resolve.
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    archive = [f'"-XX:ArchiveClassesAtExit={archive_to}"'] if archive_to else use_of_archive(java)
    conf = _configuration(wanted, heap_mib, archive)
    # The JVM inherits the file and may go on writing to it; it is read only if the start fails.
    with tempfile.NamedTemporaryFile(prefix="kafka-chaos-spark-", suffix=".log") as log:
        try:
            # If a master never answers, the context starts and is stopped a minute later.
            session = SparkSession(_start(conf, log))
        except Exception as error:
            why = _last_words(log) or first_line(error)
            raise EnvironmentBroken(
                f"Spark did not start with master {wanted} ({why}): is that master running, and "
                "does it take applications? Without --master this machine alone is used."
            ) from error
    jvm: Any = session.sparkContext._jvm
    if type(jvm) is JVMView:
        jvm.__class__ = _KnownClasses
    if not wanted.startswith("local"):
        ship(session.sparkContext)
    storage.open_others_by(lambda scheme, authority: hadoop_files(session, scheme, authority))
    _LOG.debug("spark %s at %s", session.version, wanted)
    return session


def archive_of(java: Path) -> Path:
    """Return the path of the class archive for this Java and our PySpark, if it exists or not.

    Each version and each folder of Spark and Java has one of its own, because a JVM takes only one
    that fits; if it does not fit, the JVM goes on without it.
    """
    home = java.resolve().parent.parent
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        release = ""
    facts = "\n".join([pyspark.__version__, pyspark.__file__, str(home), release])
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return cache_folder() / f"spark-{pyspark.__version__}-{digest}.jsa"


def use_of_archive(java: Path) -> list[str]:
    """Return the JVM's options for using the archive; none if there is no archive."""
    archive = archive_of(java)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []


class _KnownClasses(JVMView):  # type: ignore[misc]  # its base has no types
    """A view of the JVM in which a class, and each of its static methods, is looked up once.

    py4j asks the JVM for a class and for its method whenever our code names them. For a name that
    is not qualified, as PySpark's `functions`, the JVM then searches all its jars for classes that
    are not there. The plans of a short verification name some 2,400 of them: that took a third of
    its time.
    """

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever Java has)
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found = _KnownClass(found._fqn, found._gateway_client)
            self.__dict__[name] = found
        return found


class _KnownClass(JavaClass):  # type: ignore[misc]  # its base has no types
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the class has)
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def ship(context: SparkContext) -> None:
    """Send our packages to the workers of a cluster, once an application.

    Where the workers have our packages installed, the sent ones come first, so that driver and
    workers always have the same version. Libraries cannot be sent: workers need numpy, pyarrow,
    crc32c and scipy, and the Python of the driver's minor version.

    Args:
        context: of the application; the archive lies in its own temporary folder.
    """
    folder = context._temp_dir
    if folder is None or (archive := Path(folder) / "kafka-chaos.zip").exists():
        return
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        for package in ("verifiers", "harness"):
            for module in sorted((root / package).rglob("*.py")):
                content.write(module, module.relative_to(root))
    context.addPyFile(str(archive))


def is_local(session: SparkSession) -> bool:
    """Tell whether all tasks of a session run on this machine, and see its disks."""
    return str(session.sparkContext.master).startswith("local")


@contextmanager
def in_service(session: SparkSession) -> Iterator[None]:
    """Raise EnvironmentBroken if the session ended, instead of the error that this caused.

    A master that never answered looks the same: Spark starts, tries for a minute, and gives up.

    Raises:
        EnvironmentBroken: the master went away while it was needed.
        SparkEnded: so did the JVM of a local session.
    """
    master = session.sparkContext.master

    def has_ended() -> bool:
        java = session.sparkContext._jsc
        try:
            return java is None or bool(java.sc().isStopped())
        except (OSError, Py4JError):
            # The JVM itself does not answer.
            return True

    def gone() -> EnvironmentBroken:
        if is_local(session):
            return SparkEnded(
                f"The JVM of Spark ended while a run was verified ({_exit_status()}), for want of "
                "memory perhaps: verify the run again."
            )
        return EnvironmentBroken(
            f"The Spark master {master} cannot be reached, or went away: is it running, and does "
            "it take this application? Without --master the verifier runs on this machine alone."
        )

    try:
        yield
    except Exception as error:
        if has_ended():
            raise gone() from error
        raise
    if has_ended():
        raise gone()


def _exit_status() -> str:
    gateway = SparkContext._gateway
    status = None if gateway is None else gateway.proc.poll()
    return "it still runs" if status is None else f"exit status {status}"


@contextmanager
def tuned(session: SparkSession, *, rows: int) -> Iterator[None]:
    """Tune a local session for so many rows; restore its settings afterwards."""
    wanted: dict[str, str] = {}
    if is_local(session) and rows < MANY_ROWS:
        parts = 1 if rows < FEW_ROWS else session.sparkContext.defaultParallelism
        wanted = {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(parts),
        }
        if rows < FEW_ROWS:
            # Filters that follow from others spare a short history nothing.
            wanted["spark.sql.constraintPropagation.enabled"] = "false"
        if rows < TINY_ROWS:
            wanted["spark.sql.codegen.wholeStage"] = "false"
            wanted["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    before = {key: session.conf.get(key) for key in wanted}
    try:
        for key, value in wanted.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, known in before.items():
            if known is not None:
                session.conf.set(key, known)


def find_java() -> Path:
    """Return a Java executable of version 17 or later: JAVA_HOME's, the PATH's, or Debian's.

    Raises:
        EnvironmentBroken: there is none; the message says how to get one.
    """
    found: list[str] = []
    chosen, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java" for home in (chosen, *_USUAL_PLACES) if home]
    if on_path is not None:
        candidates.insert(1 if chosen else 0, Path(on_path).resolve())
    for candidate in candidates:
        version = _version_of(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
        if version is not None:
            found.append(f"{candidate} is version {version}")
    tried = "; ".join(found) or "no Java was found"
    raise EnvironmentBroken(
        f"The verifier needs Java {OLDEST_JAVA} or later, and {tried}: "
        "install a JRE (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
    )


def _version_of(java: Path) -> int | None:
    if not java.is_file():
        return None
    try:
        answer = subprocess.run(  # noqa: S603  (a path we found, and no input of anybody's)
            [str(java), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _configuration(master: str, heap_mib: int, archive: Sequence[str]) -> SparkConf:
    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName("kafka-chaos verify")
        .set("spark.sql.session.timeZone", "UTC")
        # Otherwise every column records where our code made it, by five calls to Java.
        .set("spark.python.sql.dataFrameDebugging.enabled", "false")
        # Nor is each plan written out in words.
        .set("spark.sql.maxPlanStringLength", "0")
        .set("spark.sql.ui.explainMode", "simple")
    )
    for key, value in _s3a_settings().items():
        conf.set(f"spark.hadoop.fs.s3a.{key}", value)
    if not master.startswith("local"):
        # A cluster keeps its other settings, as in spark-defaults.conf.
        return conf
    cores = os.cpu_count() or 1
    log4j = Path(__file__).with_name("log4j2.properties")
    options = [
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        *("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *archive),
    ]
    (
        conf.set("spark.sql.adaptive.enabled", "true")
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
        .set("spark.driver.memory", f"{heap_mib}m")
        .set("spark.driver.host", "127.0.0.1")
        .set("spark.driver.bindAddress", "127.0.0.1")
        .set("spark.sql.shuffle.partitions", str(2 * cores))
        .set("spark.default.parallelism", str(cores))
        .set("spark.shuffle.compress", "true")
        .set("spark.locality.wait", "0")
        # One verification compiles several hundred classes; the next one needs them again.
        .set("spark.sql.codegen.cache.maxEntries", "5000")
        .set("spark.cleaner.referenceTracking.blocking", "false")
        .set("spark.driver.extraJavaOptions", " ".join(options))
    )
    return conf


def _s3a_settings() -> dict[str, str]:
    """Return what Hadoop's client of S3 does not take from the variables that pyarrow's takes."""
    settings: dict[str, str] = {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["endpoint.region"] = region
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        # Only Amazon's own endpoint has a host name for each bucket.
        settings |= {"endpoint": endpoint, "path.style.access": "true"}
    return settings


def _start(conf: SparkConf, log: IO[bytes]) -> SparkContext:
    if SparkContext._gateway is not None or SparkContext._active_spark_context is not None:
        # This process has a JVM already and cannot start a second one.
        return SparkContext.getOrCreate(conf)
    # The JVM's messages (incubator modules, host names) go to a file: they matter only if the start
    # fails, and the console is for the verdict.
    gateway = launch_gateway(  # type: ignore[no-untyped-call]  # the library has no types
        conf, popen_kwargs={"stdout": log, "stderr": log}
    )
    return SparkContext(gateway=gateway, conf=conf)


def _last_words(log: IO[bytes]) -> str:
    try:
        lines = Path(log.name).read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    # That line names no cause; the exception in the next one does.
    lines = [line for line in lines if not line.endswith("Error initializing SparkContext.")]
    errors = [line for line in lines if "rror" in line or "xception" in line]
    return errors[0][:500] if errors else ""
