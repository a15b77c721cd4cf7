"""Where logs end, by their files: a broker that is dead, frozen or cut off need not be asked.

What a broker has appended can be read at once, flushed or not. The high watermark is the one that
it has checkpointed, every five seconds.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fault_agent import AgentError
from fault_agent.batches import batches
from fault_agent.tails import Log, high_watermarks, logs_in

_ENTRY = struct.Struct(">ii")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where one log ends.

    Attributes:
        topic: its topic.
        partition: its number.
        log_end: the offset after its last whole batch.
        high_watermark: as checkpointed; None if it is not.
    """

    topic: str
    partition: int
    log_end: int
    high_watermark: int | None


def ends(log_dirs: Sequence[Path], topics: Collection[str]) -> Iterator[End]:
    """Yield where the logs of some topics end; one that changes under the eye is left out.

    Raises:
        AgentError: there is no such folder.
    """
    for log_dir in log_dirs:
        known = high_watermarks(log_dir)
        for log in logs_in(log_dir):
            if log.topic not in topics:
                continue
            try:
                log_end = _log_end(log)
            except (AgentError, OSError):
                # A segment that is being cut, rolled or deleted; the next sample will tell.
                continue
            yield End(
                topic=log.topic,
                partition=log.partition,
                log_end=log_end,
                high_watermark=known.get((log.topic, log.partition)),
            )


def _log_end(log: Log) -> int:
    segments = log.segments()
    if not segments:
        raise AgentError(f"{log.folder.name} has no segment.")
    last = segments[-1]
    size = last.stat().st_size
    with last.open("rb") as file:
        # Where the index points may lie half a batch.
        for begin in dict.fromkeys((_near_the_end(last, size), 0)):
            end = None
            for batch in batches(file, size, last.name, begin=begin):
                end = batch.last_offset + 1
            if end is not None:
                return end
    return int(last.stem)


def _near_the_end(segment: Path, size: int) -> int:
    """Return where a batch begins in a segment, by its index: at most a few KiB before its end.

    The rest of an index that is in use is zeros, as many as a hundred times its entries.
    """
    index = segment.with_suffix(".index")
    if not index.exists():
        return 0
    with index.open("rb") as file:
        low, high = 0, index.stat().st_size // _ENTRY.size
        found = 0
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * _ENTRY.size)
            _, position = _ENTRY.unpack(file.read(_ENTRY.size))
            if 0 < position < size:
                found, low = position, middle + 1
            else:
                high = middle
    return found
