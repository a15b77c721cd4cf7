r"""Who cut a log, where and when, by the brokers' own logs.

    0.10.2 – 0.11   Truncating log orders-0 to offset 62400.
    1.0 –           [Log partition=orders-0, dir=…] Truncating to offset 62400
    3.0 –           [UnifiedLog partition=orders-0, dir=…] Truncating to offset 62400

A log is also emptied whole ("Truncating fully", "Truncate and start at offset"), and cut while it
is recovered after a crash ("Corruption found in segment …, truncating to offset"). Up to 0.11 a cut
is announced before the broker looks whether there is anything to cut, and then says that it "has no
effect".

Source: Log.truncateTo and Log.truncateFullyAndStartAt of 0.10.2.2; UnifiedLog.truncateTo of 4.3.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verifiers.run_folder.journal import events_by_fault

_WHEN = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3})\]")
_PLACE = re.compile(r"partition=(?P<topic>\S+)-(?P<partition>\d+)[,\]]")
_OLD = re.compile(r"Truncating log (?P<topic>\S+)-(?P<partition>\d+) to offset (?P<to>\d+)")
_NEW = re.compile(
    r"Truncating to offset (?P<to>\d+)"
    r"|[Tt]runcat(?:e|ing)(?: fully)? and start(?:ing)? at offset (?P<start>\d+)"
    r"|Corruption found in segment \d+, truncating to offset (?P<recovered>\d+)"
)
_OLD_FULL = re.compile(
    r"Truncate and start log '?(?P<topic>\S+)-(?P<partition>\d+)'? to (?P<to>\d+)"
    r"|Corruption found in segment \d+ of log (?P<log>\S+)-(?P<number>\d+), "
    r"truncating to offset (?P<recovered>\d+)"
)
_NO_EFFECT = re.compile(
    r"Truncating (?P<topic>\S+)-(?P<partition>\d+) to (?P<to>\d+) has no effect"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One truncation of one replica.

    Attributes:
        broker: node id.
        topic: of the partition.
        partition: its number.
        to: the offset that the log ended at afterwards.
        at_utc: when, by the broker's clock, as its log has it (UTC in our images); empty if it
            says nothing.
        cause: the fault that cut it, such as "power_loss", where it was not the broker itself.
    """

    broker: int
    topic: str
    partition: int
    to: int
    at_utc: str
    cause: str = ""

    @property
    def who(self) -> str:
        """The broker, and the cause if it was not the broker itself: "1 (power_loss)"."""
        return f"{self.broker} ({self.cause})" if self.cause else str(self.broker)


def cuts_by_faults(lines: Iterable[Mapping[str, Any]]) -> list[Cut]:
    """Return what faults took from the logs, by the lines of faults.jsonl."""
    found = []
    for events in events_by_fault(lines).values():
        taken = events.get("injected", {}).get("evidence", {}).get("details", {}).get("cut")
        if not isinstance(taken, Mapping):
            continue
        cause = str(events.get("decided", {}).get("fault", "a fault"))
        for broker, logs in taken.items():
            for place, log in logs.items():
                topic, _, partition = place.rpartition("-")
                found.append(
                    Cut(
                        broker=int(broker), topic=topic, partition=int(partition),
                        to=int(log["end_after"]), at_utc="", cause=cause,
                    )
                )  # fmt: skip
    return found


def read_cuts(path: Path, broker: int) -> list[Cut]:
    """Return the truncations that a broker's log tells of, in their order."""
    found: list[Cut] = []
    if not path.is_file():
        return found
    for line in _telling(path):
        if idle := _NO_EFFECT.search(line):
            place = (idle["topic"], int(idle["partition"]), int(idle["to"]))
            if found and (found[-1].topic, found[-1].partition, found[-1].to) == place:
                found.pop()
            continue
        if (cut := _cut(line, broker)) is not None:
            found.append(cut)
    return found


def _telling(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in file:
            if b"runcat" in line:
                yield line.decode("utf-8", errors="replace").strip()


def _cut(line: str, broker: int) -> Cut | None:
    if old := _OLD.search(line):
        if old["to"] == "0":
            # Said of every new follower's empty log: it proves no cut.
            return None
        place = (old["topic"], old["partition"], old["to"])
    elif full := _OLD_FULL.search(line):
        place = (
            full["topic"] or full["log"],
            full["partition"] or full["number"],
            full["to"] or full["recovered"],
        )
    elif (new := _NEW.search(line)) and (where := _PLACE.search(line)):
        place = (where["topic"], where["partition"], new["to"] or new["start"] or new["recovered"])
    else:
        return None
    when = _WHEN.search(line)
    at_utc = when[1].replace(",", ".") if when else ""
    topic, partition, to = place
    return Cut(broker=broker, topic=topic, partition=int(partition), to=int(to), at_utc=at_utc)
