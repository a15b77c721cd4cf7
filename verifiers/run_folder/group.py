"""The consumer group of a run, by members.jsonl: who joined and left, and which witness saw it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.core.errors import HistoryUnreadable

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
        behind: the partitions of which it had not, each in words.
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
    behind: tuple[str, ...] = ()
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
        """Return, in sentences, why a run with this group is not VALID."""
        reasons = [_unseen(move) for move in self.moves if not move.seen]
        if self.churned and all(move.kind == "join" for move in self.moves):
            reasons.append("No member of the group left or died: let the run last longer.")
        if not self.processed:
            reasons.append(f"The group {self.name} processed nothing.")
        if not self.caught_up:
            where = "; ".join(self.behind) or "nobody knows how far it got"
            reasons.append(
                f"The group {self.name} did not come to the end, and what it left was not checked: "
                f"{where}."
            )
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
    meta: Mapping[str, Any], lines: Iterable[Mapping[str, Any]], origin_ns: int
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
    events_by_move: dict[str, dict[str, Mapping[str, Any]]] = {}
    others: dict[str, Mapping[str, Any]] = {}
    changes = 0
    for number, line in enumerate(lines, start=1):
        try:
            event, _ = str(line["event"]), int(line["time_ns"])
            if "id" in line:
                events_by_move.setdefault(str(line["id"]), {})[event] = line
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryUnreadable(
                f"members.jsonl, line {number} is no event of a group ({error!r}): restore the "
                "file, or run again."
            ) from error
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
        behind=tuple(_behind(others.get("behind", {}))),
        processed=int(counts.get("processed", 0)),
        rebalances=int(counts.get("rebalances", 0)),
        changes=changes,
    )


def _move(number: str, events: Mapping[str, Mapping[str, Any]], origin_ns: int) -> MoveRecord:
    decided, made = events.get("decided", {}), events.get("made")
    evidence = events.get("seen", {}).get("evidence", {})
    failed = events.get("failed")
    return MoveRecord(
        id=number,
        kind=str(decided.get("move", "?")),
        process=decided.get("process"),
        made_at_s=None if made is None else round((int(made["time_ns"]) - origin_ns) / 1e9, 3),
        seen=bool(evidence.get("observed")),
        evidence=evidence.get("details", {}),
        hand=None if made is None else made.get("hand"),
        error=None if failed is None else str(failed.get("error", "no word why")),
    )


def _behind(line: Mapping[str, Any]) -> list[str]:
    ends, committed = line.get("ends", {}), line.get("committed", {})
    return [
        f"of partition {partition} it committed {committed.get(partition, 0):,} of {end:,} records"
        for partition, end in ends.items()
        if committed.get(partition, 0) < end
    ]
