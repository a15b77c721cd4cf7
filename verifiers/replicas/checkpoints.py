"""The checkpoint files of a broker.

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
    return epochs_in(_text(path))


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition; none if there is no file."""
    return offsets_in(_text(path))


def epochs_in(text: str) -> tuple[tuple[int, int], ...]:
    """Return the (epoch, first offset) pairs in the text of a leader-epoch-checkpoint."""
    try:
        entries = [[int(word) for word in line.split()] for line in _lines(text)]
        return tuple((epoch, start) for epoch, start in entries)
    except ValueError:
        return ()


def offsets_in(text: str) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition in the text of a checkpoint."""
    offsets: dict[tuple[str, int], int] = {}
    for line in _lines(text):
        topic, _, numbers = line.partition(" ")
        try:
            partition, offset = (int(word) for word in numbers.split())
        except ValueError:
            return {}
        offsets[topic, partition] = offset
    return offsets


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _lines(text: str) -> list[str]:
    """Return the lines behind version and count; none if the count is wrong."""
    lines = text.splitlines()
    try:
        count = int(lines[1])
    except (IndexError, ValueError):
        return []
    return lines[2:] if len(lines) == count + 2 else []
