"""Cutting the ends of logs: what a power cut takes from a broker that had not flushed.

Only whole batches are cut, and nothing below the recovery point, which the broker wrote down as
flushed: below it lies corruption, and no power cut.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fault_agent import AgentError
from fault_agent.batches import Batch, batches

_LOG = re.compile(r"(.+)-(\d+)")
_METADATA = "__cluster_metadata"
"""The controllers' own log: KRaft flushes it before it answers."""
_CLEAN = ".kafka_cleanshutdown"
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What was cut from one log; offsets in records."""

    topic: str
    partition: int
    recovery_point: int
    end_before: int
    end_after: int
    bytes_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The folder of one partition."""

    folder: Path
    topic: str
    partition: int

    def segments(self) -> list[Path]:
        """Return the segments' files, oldest first; those that Kafka has given up are none."""
        return sorted(path for path in self.folder.glob("*.log") if path.stem.isdecimal())

    def size_bytes(self) -> int:
        """Return the bytes of all segments."""
        return sum(path.stat().st_size for path in self.segments())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A boundary between batches: where the log would end.

    Attributes:
        segment: index of the segment's file.
        position: bytes of it that stay.
        offset: the log end offset then.
    """

    segment: int
    position: int
    offset: int


def logs_in(log_dir: Path) -> Iterator[Log]:
    """Yield the partitions of a log directory, by name, without those being deleted or moved.

    Raises:
        AgentError: there is no such folder.
    """
    if not log_dir.is_dir():
        raise AgentError(f"There is no log directory {log_dir}.")
    for folder in sorted(log_dir.iterdir()):
        match = _LOG.fullmatch(folder.name)
        if match and match[1] != _METADATA and folder.is_dir():
            yield Log(folder=folder, topic=match[1], partition=int(match[2]))


def high_watermarks(log_dir: Path) -> dict[tuple[str, int], int]:
    """Return the high watermarks that a broker has checkpointed, by topic and partition.

    Raises:
        AgentError: the checkpoint cannot be understood.
    """
    return _partitions(log_dir / _HIGH_WATERMARKS)


def cut_tails(
    log_dirs: Sequence[Path],
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> list[Cut]:
    """Cut the wanted logs, and forget what stood in checkpoints and snapshots beyond the cuts.

    Everything is looked at before the first byte is cut, so a refusal leaves all as it was.

    Args:
        log_dirs: the log directories.
        topic: only this topic's logs; None for all.
        partition: only this one; None for all.
        offset: cut at the first boundary at or above it; None for the recovery point.

    Returns:
        One for each wanted log, those of which nothing was cut among them.

    Raises:
        AgentError: an offset below a recovery point, or a log that cannot be understood.
    """
    plans: list[tuple[Log, Cut, _Place]] = []
    for log_dir in log_dirs:
        flushed = _partitions(log_dir / _RECOVERY_POINTS)
        for log in logs_in(log_dir):
            is_wanted = topic in (None, log.topic) and partition in (None, log.partition)
            if is_wanted and log.segments():
                point = flushed.get((log.topic, log.partition), 0)
                plans.append((log, *_plan(log, point, offset)))
    for log_dir in log_dirs:
        # It would tell the broker that nothing has to be recovered.
        (log_dir / _CLEAN).unlink(missing_ok=True)
    for log, cut, place in plans:
        if cut.bytes_cut:
            _carry_out(log, place)
            _lower_high_watermark(log, place.offset)
    return [cut for _, cut, _ in plans]


def _plan(log: Log, recovery_point: int, offset: int | None) -> tuple[Cut, _Place]:
    segments = log.segments()
    start = int(segments[0].stem)
    if offset is not None and offset < recovery_point:
        raise AgentError(
            f"Offset {offset} of {log.folder.name} lies below the recovery point {recovery_point}: "
            "it was flushed, so cutting there would be corruption and no power cut."
        )
    bound = max(start, recovery_point if offset is None else offset)
    here: _Place | None = None
    end = start
    for place in _boundaries(segments, bound):
        end = place.offset
        if here is None and place.offset >= bound:
            here = place
    if here is None:
        here = _Place(segment=len(segments) - 1, position=segments[-1].stat().st_size, offset=end)
    sizes = [path.stat().st_size for path in segments]
    cut = Cut(
        topic=log.topic,
        partition=log.partition,
        recovery_point=recovery_point,
        end_before=end,
        end_after=here.offset,
        bytes_cut=sizes[here.segment] - here.position + sum(sizes[here.segment + 1 :]),
    )
    return cut, here


def _boundaries(segments: Sequence[Path], bound: int) -> Iterator[_Place]:
    """Yield where the log could end, in order, from the beginning of the bound's segment on."""
    first = max((n for n, path in enumerate(segments) if int(path.stem) <= bound), default=0)
    yield _Place(segment=first, position=0, offset=int(segments[first].stem))
    # The end of one segment and the beginning of the next are one place: only the end is told, so
    # that a segment begun after the cut does not stay behind empty.
    for number in range(first, len(segments)):
        for batch in _read(segments[number]):
            yield _Place(segment=number, position=batch.end, offset=batch.last_offset + 1)


def _read(path: Path) -> Iterator[Batch]:
    with path.open("rb") as file:
        yield from batches(file, path.stat().st_size, path.name)


def _carry_out(log: Log, place: _Place) -> None:
    segments = log.segments()
    for path in segments[place.segment + 1 :]:
        _remove_indexes(path)
        path.unlink()
    kept = segments[place.segment]
    with kept.open("r+b") as file:
        file.truncate(place.position)
    # The broker makes them anew, for it recovers every segment from the recovery point on.
    _remove_indexes(kept)
    for snapshot in log.folder.glob("*.snapshot"):
        if snapshot.stem.isdecimal() and int(snapshot.stem) > place.offset:
            snapshot.unlink()
    epochs = log.folder / _EPOCHS
    _rewrite(epochs, lambda fields: fields if int(fields[1]) <= place.offset else None)


def _remove_indexes(segment: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)


def _lower_high_watermark(log: Log, end: int) -> None:
    def lowered(fields: Sequence[str]) -> Sequence[str]:
        if (fields[0], int(fields[1])) != (log.topic, log.partition):
            return fields
        return (*fields[:2], str(min(end, int(fields[2]))))

    _rewrite(log.folder.parent / _HIGH_WATERMARKS, lowered)


def _partitions(path: Path) -> dict[tuple[str, int], int]:
    _, rows = _checkpoint(path)
    return {(row[0], int(row[1])): int(row[2]) for row in rows}


def _rewrite(path: Path, change: Callable[[Sequence[str]], Sequence[str] | None]) -> None:
    """Change the rows of a checkpoint."""
    version, rows = _checkpoint(path)
    kept = [" ".join(fields) for row in rows if (fields := change(row)) is not None]
    if rows:
        # In place: the file keeps its owner, who may be any user of any image.
        path.write_text("\n".join([version, str(len(kept)), *kept, ""]))


def _checkpoint(path: Path) -> tuple[str, list[list[str]]]:
    """Return version and rows of a checkpoint: a version, a count, then one row a line.

    A broker makes empty files when it starts, and fills them later: they have no rows.

    Raises:
        AgentError: it is none.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [line.split() for line in lines[2:] if line.strip()]
    if lines and (len(lines) == 1 or not all(row[-1].isdecimal() for row in rows)):
        raise AgentError(f"The checkpoint {path.name} cannot be understood.")
    return (lines[0] if lines else "0"), rows
