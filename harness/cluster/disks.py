"""The replicas as they lie on the brokers' disks, copied into the folder of a run.

Copied are the log segments of the test topics and the checkpoints that say what a broker makes of
them; never the index files, which are preallocated and can be made again. The copy streams out of
the fault agent's container, which sees every node's files through the kernel, so the container of
a dead broker serves as well as that of a living one.
"""

import logging
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tenacity import before_sleep_log, retry, retry_if_exception_type, stop_after_attempt

from harness.cluster.agent import Agent
from harness.core.errors import KafkaChaosError
from harness.core.run_dir import (
    REPLICA_EPOCHS,
    REPLICA_LIMIT_BYTES,
    REPLICAS_MANIFEST,
    SCHEMA,
    canonical_json,
    write_atomically,
)
from harness.machine.engine import ENGINE_ERRORS

log = logging.getLogger(__name__)

CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
)

_METADATA = "__cluster_metadata-0"
_TRANSACTIONS = "__transaction_state-"
_ATTEMPTS = 3
_SEGMENT = re.compile(r"\d{20}\.log")
# The word at the end tells a list from the beginning of one: a busy engine may cut output short.
_LIST = (
    'cd "$0" && find . -maxdepth 2 -type f '
    "\\( -name '*.log' -o -name '*-checkpoint' -o -name meta.properties \\) "
    "-printf '%s %b %P\\n' && echo listed"
)
# Tar ends in 1 if a file grew while it was read; what was read is a beginning of it all the same.
_TAR = ("tar", "--create", "--sparse", "--format=gnu", "--directory")
_TAR_MAY_END_IN = frozenset({0, 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One broker's disk.

    Attributes:
        node_id: the broker.
        service: its name in the Compose file, and of its folder below `cluster/`.
        container_pid: first process of its container.
        log_dirs: the folders of its logs, as it sees them; empty if they are not known.
    """

    node_id: int
    service: str
    container_pid: int
    log_dirs: tuple[str, ...]


class _Incomplete(Exception):
    """The engine lost a part of what was to be copied."""


_again = retry(
    retry=retry_if_exception_type(_Incomplete),
    stop=stop_after_attempt(_ATTEMPTS),
    before_sleep=before_sleep_log(log, logging.WARNING),
    reraise=True,
)


def copy_replicas(
    agent: Agent,
    sources: Sequence[Source],
    topics: Mapping[str, int],
    folder: Path,
    *,
    limit_bytes: int = REPLICA_LIMIT_BYTES,
    transactions: Mapping[str, Any] | None = None,
) -> None:
    """Copy the replicas of some topics to `folder/<service>/data/`, and write the manifest.

    Never raises because of what it copies: what could not be had stands in the manifest, in
    words, and the verifier draws its conclusion.

    Args:
        agent: of the cluster.
        sources: all brokers.
        topics: how many partitions each topic has.
        folder: `cluster/` of the run.
        limit_bytes: beyond so many bytes in all, nothing is copied.
        transactions: what `copy_transactions` returned; it goes into the manifest.
    """
    begin_ns = time.monotonic_ns()
    wanted = {f"{topic}-{p}" for topic, partitions in topics.items() for p in range(partitions)}
    listed: dict[int, list[tuple[str, dict[str, int]]]] = {}
    failed: dict[int, str] = {}
    for source in sources:
        try:
            listed[source.node_id] = [
                (log_dir, _list(agent, source, log_dir, _of_logs(wanted)))
                for log_dir in _known_dirs(source)
            ]
        except (*_FAILURES, _Incomplete) as error:
            failed[source.node_id] = _why(error)
    total_bytes = sum(
        size for disks in listed.values() for _, sizes in disks for size in sizes.values()
    )
    reasons = []
    if total_bytes > limit_bytes:
        reasons.append(
            f"The replicas were not copied: they take {total_bytes / 1024**2:,.0f} MiB, and the "
            f"limit is {limit_bytes / 1024**2:,.0f} MiB; raise --replica-limit-mib."
        )
    brokers: dict[str, Any] = {}
    for source in sources:
        why = failed.get(source.node_id)
        if why is None and not reasons:
            why = _copy_all(agent, source, listed[source.node_id], folder / source.service)
        paths = [path for _, sizes in listed.get(source.node_id, ()) for path in sizes]
        logs = {str(PurePosixPath(path).parent) for path in paths} & wanted
        brokers[str(source.node_id)] = {
            "service": source.service,
            "copied": why is None and not reasons,
            "why": why,
            "partitions": sorted(logs),
        }
    document = {
        "schema": SCHEMA,
        "reasons": reasons,
        "brokers": brokers,
        "bytes": total_bytes,
        "from_ns": begin_ns,
        "to_ns": time.monotonic_ns(),
        "transactions": transactions,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / REPLICAS_MANIFEST, canonical_json(document))


def copy_transactions(agent: Agent, sources: Sequence[Source], folder: Path) -> dict[str, Any]:
    """Copy what the transaction coordinators know to `folder/<service>/transactions/`.

    Never raises because of what it copies.

    Args:
        agent: of the cluster.
        sources: all brokers.
        folder: `cluster/` of the run.

    Returns:
        For the manifest: `asked_ns`, when it was begun; `why`, in words, if anything is missing.
    """
    asked_ns, why = time.monotonic_ns(), []
    for source in sources:
        try:
            for number, log_dir in enumerate(_known_dirs(source), start=1):
                sizes = _list(agent, source, log_dir, _of_coordinators)
                logs = [path for path, occupied_bytes in sizes.items() if occupied_bytes]
                name = "transactions" if number == 1 else f"transactions-{number}"
                if logs:
                    _copy(agent, _root(source, log_dir), logs, folder / source.service / name)
        except (*_FAILURES, _Incomplete) as error:
            why.append(f"{source.service}: {_why(error)}")
    return {"asked_ns": asked_ns, "why": "; ".join(why) or None}


def _of_coordinators(path: PurePosixPath) -> bool:
    return path.parts[0].startswith(_TRANSACTIONS) and _SEGMENT.fullmatch(path.name) is not None


def copy_metadata(agent: Agent, sources: Sequence[Source], folder: Path) -> None:
    """Copy the log of a KRaft cluster's metadata to `folder/<service>/metadata/`.

    What cannot be had is left out with a warning: any other voter's serves as well.

    Args:
        agent: of the cluster.
        sources: all its nodes.
        folder: `cluster/` of the run.
    """
    metadata = _of_logs([_METADATA])
    for source in sources:
        try:
            for log_dir in _known_dirs(source):
                paths = _list(agent, source, log_dir, metadata)
                logs = [path for path in paths if PurePosixPath(path).suffix == ".log"]
                if logs:
                    target = folder / source.service / "metadata"
                    _copy(agent, _root(source, log_dir), logs, target)
                    break
        except (*_FAILURES, _Incomplete) as error:
            log.warning("The metadata log of %s is not kept: %s", source.service, _why(error))


_FAILURES = (KafkaChaosError, OSError, tarfile.TarError, *ENGINE_ERRORS)


def _known_dirs(source: Source) -> tuple[str, ...]:
    if not source.log_dirs:
        raise _Incomplete("where its logs lie is not known: label its service kafka-chaos.data-dir")
    return source.log_dirs


def _root(source: Source, log_dir: str) -> str:
    return f"/proc/{source.container_pid}/root{log_dir}"


@_again
def _list(
    agent: Agent, source: Source, log_dir: str, is_wanted: Callable[[PurePosixPath], bool]
) -> dict[str, int]:
    """Return the bytes that the wanted files of a log directory take, by their paths."""
    command = ["sh", "-c", _LIST, _root(source, log_dir)]
    lines = b"".join(agent.stream(command)).decode(errors="replace").splitlines()
    if not lines or lines[-1] != "listed":
        raise _Incomplete("the engine lost the list of its files")
    sizes = {}
    for line in lines[:-1]:
        size, blocks, path = line.split(" ", 2)
        if is_wanted(PurePosixPath(path)):
            # What was preallocated and never written takes no room, here as there.
            sizes[path] = min(int(size), int(blocks) * 512)
    return sizes


def _of_logs(names: Collection[str]) -> Callable[[PurePosixPath], bool]:
    """Return a test for the segments and epochs of some logs, and for the checkpoints."""

    def is_wanted(path: PurePosixPath) -> bool:
        if len(path.parts) == 1:
            return path.name in CHECKPOINTS
        is_replica = _SEGMENT.fullmatch(path.name) is not None or path.name == REPLICA_EPOCHS
        return path.parts[0] in names and is_replica

    return is_wanted


def _copy_all(
    agent: Agent, source: Source, disks: Sequence[tuple[str, Mapping[str, int]]], folder: Path
) -> str | None:
    """Copy one broker's files; return why it could not be done, or None."""
    try:
        for number, (log_dir, sizes) in enumerate(disks, start=1):
            target = folder / ("data" if number == 1 else f"data-{number}")
            _copy(agent, _root(source, log_dir), list(sizes), target)
    except (*_FAILURES, _Incomplete) as error:
        return _why(error)
    return None


@_again
def _copy(agent: Agent, root: str, paths: Sequence[str], target: Path) -> None:
    draft = target.with_name(target.name + ".draft")
    draft.mkdir(parents=True)
    try:
        try:
            if paths:
                parts = agent.stream([*_TAR, root, "--", *paths], may_end_in=_TAR_MAY_END_IN)
                _unpack(parts, draft, frozenset(paths))
            missing = [path for path in paths if not (draft / path).is_file()]
        except tarfile.TarError:
            missing = list(paths)
        if missing:
            raise _Incomplete(
                f"{len(missing)} of {len(paths)} files got lost on the way, {missing[0]} first"
            )
        shutil.rmtree(target, ignore_errors=True)
        draft.replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _unpack(parts: Iterator[bytes], target: Path, wanted: frozenset[str]) -> None:
    """Write the files that were asked for, and nothing else that a container may send."""
    stream = _Stream(parts)
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.name in wanted else None
            if content is None:
                continue
            path = target / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
    # The padding behind the end mark: only after it does the program tell how it ended.
    while stream.read(65536):
        pass


class _Stream:
    """Pieces of bytes, read as one file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = b""

    def read(self, size: int) -> bytes:
        pieces, have = [self._left], len(self._left)
        while have < size:
            part = next(self._parts, None)
            if part is None:
                break
            pieces.append(part)
            have += len(part)
        content = b"".join(pieces)
        self._left = content[size:]
        return content[:size]


def _why(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].rstrip(".")
