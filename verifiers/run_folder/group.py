"""The consumer group of a run, by members.jsonl: who joined and left, and which witness saw it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from verifiers.run_folder.journal import Line, at_s, damage_named

_DONE = {"join": "joined", "leave": "left", "crash": "was killed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRecord:
    """One member's joining, leaving or being killed.

    Attributes:
        id: its number in members.jsonl.
        kind: join, leave or crash.
        process: the member; None if nobody was found.
        made_at_s: seconds after the run's zero; None if it was not made.
        seen: whether its witnesses saw it.
        evidence: what they saw.
        hand: of one who was killed at a step, how many records it had been given and not processed
            ("unprocessed"), and processed and not committed ("uncommitted").
        error: why it was not made.
    """

    id: str
    kind: str
    process: int | None = None
    made_at_s: float | None = None
    seen: bool = False
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hand: Mapping[str, int] | None = None
    error: str | None = None


STALLED = "stalled"
"""Why a group is behind: it stood still for as long as it may, with brokers and members well."""

WHY_BEHIND = (STALLED, "nobody", "strangers", "unwell", "slow", "unasked")
"""Why a group is behind; each but the first is an excuse.

nobody     no member of it was left that said anything: all had ended, were stopped, or hung
strangers  its coordinator named members that are none of this run
unwell     an ISR was not full, or nobody said what the group had committed
slow       it went on committing, and the time for that was over
unasked    nobody waited for it, or where the partitions end is not known
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnd:
    """How far a group got in one partition, after the last healing.

    Attributes:
        topic: the topic.
        partition: the partition; None if nobody asked.
        committed: the offset that it had committed; None if none is known.
        end: where the partition ended; None if that is not known.
        time_ns: when it was no longer waited for.
        still_s: for how long it had committed nothing, in any partition.
        bound_s: after how long it counts as stuck; None if that was not written down.
        why: one of WHY_BEHIND; None if it had come to the end.
        members: the processes of members that said how far they are, all the while.
        strangers: client ids of others in the group.
        state: of the group, as its coordinator calls it; None if that is not known.
    """

    topic: str
    partition: int | None
    committed: int | None = None
    end: int | None = None
    time_ns: int | None = None
    still_s: float | None = None
    bound_s: float | None = None
    why: str | None = None
    members: tuple[int, ...] = ()
    strangers: tuple[str, ...] = ()
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """The consumer group of a run.

    Attributes:
        name: of the group.
        assignor: who shared the partitions out.
        commits: how its members commit.
        churned: whether members were to come and go.
        moves: in the order of their numbers, the first members' joining included.
        caught_up: whether at the end it had committed all that there was.
        ends: how far it got in each partition.
        processed: how many records its members had processed by their own word, at least.
        rebalances: how often partitions came to a member, or went, by their own word, at least.
        changes: how often the coordinator told of another state, or of other members.
    """

    name: str
    assignor: str
    commits: str
    churned: bool
    moves: tuple[MoveRecord, ...]
    caught_up: bool
    ends: tuple[GroupEnd, ...] = ()
    processed: int = 0
    rebalances: int = 0
    changes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the group's part of verdict.json."""
        proven_moves = Counter(move.kind for move in self.moves if move.seen)
        return {
            "name": self.name,
            "assignor": self.assignor,
            "commits": self.commits,
            "seen": {_DONE[kind].removeprefix("was "): proven_moves[kind] for kind in _DONE},
            "moves": len(self.moves),
            "rebalances": self.rebalances,
            "processed": self.processed,
            "caught_up": self.caught_up,
        }

    def why_not(self) -> list[str]:
        """Return, in sentences, why a run with this group is not VALID.

        Whether the group came to the end is for the checker group-stuck to say.
        """
        reasons = [_unseen(move) for move in self.moves if not move.seen]
        if self.churned and all(move.kind == "join" for move in self.moves):
            reasons.append("No member of the group left or died: let the run last longer.")
        if not self.processed:
            reasons.append(f"The group {self.name} processed nothing.")
        return reasons


def _unseen(move: MoveRecord) -> str:
    if move.error is not None:
        return f"Move {move.id}, {move.kind} of a member, was not made: {move.error}"
    return (
        f"Move {move.id}, {move.kind}, has no witness: that member {move.process} "
        f"{_DONE.get(move.kind, move.kind)} was seen neither by its group's coordinator nor by "
        "how it ended."
        if move.kind != "join"
        else f"Move {move.id}, join, has no witness: the group's coordinator never told of member "
        f"{move.process}."
    )


def read_group(
    meta: Mapping[str, Any], lines: Iterable[Line], origin_ns: int
) -> GroupRecord | None:
    """Return the group of a run; None if it had none.

    Args:
        meta: run.json.
        lines: of members.jsonl.
        origin_ns: the zero of the run's time axis.

    Raises:
        HistoryUnreadable: a line is none of these; the message names it.
    """
    group = meta.get("group")
    if not isinstance(group, Mapping):
        return None
    events_by_move: dict[str, dict[str, Line]] = {}
    others: dict[str, Line] = {}
    changes = 0
    for number, line in enumerate(lines, start=1):
        with damage_named(f"members.jsonl, line {number} is no event of a group"):
            event, _ = str(line["event"]), int(line["time_ns"])
        if "id" in line:
            events_by_move.setdefault(str(line["id"]), {})[event] = line
        others[event] = line
        changes += event == "group"
    counts = others.get("counts", {})
    return GroupRecord(
        name=str(group.get("name", "?")),
        assignor=str(group.get("assignor", "?")),
        commits=str(group.get("commits", "?")),
        churned=bool(group.get("churn_s")),
        moves=tuple(_move(number, events, origin_ns) for number, events in events_by_move.items()),
        caught_up="caught-up" in others,
        ends=tuple(_ends(str(group.get("topic", "")), others)),
        processed=int(counts.get("processed", 0)),
        rebalances=int(counts.get("rebalances", 0)),
        changes=changes,
    )


def _move(number: str, events: Mapping[str, Line], origin_ns: int) -> MoveRecord:
    decided, made = events.get("decided", {}), events.get("made")
    evidence = events.get("seen", {}).get("evidence", {})
    failed = events.get("failed")
    return MoveRecord(
        id=number,
        kind=str(decided.get("move", "?")),
        process=decided.get("process"),
        made_at_s=at_s(made, origin_ns),
        seen=bool(evidence.get("observed")),
        evidence=evidence.get("details", {}),
        hand=None if made is None else made.get("hand"),
        error=None if failed is None else str(failed.get("error", "no word why")),
    )


def _ends(topic: str, others: Mapping[str, Line]) -> list[GroupEnd]:
    """Return how far a group got, by the last line that tells.

    Args:
        topic: which the group reads.
        others: the last line of each event.
    """
    line = others.get("caught-up", others.get("behind", {}))
    ends, committed = line.get("ends", {}), line.get("committed", {})
    if not ends:
        return [GroupEnd(topic=topic, partition=None, why="unasked")]
    why = _why_behind(line)
    return [
        GroupEnd(
            topic=topic,
            partition=int(partition),
            committed=committed.get(partition),
            end=end,
            time_ns=int(line["time_ns"]),
            still_s=line.get("still_s"),
            bound_s=line.get("bound_s"),
            why=why if committed.get(partition, 0) < end else None,
            members=tuple(line.get("working", ())),
            strangers=tuple(line.get("strangers", ())),
            state=line.get("state"),
        )
        for partition, end in ends.items()
    ]


def _why_behind(line: Line) -> str:
    if "bound_s" not in line:
        # A folder that is older than the bound.
        return "unasked"
    if not line.get("brokers_well"):
        return "unwell"
    if line.get("strangers"):
        return "strangers"
    if not line.get("working") and not line.get("silent"):
        return "nobody"
    if line["still_s"] < line["bound_s"]:
        return "slow"
    return STALLED if line.get("working") else "nobody"
