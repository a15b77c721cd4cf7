r"""Who cut a log, where and when, by the brokers' own logs.

    0.10.2 – 0.11   Truncating log orders-0 to offset 62400.
    1.0 –           [Log partition=orders-0, dir=…] Truncating to offset 62400
    3.0 –           [UnifiedLog partition=orders-0, dir=…] Truncating to offset 62400

A log is also emptied whole ("Truncating fully", "Truncate and start at offset"), and cut while it
is recovered after a crash ("Corruption found in segment …, truncating to offset"). Up to 0.11 a cut
is announced before the broker looks whether there is anything to cut, and then says that it "has no
effect". A follower that asks for an offset beyond its leader's end takes that end for its own,
without asking for epochs, and says so afterwards:

    0.10.2 – 0.11   Current offset 900 for partition [orders,0] out of range; reset offset to 100
    1.0 –           Current offset 900 for partition orders-0 is out of range, which typically
                    implies a leader change. Reset fetch offset to 100

Who asked first, and was told nothing (KAFKA-6361), kept what it was about to fetch from:

    1.1             … leader replied with an unknown offset in orders-0. The initial fetch offset
                    900 will be used for truncation.

Source: Log.truncateTo and Log.truncateFullyAndStartAt of 0.10.2.2; UnifiedLog.truncateTo of 4.3;
AbstractFetcherThread, handleOutOfRangeError; KIP-320 (mended in 2.1: a leader refuses who follows
another epoch).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.run_dir import RunDir
from verifiers.run_folder.broker_logs import broker_logs, in_utc, logged_ms
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import Line, fault_spans

_PLACE, _TO = r"(?P<topic>\S+)-(?P<partition>\d+)", r"(?P<to>\d+)"
_OLD = re.compile(rf"Truncating log {_PLACE} to offset {_TO}")
_CUTS = (
    _OLD,
    re.compile(rf"Truncate and start log '?{_PLACE}'? to {_TO}"),
    re.compile(rf"Corruption found in segment \d+ of log {_PLACE}, truncating to offset {_TO}"),
    re.compile(
        rf"partition={_PLACE}[,\]].*?(?:Truncating to|[Tt]runcat(?:e|ing)(?: fully)? and "
        rf"start(?:ing)? at|Corruption found in segment \d+, truncating to) offset {_TO}"
    ),
)
_NO_EFFECT = re.compile(rf"Truncating {_PLACE} to {_TO} has no effect")
_UNANSWERED = re.compile(rf"replied with an unknown offset in {_PLACE}\. .*? {_TO} will be used")
_RESET = re.compile(
    r"Current offset (?P<asked>\d+) for partition \[?(?P<topic>\S+?)[-,](?P<partition>\d+)\]? "
    rf"(?:is )?out of range.*? [Rr]eset (?:fetch )?offset to {_TO}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One truncation of one replica.

    Attributes:
        broker: node id.
        topic: of the partition.
        partition: its number.
        to: the offset that the log ended at afterwards.
        end: the one that it ended at before, where it was a fault that cut it.
        at_ms: when, by the broker's clock, milliseconds since 1970; None if its log does not say.
        at_ns: when, on our clock, where it was a fault that cut it.
        cause: that fault, such as "power_loss"; empty where it was the broker itself.
        is_reset: whether the broker took its leader's end for its own, and had asked for no epoch.
    """

    broker: int
    topic: str
    partition: int
    to: int
    end: int | None = None
    at_ms: int | None = None
    at_ns: int | None = None
    cause: str = ""
    is_reset: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and partition."""
        return (self.topic, self.partition)

    @property
    def at_utc(self) -> str:
        """When, as the broker's log has it; empty if it does not say."""
        return "" if self.at_ms is None else in_utc(self.at_ms)

    @property
    def who(self) -> str:
        """The broker, and the cause if it was not the broker itself: "1 (power_loss)"."""
        return f"{self.broker} ({self.cause})" if self.cause else str(self.broker)


def cuts_of(folder: RunDir) -> list[Cut]:
    """Return the truncations of a run: those by faults, of which no log tells, then all others."""
    told = (cut for broker, log in broker_logs(folder) for cut in read_cuts(log, broker))
    return [*cuts_by_faults(folder.lines("faults.jsonl")), *told]


def cuts_by_faults(lines: Iterable[Line]) -> list[Cut]:
    """Return what faults took from the logs, by the lines of faults.jsonl."""
    found = []
    for fault in fault_spans(lines):
        taken = fault.injected.get("evidence", {}).get("details", {}).get("cut")
        if not isinstance(taken, Mapping):
            continue
        for broker, logs in taken.items():
            for place, log in logs.items():
                topic, _, partition = place.rpartition("-")
                found.append(
                    Cut(
                        broker=int(broker), topic=topic, partition=int(partition),
                        to=int(log["end_after"]), end=log.get("end_before"),
                        at_ns=int(fault.injected["time_ns"]), cause=fault.name,
                    )
                )  # fmt: skip
    return found


def read_cuts(path: Path, broker: int) -> list[Cut]:
    """Return the truncations that a broker's log tells of, in their order."""
    found: list[Cut] = []
    kept: dict[TopicPartition, int] = {}
    with path.open("rb") as file:
        for content in file:
            if b"runcat" not in content and b"out of range" not in content:
                continue
            line = content.decode("utf-8", errors="replace")
            if idle := _NO_EFFECT.search(line):
                if found and _place(found[-1]) == _told_place(idle):
                    found.pop()
            elif unanswered := _UNANSWERED.search(line):
                topic, partition, offset = _told_place(unanswered)
                kept[topic, partition] = offset
            elif reset := _RESET.search(line):
                topic, partition, _ = place = _told_place(reset)
                if kept.get((topic, partition)) != int(reset["asked"]):
                    _mark(found, place)
            elif (cut := _cut(line, broker)) is not None:
                found.append(cut)
    return found


def _mark(found: list[Cut], place: tuple[str, int, int]) -> None:
    """Mark the last cut at a place as that of a reset; other logs may have been cut since."""
    for number in reversed(range(len(found))):
        if _place(found[number]) == place:
            found[number] = replace(found[number], is_reset=True)
            return


def _place(cut: Cut) -> tuple[str, int, int]:
    return (cut.topic, cut.partition, cut.to)


def _told_place(told: re.Match[str]) -> tuple[str, int, int]:
    return (told["topic"], int(told["partition"]), int(told["to"]))


def _cut(line: str, broker: int) -> Cut | None:
    found = next((match for pattern in _CUTS if (match := pattern.search(line))), None)
    # What an old broker says of every new follower's empty log proves no cut.
    if found is None or (found.re is _OLD and found["to"] == "0"):
        return None
    return Cut(
        broker=broker,
        topic=found["topic"],
        partition=int(found["partition"]),
        to=int(found["to"]),
        at_ms=logged_ms(line),
    )
