"""The checkpoint files of a broker.

`leader-epoch-checkpoint` has one entry `epoch start` a line; `replication-offset-checkpoint` (high
watermarks), `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint` have one `topic
partition offset` a line. All begin with a version and the number of entries.

Source: kafka.server.checkpoints.CheckpointFile; KIP-101 for the epochs.
"""


def epochs_in(text: str) -> tuple[tuple[int, int], ...]:
    """Return the (epoch, first offset) pairs in the text of a leader-epoch-checkpoint, in order.

    A file that is not what it should be, as a power cut leaves it, has no entries.
    """
    try:
        return tuple((int(epoch), int(start)) for epoch, start in _entries(text))
    except ValueError:
        return ()


def offsets_in(text: str) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition in the text of a checkpoint."""
    try:
        return {(topic, int(number)): int(offset) for topic, number, offset in _entries(text)}
    except ValueError:
        return {}


def _entries(text: str) -> list[list[str]]:
    """Return the words of each line behind version and count.

    Raises:
        ValueError: the count is wrong.
    """
    _, count, *lines = text.splitlines()
    if len(lines) != int(count):
        raise ValueError(f"{len(lines)} entries instead of {count}")
    return [line.split() for line in lines]
