"""The packages of other client libraries, each in a folder of its own, fetched once.

A folder holds confluent-kafka of one version for one version of Python, as the package index has
it. Client processes that find the folder first on their path run that librdkafka; the harness
itself keeps its own.
"""

import functools
import re
import shutil
import sys
from pathlib import Path

from harness.core.cache import cache_folder
from harness.core.client_library import ClientLibrary, ClientRuntime
from harness.core.errors import EnvironmentBroken, UsageError
from harness.core.progress import Say
from harness.machine.build_lock import build_lock
from harness.machine.images import reject_unknown_kafka
from harness.machine.java_client import java_command
from harness.machine.programs import run_checked, run_logged

_PACKAGE = "confluent-kafka"
_INDEX_S = 120
_INSTALL_S = 600
# What needs a compiler, and librdkafka's headers, cannot be had here.
_WHEELS_ONLY = "--only-binary=:all:"


def package_folder(library: ClientLibrary) -> Path:
    """Return the folder of a library for this Python, whether or not it exists yet."""
    name = f"{str(library).replace(':', '-')}-{sys.implementation.cache_tag}"
    return cache_folder() / "clients" / name


def reject_unknown_client(library: ClientLibrary, *, say: Say) -> None:
    """Refuse a version that the package index does not have; one that was fetched is known.

    Args:
        library: what was asked for.
        say: is told if the index has to be asked.

    Raises:
        UsageError: there is no such version for this Python; the message lists those there are.
        EnvironmentBroken: the index did not answer.
    """
    if library.kind == "java":
        reject_unknown_kafka(library.version, say=say)
        return
    if library.kind == "command":
        if shutil.which(library.words[0]) is None:
            raise UsageError(
                f"The client command {library.command!r} cannot be started: there is no program "
                f"{library.words[0]}."
            )
        return
    if package_folder(library).is_dir():
        return
    versions = published_versions(say)
    if library.version not in versions:
        python = ".".join(map(str, sys.version_info[:2]))
        raise UsageError(
            f"The package index has no {_PACKAGE} {library.version} for Python {python}, so the "
            f"client {library} cannot be had. There are: {', '.join(versions)}."
        )


def ensure_client(library: ClientLibrary, *, say: Say) -> ClientRuntime:
    """Return what client processes need to run a library; what is missing is fetched.

    Raises:
        UsageError: there is no such version; the message lists those there are.
        EnvironmentBroken: it could not be fetched; the message names the log.
    """
    match library.kind:
        case "java":
            return ClientRuntime(command=java_command(library.version, say=say))
        case "command":
            return ClientRuntime(command=tuple(library.words))
        case "librdkafka":
            return ClientRuntime(packages=ensure_client_package(library, say=say))


def ensure_client_package(library: ClientLibrary, *, say: Say) -> Path:
    """Return the folder of a library, fetched if it is missing.

    Args:
        library: which.
        say: is told what is being fetched, and how far that is.

    Raises:
        UsageError: there is no such version; the message lists those there are.
        EnvironmentBroken: it could not be fetched; the message names the log.
    """
    folder = package_folder(library)
    if folder.is_dir():
        return folder
    reject_unknown_client(library, say=say)
    what = f"the client {library}"
    with build_lock(folder.name, what=what, limit_s=2 * _INSTALL_S):
        if folder.is_dir():
            return folder
        folder.parent.mkdir(exist_ok=True)
        draft = folder.with_name(folder.name + ".draft")
        # A process that was killed may have left a part of it.
        shutil.rmtree(draft, ignore_errors=True)
        run_logged(
            [*_pip("install"), "--no-deps", _WHEELS_ONLY, "--target", str(draft),
             f"{_PACKAGE}=={library.version}"],
            log=cache_folder() / f"build-{folder.name}.log",
            timeout_s=_INSTALL_S,
            what=what,
            say=say,
        )  # fmt: skip
        draft.rename(folder)
    return folder


@functools.cache
def published_versions(say: Say) -> tuple[str, ...]:
    """Return the versions of confluent-kafka for this Python, the newest first.

    The index is asked once a process.

    Raises:
        EnvironmentBroken: it did not answer, or this Python has no pip.
    """
    say(f"Asking the package index which versions of {_PACKAGE} there are (at most {_INDEX_S} s).")
    text = run_checked(
        [*_pip("index"), "versions", _WHEELS_ONLY, _PACKAGE],
        timeout_s=_INDEX_S,
        purpose=(
            f"ask the package index for the versions of {_PACKAGE}; check the network and its "
            "proxy, and that this Python has pip (`python -m ensurepip`)"
        ),
    )
    listed = re.search(r"^Available versions: (.*)$", text, re.MULTILINE)
    if listed is None:
        raise EnvironmentBroken(
            f"pip lists no version of {_PACKAGE}, but said {text[:200]!r}: update it with "
            "`python -m pip install --upgrade pip`."
        )
    return tuple(version.strip() for version in listed[1].split(","))


def _pip(command: str) -> list[str]:
    return [sys.executable, "-m", "pip", command, "--disable-pip-version-check", "--no-input"]
