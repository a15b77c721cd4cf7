r"""Who left the ISR and who came back, by the leaders' own logs.

    0.10.2      Partition [t,0] on broker 1: Shrinking ISR for partition [t,0] from 1,2 to 1
    0.11, 1.0   Partition [t,0] on broker 1: Shrinking ISR from 1,2 to 1
    1.1 –       [Partition t-0 broker=1] Shrinking ISR from 1,2 to 1
    2.8         … to 1. Leader: (highWatermark: 7, endOffset: 9). Out of sync replicas:
                (brokerId: 2, endOffset: 7).
    4.3         … (brokerId: 2, endOffset: 7, lastCaughtUpTimeMs: 1795271362223).

The last has all that the leader decided by, on one clock: the time of the line less that of the
last catching up is how long it has waited.

Source: kafka.cluster.Partition, maybeShrinkIsr and maybeExpandIsr.
"""

import re
from dataclasses import dataclass

from verifiers.run_folder.broker_logs import logged_ms

_LINE = re.compile(
    r"Partition \[?(?P<topic>[\w.-]+)[,-](?P<partition>\d+)\]? .*?(?:Shrinking|Expanding) ISR "
    r"(?:for partition \S+ )?from (?P<before>[\d,]+) to (?P<after>[\d,]+)"
)
_OUT = re.compile(r"\(brokerId: (\d+), endOffset: -?\d+(?:, lastCaughtUpTimeMs: (-?\d+))?\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """One change of an ISR, as its leader has announced it.

    Attributes:
        topic: of the partition.
        partition: its number.
        at_ms: when, by the broker's clock, milliseconds since 1970.
        before: node ids in the ISR until then.
        after: those after it.
        caught_up_ms: when each that left had last caught up, by the same clock; old versions do
            not tell.
    """

    topic: str
    partition: int
    at_ms: int
    before: frozenset[int]
    after: frozenset[int]
    caught_up_ms: dict[int, int]

    @property
    def left(self) -> frozenset[int]:
        """Who left."""
        return self.before - self.after


def isr_changes_in(text: str) -> list[IsrChange]:
    """Return the changes of ISRs that a broker's log tells of, in their order.

    A leader says what it wants: where the controller refuses, the change is announced again.
    """
    return [
        IsrChange(
            topic=match["topic"],
            partition=int(match["partition"]),
            at_ms=at_ms,
            before=_ids(match["before"]),
            after=_ids(match["after"]),
            caught_up_ms={int(node): int(caught) for node, caught in _OUT.findall(line) if caught},
        )
        for line in text.splitlines()
        if (match := _LINE.search(line)) and (at_ms := logged_ms(line)) is not None
    ]


def _ids(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(",") if number)
