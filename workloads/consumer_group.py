"""The workload consumer_group: members that process and commit, and that come, go and die."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.version import numbers
from harness.core.workload import Act, ClientSpec, Move, MoveKind, workload
from workloads.client_config import limits_s
from workloads.group_config import (
    FIRST_CONSUMER_PROTOCOL,
    SESSION_MS,
    Assignor,
    Commits,
    assignor_config,
    member_config,
    short_sessions,
    stuck_after_s,
)
from workloads.load import Load
from workloads.send_poll import FIRST_READER, FIRST_SUBSCRIBER, SendPoll

_MOST_MEMBERS = 100
_MOST_RECORDS = 10_000
_AUDITOR = FIRST_READER + 50
_BUSIEST = 0.5
_FIRST_MOVE_S = 2.0
_EVERYONE = 0.5
"""Of so many rounds of moves one is that all members go at once."""
_LINGER_S = 0.5
"""Longer than the interval of automatic commits: what was handed over is committed meanwhile."""
_IN_THE_ACT: Mapping[Commits, Act] = {
    "auto-delivered": "processing",
    "auto-stored": "processing",
    "before-processing": "processing",
    "after-processing": "commit",
}
"""Where a member has something in hand that its death decides upon."""


@workload("consumer_group")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(Load):
    """Process records in a consumer group whose members join, leave and are killed.

    Producers send unique records to one topic, and the members of one group process them, each
    record being written down when it has been processed, and commit. Meanwhile, by a schedule that
    the run's seed gives, new members join, others leave politely, and others are killed: somewhere,
    or right between commit and processing. At the end the group processes all that is left, as
    fast as it can, and then its committed offsets are asked for once more.

    Attributes:
        subscribers: members of the group at the beginning, at least two.
        assignor: who shares the partitions out: range, roundrobin or cooperative-sticky, which the
            group's leader does, or consumer: the broker, by the protocol of KIP-848, on Kafka 4.0
            or later. librdkafka has no sticky that is not cooperative.
        commits: how members commit: auto-delivered (librdkafka's default: a record counts as
            consumed when it is handed over), auto-stored (automatically, when it has been
            processed), before-processing or after-processing.
        process_s: how long the processing of a record takes, seconds.
        poll_records: at most so many records a poll.
        partition_eof: whether members are also told when they are at the end of a partition
            (`enable.partition.eof`): librdkafka hands that over among the records of a poll.
        commit_every: with after-processing, a commit after so many records, and at a poll's end.
        commit_position: whether a commit names the consumer's own position, at a poll's end,
            instead of the end of what was processed; with after-processing or before-processing.
        churn_s: a member joins, leaves or is killed about every so many seconds; 0: never.
    """

    producers: int = 1
    consumers: int = 0
    subscribers: int = 3
    assignor: Assignor = "range"
    commits: Commits = "after-processing"
    rate_per_s: float = 150
    process_s: float = 0.002
    poll_records: int = 50
    partition_eof: bool = False
    commit_every: int = 10
    commit_position: bool = False
    churn_s: float = 5.0

    def __post_init__(self) -> None:
        """Reject what cannot be run.

        Raises:
            UsageError: with the number and its bounds.
        """
        # What both workloads have is bounded alike.
        self._plain()
        if str(self.assignor) == "sticky":
            raise UsageError(
                "librdkafka has no sticky that is not cooperative: choose cooperative-sticky, or "
                "another assignor."
            )
        self.reject_unlisted(assignor=get_args(Assignor), commits=get_args(Commits))
        # A group whose members die needs two to begin with.
        self.reject_beyond(
            subscribers=(2, _MOST_MEMBERS // 2),
            poll_records=(1, _MOST_RECORDS),
            commit_every=(1, _MOST_RECORDS),
        )
        if self.commit_position and self.commits.startswith("auto-"):
            raise UsageError(
                "What is committed automatically is what librdkafka has stored: with "
                "--commit-position choose --commits after-processing or before-processing."
            )
        if self.process_s < 0 or self.churn_s < 0:
            raise UsageError("Times to process, and between two moves, are 0 seconds or more.")
        if not self.rate_per_s or self.rate_per_s * self.process_s > _BUSIEST * self.subscribers:
            raise UsageError(
                f"{self.rate_per_s:g} records/s that take {self.process_s:g} s each to process are "
                f"too much for {self.subscribers} members, some of whom die (0 is as fast as "
                "producers can): lower --rate or --process-time, or raise --subscribers."
            )

    def refuse(self, contract: Contract, *, kafka: str) -> None:
        """Refuse a version that does not serve the protocol asked for.

        Raises:
            UsageError: with what would do.
        """
        del contract  # a group does not care what producers wait for
        if self.assignor != "consumer":
            return
        if numbers(kafka) and numbers(kafka) < FIRST_CONSUMER_PROTOCOL:
            raise UsageError(
                f"Kafka {kafka} does not serve the consumer protocol of KIP-848, 4.0 is the first "
                "that does without being asked to: choose another --assignor or a younger --kafka."
            )

    @property
    def group(self) -> str:
        """The name of the group."""
        return f"{self.topic}-group"

    @property
    def stuck_after_s(self) -> float:
        """A group of live members that commits nothing for so long, with brokers well, is stuck."""
        return stuck_after_s(self._member_settings()["config"])

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of the group."""
        return {
            "name": self.group,
            "topic": self.topic,
            "assignor": self.assignor,
            "commits": self.commits,
            "members": self.subscribers,
            "churn_s": self.churn_s,
        }

    def cluster_config(self, kafka: str) -> Mapping[str, str]:
        """Return the properties under which the death of a member is noticed after 6 s."""
        return short_sessions(kafka) if self.assignor == "consumer" else {}

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return producers and consumers, then the members that begin."""
        members = tuple(self.member(number) for number in range(self.subscribers))
        return (*self._plain().clients(contract), *members)

    def limits_s(self, contract: Contract) -> tuple[float, ...]:
        """Return the time limits of producers and members, seconds.

        Brokers that decide on a member's session are asked for the same one; a user's own
        properties, which take precedence, are not known here.
        """
        return tuple(sorted({*limits_s(self.clients(contract)), SESSION_MS / 1000}))

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return the readers of the topic, and one that asks where the group is at the end."""
        auditor = ClientSpec(
            process=_AUDITOR,
            role="reader",
            module="workloads.group_member",
            settings={**self._member_settings(), "audit": True},
        )
        return (*self._plain().readers(contract), auditor)

    def member(self, number: int) -> ClientSpec:
        """Return a member of the group.

        Raises:
            UsageError: there are too many.
        """
        if number >= _MOST_MEMBERS:
            raise UsageError(f"A group of more than {_MOST_MEMBERS} members in all cannot be run.")
        return ClientSpec(
            process=FIRST_SUBSCRIBER + number,
            role="consumer",
            module="workloads.group_member",
            settings={**self._member_settings(), "mode": "subscribe", "member": number},
        )

    def moves(self, random: Random, duration_s: float) -> Sequence[Move]:
        """Return who comes and goes: of four moves two join, one leaves and one is killed.

        With them one member always stays, and never are there more than two more than at the
        beginning. After four moves comes, as often as not, a fifth: all members leave or are killed
        at once, and as many as there were at the beginning join right after. The first death of one
        member, and every other one after it, is laid where it has something in hand.
        """
        if not self.churn_s:
            return ()
        moves: list[Move] = []
        deck: list[MoveKind | Literal["everyone"]] = []
        there, joined, deaths = self.subscribers, self.subscribers, 0
        time_s = _FIRST_MOVE_S + random.uniform(0, self.churn_s / 2)
        while time_s < duration_s and joined < _MOST_MEMBERS:
            at_s = round(time_s, 1)
            if not deck:
                deck = ["join", "join", "leave", "crash"]
                random.shuffle(deck)
                if random.random() < _EVERYONE and joined + self.subscribers + 2 <= _MOST_MEMBERS:
                    # Taken from the end, so after the others.
                    deck.insert(0, "everyone")
            # Somebody has to stay; a deck that has taken all but one still holds those who join.
            kind = "join" if there < 2 and "join" in deck else deck[-1]
            deck.remove(kind)
            if kind == "everyone":
                moves += self._gone_and_back(random, at_s)
                joined, there = joined + self.subscribers, self.subscribers
            elif kind == "crash":
                deaths, there = deaths + 1, there - 1
                moves.append(self._death(random, at_s, in_the_act=deaths % 2 == 1))
            else:
                joined += kind == "join"
                there += 1 if kind == "join" else -1
                moves.append(Move(at_s=at_s, kind=kind))
            time_s += self.churn_s * random.uniform(0.6, 1.4)
        return tuple(moves)

    def _death(self, random: Random, at_s: float, *, in_the_act: bool) -> Move:
        if not in_the_act:
            return Move(at_s=at_s, kind="crash")
        return Move(
            at_s=at_s,
            kind="crash",
            before=_IN_THE_ACT[self.commits],
            count=random.randint(1, 5),
            linger_s=_LINGER_S if self.commits.startswith("auto-") else 0.0,
        )

    def _gone_and_back(self, random: Random, at_s: float) -> list[Move]:
        """Return the moves by which nobody is left, and as many as at the beginning come anew."""
        kind: MoveKind = random.choice(("leave", "crash"))
        return [
            Move(at_s=at_s, kind=kind, everyone=True),
            *(Move(at_s=at_s, kind="join") for _ in range(self.subscribers)),
        ]

    def _member_settings(self) -> dict[str, Any]:
        config = member_config(
            self.group, assignor_config(self.assignor), isolation="read_committed"
        )
        if self.partition_eof:
            config["enable.partition.eof"] = True
        return {
            "topic": self.topic,
            "commits": self.commits,
            "poll_records": self.poll_records,
            "poll_s": 0.2,
            "commit_every": self.commit_every,
            "commit_position": self.commit_position,
            "process_s": self.process_s,
            "interval_s": 0.5,
            "config": config,
        }

    def _plain(self) -> SendPoll:
        """Return the workload without a group whose topic, load and final read are the same."""
        return SendPoll.like(self, subscribers=0)
