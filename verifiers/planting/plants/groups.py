"""Plants in what consumer groups processed and committed."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from verifiers.frames.consumption import EXACTLY_ONCE, MAY_SKIP
from verifiers.planting.plant import Planted, offence_at, offence_of, plant, planted
from verifiers.planting.run_contents import NONE, NothingToPlant, Record, RunContents
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.group import STALLED

_JOINS = ("subscribe", "assign")
_BOUND_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One record that a member processed: the row of the event, and what stands there."""

    row: int
    group: str
    process: int
    record: Record


@plant("consume-skip")
def consume_skip(copy: RunCopy) -> Planted:
    """Remove the event by which a member processed a record below a committed offset."""
    groups = Groups(copy.contents)
    done = groups.one_processed()
    copy.drop_row("event", done.row)
    return planted(
        f"group {done.group} never processed {done.record.name}",
        offence_of(
            "consume-skip", done.record, process=groups.given_to(done),
            kind=groups.way(done.group), detail={"group": done.group},
        ),
    )  # fmt: skip


@plant("consume-repeat")
def consume_repeat(copy: RunCopy) -> Planted:
    """Let a member process a record again at the end of the run, long after it was committed."""
    groups = Groups(copy.contents)
    done = groups.one_processed()
    event = copy.contents.rows("event").row(done.row)
    copy.add("event", **(event | {"op": None, "time_ns": copy.contents.after_ns}))
    ways = groups.members[done.process, done.group]
    return planted(
        f"group {done.group} processed {done.record.name} again",
        offence_of(
            "consume-repeat", done.record, value=None, process=done.process,
            kind=EXACTLY_ONCE if ways == EXACTLY_ONCE else "committed",
            detail={"group": done.group, "after_process": str(done.process)},
        ),
    )  # fmt: skip


@plant("lost-commit")
def lost_commit(copy: RunCopy) -> Planted:
    """Let a member be told, at the end of the run, of an earlier offset than was committed."""
    groups = Groups(copy.contents)
    group, topic, partition, offset = groups.last_commit()
    asker = next(process for process, of in groups.members if of == group)
    asked_ns = copy.contents.after_ns
    copy.add(
        "event", process=asker, f="offset-fetch", topic=topic, partition=partition,
        offset=offset - 1, time_ns=asked_ns + 1, detail=str(asked_ns),
    )  # fmt: skip
    return planted(
        f"group {group} was told {offset - 1} of {topic}/{partition}, having committed "
        f"{offset}",
        offence_at(
            "lost-commit", (topic, partition), offset, process=asker,
            detail={"group": group, "fetched": str(offset - 1)},
        ),
    )  # fmt: skip


@plant("group-stuck")
def group_stuck(copy: RunCopy) -> Planted:
    """Let the group have stood still before the end of a partition, all else being well."""
    group = copy.contents.run.group
    if group is None:
        raise NothingToPlant("no members of a group came and went")
    reached = [end for end in group.ends if end.why is None and end.committed]
    if not group.caught_up or not reached:
        raise NothingToPlant(f"the group {group.name} did not come to the end as it is")
    end = reached[0]
    bound_s = end.bound_s or _BOUND_S
    line = {
        "event": "behind", "working": [0], "silent": [], "strangers": [], "brokers_well": True,
        "bound_s": bound_s, "still_s": bound_s,
    }  # fmt: skip

    def stand_still(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        told = [{**old, **line} if old["event"] == "caught-up" else old for old in lines]
        for each in told:
            if each["event"] == "behind":
                behind = int(end.committed or 0) - 1
                each["committed"] = {**each["committed"], str(end.partition): behind}
                each["ends"] = {**each["ends"], str(end.partition): end.committed}
        return told

    copy.edit_lines("members.jsonl", stand_still)
    return planted(
        f"group {group.name} stood still before the end of {end.topic}/{end.partition}",
        offence_at(
            "group-stuck", (end.topic, int(end.partition or 0)), int(end.committed or 0) - 1,
            kind=STALLED, detail={"group": group.name, "end": str(end.committed)},
        ),
    )  # fmt: skip


class Groups:
    """The groups of a run whose members tell what they process.

    Raises:
        NothingToPlant: there are none.
    """

    def __init__(self, contents: RunContents) -> None:
        self._contents = contents
        self._events = contents.rows("event")
        self.members: dict[tuple[int, str], str] = {}
        for row in self._rows_of(*_JOINS):
            commits, space, group = (self._events.words("detail")[row] or "").partition(" ")
            if space:
                self.members[int(self._events.numbers("process")[row]), group] = commits
        if not self.members or not self._rows_of("processed"):
            raise NothingToPlant("no member of a group told what it processed")

    def way(self, group: str) -> str:
        """Return how a group commits; of several ways the weakest, as `consume_skip` has it."""
        ways = sorted(way for (_, of), way in self.members.items() if of == group)
        return next((way for way in ways if way in MAY_SKIP), ways[0])

    def one_processed(self) -> Done:
        """Return a plain record that a group processed once, and beyond which it committed."""
        committed = self._committed()
        by_partition = {(one.topic, one.partition, one.offset): one for one in self._contents.plain}
        done = [
            (group, self._place(row), row)
            for row in self._rows_of("processed")
            for group in self._groups_of(row)
        ]
        times = Counter((group, tp) for group, tp, _ in done)
        for group, tp, row in done[len(done) // 2 :] + done:
            record = by_partition.get(tp)
            if (
                record is not None
                and times[group, tp] == 1
                and len(self._groups_of(row)) == 1
                and record.offset < committed.get((group, *tp[:2]), (0, -1))[1]
                and not self._contents.has_any(
                    ("consume-skip", "consume-repeat"), record.topic_partition
                )
            ):
                process = int(self._events.numbers("process")[row])
                return Done(row=row, group=group, process=process, record=record)
        raise NothingToPlant("no group processed a plain record once and committed it")

    def given_to(self, done: Done) -> int | None:
        """Return the member that was given a record last; None if none was."""
        polls = self._contents.rows("poll")
        rows_of_group = self._contents.of_value("poll", [done.record.value])
        rows_of_group &= np.isin(
            polls.numbers("process"),
            np.array([process for process, of in self.members if of == done.group]),
        )
        rows = np.flatnonzero(rows_of_group)
        if not len(rows):
            return None
        return int(polls.numbers("process")[max(rows, key=polls.numbers("time_ns").__getitem__)])

    def last_commit(self) -> tuple[str, str, int, int]:
        """Return group, topic, partition and offset of a partition's last commit."""
        for (group, topic, partition), (_, offset) in sorted(self._committed().items()):
            if offset > 0 and not self._contents.has_any(("lost-commit",), (topic, partition)):
                return group, topic, partition, offset
        raise NothingToPlant("no commit of a group was acknowledged")

    def _committed(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        """Return the last acknowledged commit of each group and partition: when, and what."""
        found: dict[tuple[str, str, int], tuple[int, int]] = {}
        for row in self._rows_of("committed"):
            topic, partition, offset = self._place(row)
            if offset == NONE:
                continue
            commit = (int(self._events.numbers("time_ns")[row]), offset)
            for group in self._groups_of(row):
                key = (group, topic, partition)
                found[key] = max(found.get(key, commit), commit)
        return found

    def _rows_of(self, *kinds: str) -> list[int]:
        chosen = np.isin(self._events.words("f").astype(str), kinds)
        return [int(row) for row in np.flatnonzero(chosen)]

    def _groups_of(self, row: int) -> list[str]:
        process = int(self._events.numbers("process")[row])
        return list(self._of_process().get(process, ()))

    def _of_process(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for process, group in self.members:
            found.setdefault(process, []).append(group)
        return found

    def _place(self, row: int) -> tuple[str, int, int]:
        return (
            str(self._events.words("topic")[row]),
            int(self._events.numbers("partition")[row]),
            int(self._events.numbers("offset")[row]),
        )
