"""Which anomalies weigh most: what a reader must be told first."""

GRAVITY = (
    "lost-write",
    "dirty-read",
    "phantom",
    "corrupt-record",
    "torn-transaction",
    "zombie-commit",
    "acked-below-min-isr",
    "read-beyond-hw",
    "hw-regression",
    "G1a",
    "precommitted-read",
    "duplicate",
    "replica-divergence",
    "replica-gap",
    "inconsistent-offsets",
    "epoch-disorder",
    "lost-commit",
    "consume-skip",
    "unseen",
    "int-nonmonotonic-poll",
    "int-poll-skip",
    "nonmonotonic-poll",
    "poll-skip",
    "nonmonotonic-send",
    "unavailable",
    "consume-repeat",
)
"""Data that is gone or false, then data that is there twice, then unknown, then out of order."""

_PLACE = {name: place for place, name in enumerate(GRAVITY)}


def gravity(name: str) -> tuple[int, str]:
    """Return the place of an anomaly, the gravest lowest; one from out of this tree comes last."""
    return (_PLACE.get(name, len(GRAVITY)), name)
