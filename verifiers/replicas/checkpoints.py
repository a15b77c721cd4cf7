"""The small text files in which a broker notes what it makes of its logs.

`leader-epoch-checkpoint` has one entry `epoch start` a line; `replication-offset-checkpoint` (high
watermarks), `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint` have one `topic
partition offset` a line. All begin with a version and the number of entries.

Source: kafka.server.checkpoints.CheckpointFile; KIP-101 for the epochs.
"""

from pathlib import Path


def read_epochs(path: Path) -> tuple[tuple[int, int], ...]:
    """Return (epoch, first offset) pairs, in the file's order; none if there is no file.

    A file that is not what it should be, as a power cut leaves it, has no entries.
    """
    return tuple((words[0], words[1]) for words in _entries(path, numbers=2))


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition; none if there is no file."""
    offsets: dict[tuple[str, int], int] = {}
    for line in _lines(path):
        topic, _, numbers = line.partition(" ")
        try:
            partition, offset = (int(word) for word in numbers.split())
        except ValueError:
            return {}
        offsets[topic, partition] = offset
    return offsets


def _entries(path: Path, *, numbers: int) -> list[list[int]]:
    try:
        entries = [[int(word) for word in line.split()] for line in _lines(path)]
    except ValueError:
        return []
    return entries if all(len(entry) == numbers for entry in entries) else []


def _lines(path: Path) -> list[str]:
    """Return the lines behind version and count; none if the count is wrong."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        count = int(lines[1])
    except (OSError, IndexError, ValueError):
        return []
    return lines[2:] if len(lines) == count + 2 else []
