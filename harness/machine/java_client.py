"""Kafka's Java client of any version, made to speak docs/client-protocol.md: fetched once.

Its jars are those of the broker image of that version, and our part is compiled against them in
the fault-agent image, which has a compiler.
"""

import shutil
from pathlib import Path

from harness.core.cache import cache_folder
from harness.core.progress import Say
from harness.machine.build_lock import build_lock
from harness.machine.images import compose_folder, ensure_agent_image, ensure_broker_image
from harness.machine.programs import run_checked, run_logged

_SOURCE = "KafkaChaosClient.java"
_LIMIT_S = 600.0
_CLASS = "KafkaChaosClient"
_FLAGS = (
    # Room for all that is under way (workloads.foreign_client), in base64, beside what Kafka's
    # producer has buffered of it.
    "-Xmx256m",
    # Only the thread that has no memory would end: the client would never answer again.
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
)


def java_command(version: str, *, say: Say) -> tuple[str, ...]:
    """Return the command that starts a Java client, made if it is missing.

    Args:
        version: of Kafka.
        say: is told what is being made, and how far that is.

    Raises:
        UsageError: there is no such version.
        EnvironmentBroken: it could not be made; the message names the log.
    """
    source = compose_folder() / "clients" / "java" / _SOURCE
    folder = cache_folder() / "clients" / f"java-{version}"
    if not _is_made(folder, source):
        image = ensure_broker_image(version, say=say)
        agent = ensure_agent_image(say=say)
        with build_lock(folder.name, what=f"the client java:{version}", limit_s=2 * _LIMIT_S):
            if not _is_made(folder, source):
                _make(folder, source, image=image, compiler=agent, say=say)
    classpath = f"{folder / 'classes'}:{folder / 'libs'}/*"
    return ("java", *_FLAGS, "-cp", classpath, _CLASS)


def _is_made(folder: Path, source: Path) -> bool:
    made = folder / _SOURCE
    return made.is_file() and made.read_bytes() == source.read_bytes()


def _make(folder: Path, source: Path, *, image: str, compiler: str, say: Say) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "classes").mkdir(parents=True)
    container = run_checked(["docker", "create", image], timeout_s=60, purpose="open the image")
    try:
        run_checked(
            ["docker", "cp", f"{container}:/opt/kafka/libs", str(folder / "libs")],
            timeout_s=_LIMIT_S,
            purpose="take the jars out of the image",
        )
    finally:
        run_checked(["docker", "rm", container], timeout_s=60, purpose="remove the container")
    shutil.copy(source, folder / "classes" / _SOURCE)
    run_logged(
        [
            *("docker", "run", "--rm", "--volume", f"{folder}:/made", "--entrypoint", "javac"),
            *(compiler, "--release", "8", "-Xlint:none", "-cp", "/made/libs/*"),
            *("-d", "/made/classes", f"/made/classes/{_SOURCE}"),
        ],
        log=cache_folder() / f"build-{folder.name}.log",
        timeout_s=_LIMIT_S,
        what=f"the client {folder.name}",
        say=say,
    )
    # The mark of a whole folder.
    shutil.copy(source, folder / _SOURCE)
