"""Plants in what consumer groups processed and committed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from harness.core.coordinators import OFFSETS_TOPIC
from harness.core.grouping import by_key
from verifiers.frames.consumption import EXACTLY_ONCE, MAY_SKIP
from verifiers.planting.plant import Planted, offence_at, offence_of, plant, planted
from verifiers.planting.run_contents import NothingToPlant, Record, RunContents, first_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition, partition_name
from verifiers.run_folder.group import STALLED

_JOINS = ("subscribe", "assign")
_PLACE = ("topic", "partition", "offset")
_BOUND_S = 60.0


@plant("consume-skip")
def consume_skip(copy: RunCopy) -> Planted:
    """Remove the event by which a member processed a record below a committed offset."""
    groups = Groups(copy.contents)
    row, group, _, record = groups.one_processed()
    copy.drop_row("event", row)
    return planted(
        f"group {group} never processed {record.name}",
        offence_of(
            "consume-skip", record, process=groups.given_to(group, record), kind=groups.way(group),
            detail={"group": group},
        ),
    )  # fmt: skip


@plant("consume-repeat")
def consume_repeat(copy: RunCopy) -> Planted:
    """Let a member process a record again at the end of the run, long after it was committed."""
    groups = Groups(copy.contents)
    row, group, member, record = groups.one_processed()
    event = copy.contents.rows("event").row(row)
    copy.add("event", **(event | {"op": None, "time_ns": copy.contents.after_ns}))
    way = EXACTLY_ONCE if groups.members[member, group] == EXACTLY_ONCE else "committed"
    return planted(
        f"group {group} processed {record.name} again",
        offence_of(
            "consume-repeat", record, value=None, process=member,
            kind=groups.kind_of_loss(group, record.topic_partition, way),
            detail={"group": group, "after_process": str(member)},
        ),
    )  # fmt: skip


@plant("lost-commit")
def lost_commit(copy: RunCopy) -> Planted:
    """Let a member be told, at the end of the run, of an earlier offset than was committed."""
    groups = Groups(copy.contents)
    group, tp, offset = groups.last_commit()
    asker = next(process for process, of in groups.members if of == group)
    asked_ns = copy.contents.after_ns
    copy.add(
        "event", process=asker, f="offset-fetch", topic=tp[0], partition=tp[1],
        offset=offset - 1, time_ns=asked_ns + 1, detail=str(asked_ns),
    )  # fmt: skip
    return planted(
        f"group {group} was told {offset - 1} of {partition_name(tp)}, having committed {offset}",
        offence_at(
            "lost-commit", tp, offset, process=asker,
            kind=groups.kind_of_loss(group, tp, "in-sync"),
            detail={"group": group, "fetched": str(offset - 1)},
        ),
    )  # fmt: skip


@plant("group-stuck")
def group_stuck(copy: RunCopy) -> Planted:
    """Let the group have stood still before the end of a partition, all else being well."""
    group = copy.contents.run.group
    if group is None:
        raise NothingToPlant("no members of a group came and went")
    reached = (e for e in group.ends if group.caught_up and e.why is None and e.committed)
    end = first_of(reached, f"the group {group.name} did not come to the end as it is")
    bound_s = end.bound_s or _BOUND_S
    partition, committed = int(end.partition or 0), int(end.committed or 0)
    line = {
        "event": "behind", "working": [0], "silent": [], "strangers": [], "brokers_well": True,
        "bound_s": bound_s, "still_s": bound_s,
    }  # fmt: skip

    def behind(old: dict[str, Any]) -> dict[str, Any]:
        if old["event"] == "caught-up":
            old |= line
        if old["event"] == "behind":
            old["committed"][str(partition)] = committed - 1
            old["ends"][str(partition)] = committed
        return old

    copy.edit_lines("members.jsonl", lambda lines: [behind(line) for line in lines])
    return planted(
        f"group {group.name} stood still before the end of {end.topic}/{partition}",
        offence_at(
            "group-stuck", (end.topic, partition), committed - 1,
            kind=STALLED, detail={"group": group.name, "end": str(committed)},
        ),
    )  # fmt: skip


class Groups:
    """The groups of a run whose members tell what they process.

    Raises:
        NothingToPlant: there are none.
    """

    def __init__(self, contents: RunContents) -> None:
        self._contents = contents
        self.members: dict[tuple[int, str], str] = {}
        for _, process, detail in self._events(*_JOINS, columns=("process", "detail")):
            commits, space, group = (detail or "").partition(" ")
            if space:
                self.members[process, group] = commits
        self._by_process = by_key(self.members, itemgetter(0))
        if not self.members or not contents.rows("event").among("f", "processed").any():
            raise NothingToPlant("no member of a group told what it processed")

    def way(self, group: str) -> str:
        """Return how a group commits; of several ways the weakest, as `consume_skip` has it."""
        ways = sorted(way for (_, of), way in self.members.items() if of == group)
        return next((way for way in ways if way in MAY_SKIP), ways[0])

    def kind_of_loss(self, group: str, tp: TopicPartition, kind: str) -> str:
        """Return the kind of a loss of the last commit, by what faults have destroyed since."""
        committed_ns, _ = self._committed()[group, tp]
        is_destroyed = any(
            cut.topic == OFFSETS_TOPIC and committed_ns < (cut.at_ns or 0)
            for cut in self._contents.cuts_by_faults
        )
        return "partly-destroyed" if is_destroyed else kind

    def one_processed(self) -> tuple[int, str, int, Record]:
        """Return a plain record that a group processed once, and beyond which it committed.

        Before it the row of the event, the group and the member.
        """
        committed = self._committed()
        by_place = {
            (record.topic_partition, record.offset): record for record in self._contents.plain
        }
        done = [
            (group, (topic, partition), offset, process, row)
            for row, process, topic, partition, offset in self._events(
                "processed", columns=("process", *_PLACE)
            )
            for _, group in self._by_process.get(process, ())
        ]
        times = Counter(entry[:3] for entry in done)
        for group, tp, offset, process, row in done[len(done) // 2 :] + done:
            record = by_place.get((tp, offset))
            if (
                record is not None
                and times[group, tp, offset] == 1
                and len(self._by_process[process]) == 1
                and offset < committed.get((group, tp), (0, -1))[1]
                and not self._contents.has_any(("consume-skip", "consume-repeat"), tp)
            ):
                return row, group, process, record
        raise NothingToPlant("no group processed a plain record once and committed it")

    def given_to(self, group: str, record: Record) -> int | None:
        """Return the member that was given a record last; None if none was."""
        polls = self._contents.rows("poll")
        members = [process for process, of in self.members if of == group]
        given = polls.among("value", record.value) & polls.among("process", *members)
        cells = list(polls.cells(given, "process", "time_ns"))
        return max(cells, key=itemgetter(2))[1] if cells else None

    def last_commit(self) -> tuple[str, TopicPartition, int]:
        """Return group, partition and offset of a partition's last commit."""
        for (group, tp), (_, offset) in sorted(self._committed().items()):
            if offset > 0 and not self._contents.has_any(("lost-commit",), tp):
                return group, tp, offset
        raise NothingToPlant("no commit of a group was acknowledged")

    def _committed(self) -> dict[tuple[str, TopicPartition], tuple[int, int]]:
        """Return the last acknowledged commit of each group and partition: when, and what."""
        found: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        commits = self._events("committed", columns=("process", *_PLACE, "time_ns"))
        for _, process, topic, partition, offset, time_ns in commits:
            if offset is not None:
                for _, group in self._by_process.get(process, ()):
                    key, commit = (group, (topic, partition)), (time_ns, offset)
                    found[key] = max(found.get(key, commit), commit)
        return found

    def _events(self, *kinds: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of some kinds of events; see `Rows.cells`."""
        events = self._contents.rows("event")
        return events.cells(events.among("f", *kinds), *columns)
