"""Members that come and go: every move is written down, and proven by others than who made it."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.core.errors import ClusterBroken
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.workload import ClientSpec, Move, MoveKind
from harness.run.churn import Churn, client_id
from harness.run.context import RunContext
from harness.run.group_watch import GroupView, GroupWatch
from verifiers.run_folder.group import GroupRecord, read_group
from workloads.consumer_group import ConsumerGroup

pytestmark = pytest.mark.usefixtures("instant_time")


@dataclass
class FakeMember:
    spec: ClientSpec
    is_running: bool = True
    exit_code: int | None = None
    orders: list[Mapping[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: {"processed": 5, "rebalances": 1, "t_ns": 1 << 62}
    )
    holds: bool = True
    leaves_with: int = 0

    def ask_to_stop(self) -> None:
        self.is_running, self.exit_code = False, self.leaves_with

    def await_end(self, *, timeout_s: float) -> bool:
        return not self.is_running

    def kill(self) -> None:
        self.is_running, self.exit_code = False, -9

    def order(self, what: Mapping[str, Any]) -> int:
        self.orders.append(what)
        return len(self.orders)

    def reply(self, order: int) -> dict[str, Any] | None:
        if not self.holds:
            return None
        if self.orders[order - 1]["do"] == "hold":
            return {}
        return {"processed": 3, "unprocessed": [[0, 3], [0, 4]], "uncommitted": []}


@dataclass
class FakeContext:
    run_dir: RunDir
    cluster: Any
    clients: list[FakeMember]
    seed: int = 7
    topics: tuple[str, ...] = ("orders",)
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)

    def start_clients(self, specs: Sequence[ClientSpec]) -> list[FakeMember]:
        started = [FakeMember(spec) for spec in specs]
        self.clients += started
        return started


class FakeWatch:
    """A coordinator that knows who is there, or one that does not see what happens."""

    deaths = 0
    failure: str | None = None

    def __init__(self, context: FakeContext) -> None:
        self.context = context
        self.blind = False
        self.strangers: tuple[str, ...] = ()
        self.hidden: int | None = None
        self._asked_ns = 0

    @property
    def view(self) -> GroupView:
        there = [c for c in self.context.clients if c.is_running or self.blind]
        there = [client for client in there if client.spec.process != self.hidden]
        self._asked_ns = max(self._asked_ns, time.monotonic_ns() + 1)
        return GroupView(
            asked_ns=self._asked_ns,
            answered_ns=self._asked_ns,
            state="STABLE",
            members={client_id(c.spec.process): (n,) for n, c in enumerate(there)}
            | dict.fromkeys(self.strangers, (0,)),
        )

    def close(self) -> None:
        return


class FakeKafka:
    def __init__(self, committed: Sequence[int], end: int) -> None:
        self.answers = list(committed)
        self.end = end
        self.isr = True
        self.admin = self

    def partitions(self, topic: str) -> dict[tuple[str, int], None]:
        return {(topic, 0): None}

    def end_offset(self, topic: str, partition: int) -> int:
        if self.end < 0:
            raise ClusterBroken("nobody knows")
        return self.end

    def has_full_isr(self, topics: Sequence[str]) -> bool:
        return self.isr

    def group_offsets(self, group: str, topic: str, partitions: object) -> dict[int, int]:
        return {0: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}


WORKLOAD = ConsumerGroup(subscribers=2)


def make(tmp_path: Path, kafka: FakeKafka | None = None) -> tuple[FakeContext, FakeWatch]:
    run_dir = RunDir.create(tmp_path, scenario="mixed", seed=7)
    run_dir.update(clients=[])
    first = [FakeMember(WORKLOAD.member(number)) for number in range(2)]
    context = FakeContext(run_dir, kafka, first)
    return context, FakeWatch(context)


def churn(context: FakeContext, watch: FakeWatch, *moves: Move) -> Churn:
    return Churn(WORKLOAD, moves, cast(RunContext, context), cast(GroupWatch, watch), seen_s=5)


def run(context: FakeContext, watch: FakeWatch, *moves: Move) -> None:
    made = churn(context, watch, *moves)
    made.run(context.stop)
    made.close()


def recorded(context: FakeContext) -> GroupRecord:
    group = read_group({"group": WORKLOAD.described()}, context.run_dir.lines("members.jsonl"), 0)
    assert group is not None
    return group


def test_who_joins_leaves_and_is_killed_is_seen_by_the_coordinator(tmp_path: Path) -> None:
    context, watch = make(tmp_path)

    run(
        context, watch,
        Move(at_s=1, kind="join"), Move(at_s=4, kind="leave"), Move(at_s=8, kind="crash"),
    )  # fmt: skip

    group = recorded(context)
    assert [move.kind for move in group.moves] == ["join", "join", "join", "leave", "crash"]
    assert all(move.seen for move in group.moves)
    assert len({move.process for move in group.moves[3:]}) == 2
    assert {client.exit_code for client in context.clients} == {None, 0, -9}
    assert (group.processed, group.rebalances) == (15, 3)
    assert [c["process"] for c in context.run_dir.meta()["clients"]] == [202]


def test_a_death_is_laid_where_the_member_has_something_in_hand(tmp_path: Path) -> None:
    context, watch = make(tmp_path)

    run(context, watch, Move(at_s=1, kind="crash", before="processing", count=3))

    (dead,) = [client for client in context.clients if not client.is_running]
    assert [order["do"] for order in dead.orders] == ["hold", "held"]
    assert recorded(context).moves[-1].hand == {"unprocessed": 2, "uncommitted": 0}


def test_one_that_does_not_hold_is_killed_all_the_same(tmp_path: Path) -> None:
    context, watch = make(tmp_path)
    for client in context.clients:
        client.holds = False

    run(context, watch, Move(at_s=1, kind="crash", before="commit"))

    last = recorded(context).moves[-1]
    assert (last.kind, last.seen, last.hand) == ("crash", True, None)


def test_a_move_that_nobody_saw_is_told_as_such(tmp_path: Path) -> None:
    context, watch = make(tmp_path)
    watch.blind = True

    run(context, watch, Move(at_s=1, kind="crash"))

    crash = recorded(context).moves[-1]
    assert not crash.seen
    assert any(f"member {crash.process} was killed" in why for why in recorded(context).why_not())


def test_whoever_catches_up_is_told_to_hurry(tmp_path: Path) -> None:
    context, watch = make(tmp_path, FakeKafka((9,), 9))
    made = churn(context, watch)
    assert context.clients

    made.catch_up(limit_s=1000)
    made.close()

    assert all(client.orders == [{"do": "hurry"}] for client in context.clients)


def test_who_went_last_is_seen_though_the_group_is_at_the_end_at_once(tmp_path: Path) -> None:
    context, watch = make(tmp_path, FakeKafka((9,), 9))
    watch.blind = True
    made = churn(context, watch, Move(at_s=1, kind="crash"))
    made.run(context.stop)

    class Late(FakeKafka):
        def has_full_isr(self, topics: Sequence[str]) -> bool:
            # It is asked when all that there is was committed.
            watch.blind = False
            return True

    context.cluster = Late((9,), 9)
    made.catch_up(limit_s=1000)
    made.close()

    assert all(move.seen for move in recorded(context).moves)


def test_a_member_that_leaves_with_an_error_has_not_left(tmp_path: Path) -> None:
    context, watch = make(tmp_path)
    for client in context.clients:
        client.leaves_with = 70

    run(context, watch, Move(at_s=1, kind="leave"))

    assert not recorded(context).moves[-1].seen


def test_the_last_member_is_never_taken_away(tmp_path: Path) -> None:
    context, watch = make(tmp_path)

    run(context, watch, Move(at_s=1, kind="leave"), Move(at_s=4, kind="crash"))

    last = recorded(context).moves[-1]
    assert last.process is None
    assert last.error is not None
    assert sum(client.is_running for client in context.clients) == 1


@pytest.mark.parametrize(("kind", "code"), [("leave", 0), ("crash", -9)])
def test_all_members_go_at_once_and_are_seen_to_be_gone_when_others_come(
    tmp_path: Path, kind: MoveKind, code: int
) -> None:
    context, watch = make(tmp_path)

    run(context, watch, Move(at_s=1, kind=kind, everyone=True), Move(at_s=1, kind="join"))

    group = recorded(context)
    assert [(move.id, move.kind) for move in group.moves[2:]] == [
        ("m3.1", kind), ("m3.2", kind), ("m4", "join"),
    ]  # fmt: skip
    assert all(move.seen for move in group.moves)
    assert group.why_not() == []
    assert [client.exit_code for client in context.clients] == [code, code, None]


def test_nobody_goes_as_long_as_one_of_all_was_not_seen_to_come(tmp_path: Path) -> None:
    context, watch = make(tmp_path)
    context.clients[1].spec = replace(context.clients[1].spec, process=299)
    watch.hidden = 299

    run(context, watch, Move(at_s=1, kind="crash", everyone=True))

    last = recorded(context).moves[-1]
    assert "all members to be in the group" in (last.error or "")
    assert all(client.is_running for client in context.clients)


def test_moves_that_could_only_begin_long_after_the_last_was_planned_are_left_out(
    tmp_path: Path,
) -> None:
    context, watch = make(tmp_path)
    watch.hidden = 200
    everybody = Move(at_s=1, kind="crash", everyone=True)

    run(context, watch, everybody, replace(everybody, at_s=2), replace(everybody, at_s=3))

    # The first one waits for half a minute.
    assert [move.id for move in recorded(context).moves] == ["m1", "m2", "m3"]


def test_an_interrupted_run_makes_no_more_moves(tmp_path: Path) -> None:
    context, watch = make(tmp_path)
    context.stop.set()

    run(context, watch, Move(at_s=1, kind="crash"))

    assert len(recorded(context).moves) == 2


@pytest.mark.parametrize(
    ("committed", "end", "done"),
    [((3, 7, 9), 9, True), ((3, 7), 9, False), ((9,), -1, False), ((0,), 0, True)],
)
def test_a_group_is_given_time_to_come_to_the_end_as_long_as_it_gets_on(
    tmp_path: Path, committed: Sequence[int], end: int, *, done: bool
) -> None:
    context, watch = make(tmp_path, FakeKafka(committed, end))
    made = churn(context, watch)

    made.catch_up(limit_s=1000)
    made.close()

    group = recorded(context)
    assert group.caught_up is done
    assert all(end.why is None for end in group.ends) is done


@pytest.mark.parametrize(
    ("said_ns", "names", "isr", "why"),
    [
        (1 << 62, (), True, "stalled"),
        (0, (), True, "nobody"),
        (1 << 62, ("intruder",), True, "strangers"),
        (1 << 62, (), False, "unwell"),
    ],
)
def test_a_group_that_stands_still_is_told_with_what_excuses_it(
    tmp_path: Path, said_ns: int, names: tuple[str, ...], *, isr: bool, why: str
) -> None:
    kafka = FakeKafka((3, 7), 9)
    kafka.isr = isr
    context, watch = make(tmp_path, kafka)
    watch.strangers = names
    for client in context.clients:
        client.counts["t_ns"] = said_ns
    made = churn(context, watch)

    made.catch_up(limit_s=1000)
    made.close()

    (end,) = recorded(context).ends
    assert (end.partition, end.committed, end.end, end.why) == (0, 7, 9, why)
    assert end.bound_s == WORKLOAD.stuck_after_s == 76
    assert (end.still_s or 0) >= 76


def test_a_group_that_still_commits_when_its_time_is_over_is_slow(tmp_path: Path) -> None:
    context, watch = make(tmp_path, FakeKafka(range(1000), 2000))
    made = churn(context, watch)

    made.catch_up(limit_s=10)
    made.close()

    (end,) = recorded(context).ends
    assert end.why == "slow"
