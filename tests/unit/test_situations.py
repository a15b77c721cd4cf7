"""Situations: each is recognised in one made-up run, and not in another that nearly has it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.registry import first_sentence
from tests.unit.event_story import S, Story
from verifiers.situations.situation import SITUATIONS, in_a_sentence, reached

Tell = Callable[[Story], object]


def _failover(story: Story, *, by: str = "session end", in_flight: bool = True) -> Story:
    """Let broker 1, the leader, be hit from 10 s to 20 s; broker 2 leads from 13 s on."""
    story.state(0, 1, (1, 2, 3)).state(13, 2, (2, 3)).state(25, 2, (1, 2, 3))
    story.fault(10, 20, 1, by=by)
    return story.send(12, 14) if in_flight else story.send(1, 2)


REACHED: dict[str, Tell] = {
    "leader-lost-by-crash": lambda s: _failover(s, by="crash"),
    "leader-lost-by-session-end": lambda s: _failover(s),
    "leader-lost-by-shutdown": lambda s: _failover(s, by="shutdown"),
    "leader-lost-by-power-loss": lambda s: _failover(s, by="power loss"),
    "idle-leader-lost": lambda s: _failover(s, in_flight=False),
    "leader-change-while-follower-lags": lambda s: (
        s.state(0, 1, (1, 2)).fault(10, 20, 1).state(13, 2, (2,))
    ),
    "two-leader-changes-before-catch-up": lambda s: (
        s.state(0, 1, (1, 2, 3)).state(10, 2, (2, 3)).state(20, 3, (3,))
    ),
    "follower-back-when-leader-goes": lambda s: (
        s.state(0, 1, (1, 2, 3)).fault(5, 9, 2, by="crash").fault(10, 20, 1).state(13, 3, (3,))
    ),
    "preferred-leader-elected-back": lambda s: s.state(0, 2, (1, 2, 3)).state(10, 1, (1, 2, 3)),
    "unclean-election": lambda s: s.state(0, 1, (1,)).state(10, None, (1,)).state(11, 2, (2,)),
    "epoch-bumped-over-unreplicated-records": lambda s: _failover(s, by="crash").log(
        22, 1, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7"
    ),
    "deposed-leader-writes": lambda s: _failover(s).log(
        22, 1, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7"
    ),
    "isr-at-minimum": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 1, (1, 2)),
    "isr-below-minimum": lambda s: (
        s.state(0, 1, (1, 2, 3)).state(10, 1, (1,))
        .send(11, 12, kind="info", error="NOT_ENOUGH_REPLICAS")
    ),
    "isr-of-one": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 1, (1,)),
    "last-isr-member-lost": lambda s: s.state(0, 1, (1,)).state(10, None, (1,)),
    "log-truncated": lambda s: s.log(
        22, 3, "[UnifiedLog partition=orders-1, dir=/d] Truncating to offset 7"
    ),
    "unclean-shutdown-recovered": lambda s: s.log(
        22, 3, "[LogLoader partition=orders-1, dir=/d] Recovering unflushed segment 0."
    ),
    "fault-during-recovery": lambda s: (
        s.state(0, 1, (1, 2, 3)).fault(5, 9, 2).state(8, 1, (1, 3)).fault(10, 12, 3)
        .state(20, 1, (1, 2, 3))
    ),
    "controller-lost": lambda s: s.controller(0, 1).controller(10, 2),
    "controller-and-leader-lost": lambda s: _failover(s).controller(0, 1).controller(12, 2),
    "quorum-without-majority": lambda s: s.fault(5, 20, 1).fault(10, 20, 2),
    "broker-fenced-and-back": lambda s: (
        s.registration(10, 2, "fenced").registration(12, 2, "unfenced")
    ),
    "send-expired": lambda s: s.send(1, 121, kind="info", error="_MSG_TIMED_OUT"),
    "retry-answered-as-duplicate": lambda s: _slow_send(s, answered_s=20),
    "group-coordinator-lost": lambda s: _coordinator(s, "__consumer_offsets"),
    "transaction-coordinator-lost": lambda s: (
        _coordinator(s, "__transaction_state").transaction(12, 14)
    ),
    "zombie-fenced": lambda s: s.event(10, "fenced"),
    "transaction-timed-out": lambda s: s.log(
        10, 1, "[TransactionCoordinator id=1] Completed rollback of ongoing transaction for "
        "transactionalId t due to timeout",
    ),
    "member-lost-before-commit": lambda s: s.member(10, unprocessed=0, uncommitted=3),
    "rebalance-under-fault": lambda s: s.fault(5, 20, 1).event(10, "rebalance", "assigned"),
    "member-session-expired": lambda s: s.event(10, "rebalance", "lost"),
}  # fmt: skip
"""A run that reaches the situation."""

NEARLY: dict[str, Tell] = {
    "leader-lost-by-crash": lambda s: _failover(s, by="crash", in_flight=False),
    "leader-lost-by-session-end": lambda s: _failover(s, by="crash"),
    "leader-lost-by-shutdown": lambda s: _failover(s, by="crash"),
    "leader-lost-by-power-loss": lambda s: _failover(s, by="crash"),
    "idle-leader-lost": lambda s: _failover(s),
    "leader-change-while-follower-lags": lambda s: _failover(s),
    "two-leader-changes-before-catch-up": lambda s: (
        s.state(0, 1, (1, 2, 3)).state(10, 2, (2, 3)).state(15, 2, (1, 2, 3)).state(20, 3, (1, 3))
    ),
    "follower-back-when-leader-goes": lambda s: (
        s.state(0, 1, (1, 2, 3)).fault(5, 9, 2, by="crash").fault(30, 40, 1).state(33, 3, (3,))
    ),
    "preferred-leader-elected-back": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 2, (1, 2, 3)),
    "unclean-election": lambda s: (
        s.state(0, 1, (1,), elr=(2,)).state(10, None, (), elr=(1, 2)).state(11, 2, (2,))
    ),
    "epoch-bumped-over-unreplicated-records": lambda s: _failover(s, by="crash").log(
        22, 3, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7"
    ),
    "deposed-leader-writes": lambda s: _failover(s, by="crash").log(
        22, 1, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7"
    ),
    "isr-at-minimum": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 1, (1,)),
    "isr-below-minimum": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 1, (1,)),
    "isr-of-one": lambda s: s.state(0, 1, (1, 2, 3)).state(10, 1, (1, 2)),
    "last-isr-member-lost": lambda s: s.state(0, 1, (1,)).state(10, 2, (2,)),
    "log-truncated": lambda s: s.log(
        22, 3, "[UnifiedLog partition=orders-1, dir=/d] Truncating to 0 has no effect"
    ),
    "unclean-shutdown-recovered": lambda s: s.log(
        22, 3, "[LogLoader partition=orders-1, dir=/d] Loading producer state till offset 7"
    ),
    "fault-during-recovery": lambda s: (
        s.state(0, 1, (1, 2, 3)).fault(5, 9, 2).state(8, 1, (1, 3)).state(9.5, 1, (1, 2, 3))
        .fault(10, 12, 3)
    ),
    "controller-lost": lambda s: s.controller(0, 1).controller(10, 1),
    "controller-and-leader-lost": lambda s: _failover(s).controller(0, 1).controller(40, 2),
    "quorum-without-majority": lambda s: s.fault(5, 9, 1).fault(10, 20, 2),
    "broker-fenced-and-back": lambda s: (
        s.registration(10, 2, "fenced").registration(12, 3, "unfenced")
    ),
    "send-expired": lambda s: s.send(1, 121, kind="info", error="_TRANSPORT"),
    "retry-answered-as-duplicate": lambda s: _slow_send(s, answered_s=12.5),
    "group-coordinator-lost": lambda s: _coordinator(s, "__transaction_state"),
    "transaction-coordinator-lost": lambda s: (
        _coordinator(s, "__transaction_state").transaction(20, 24)
    ),
    "zombie-fenced": lambda s: s.event(10, "takeover"),
    "transaction-timed-out": lambda s: s.log(
        10, 1, "[TransactionCoordinator id=1] Completed rollback of ongoing transaction for t"
    ),
    "member-lost-before-commit": lambda s: s.member(10, unprocessed=3, uncommitted=0),
    "rebalance-under-fault": lambda s: s.fault(5, 20, 1).event(21, "rebalance", "assigned"),
    "member-session-expired": lambda s: s.event(10, "rebalance", "revoked"),
}  # fmt: skip
"""A run that lacks one thing for it."""


def _coordinator(story: Story, topic: str) -> Story:
    story.clients = [{"process": 200, "role": "consumer", "mode": "subscribe"}]
    story.state(0, 1, (1, 2, 3), topic=topic).fault(10, 20, 1).state(13, 2, (2, 3), topic=topic)
    return story


def _slow_send(story: Story, *, answered_s: float) -> Story:
    """Let a record be below the high watermark at 12 s, and be acknowledged later."""
    return story.send(10, answered_s, offset=5).watermark(12, 6)


@pytest.mark.parametrize("name", sorted(REACHED))
def test_a_situation_is_recognised(name: str, tmp_path: Path) -> None:
    story = Story(path=tmp_path)
    REACHED[name](story)

    assert reached(story.events())[name]["count"] == 1


@pytest.mark.parametrize("name", sorted(NEARLY))
def test_what_lacks_one_thing_for_a_situation_is_not_it(name: str, tmp_path: Path) -> None:
    story = Story(path=tmp_path)
    NEARLY[name](story)

    assert reached(story.events())[name]["count"] == 0


@pytest.mark.parametrize(
    ("isr", "eligible", "led"),
    [((), (), True), ((), (2,), True), ((), (1,), False), ((1,), (), False)],
)
def test_who_leads_without_an_isr_and_eligible_leaders_leads_uncleanly(
    isr: tuple[int, ...], eligible: tuple[int, ...], led: bool, tmp_path: Path
) -> None:
    story = Story(path=tmp_path).state(0, 1, (1, 2)).state(10, None, (), elr=(1, 2))
    story.state(20, None, isr, elr=eligible).state(21, 1, (1,))

    events = story.events()

    assert reached(events)["unclean-election"]["count"] == led
    assert [change.at_ns for change in events.last_known_leaders] == [21 * S] * led


def test_a_refusal_in_a_brokers_log_stands_below_the_line_with_its_time(tmp_path: Path) -> None:
    story = Story(path=tmp_path).state(0, 1, (1, 2, 3)).state(10, 1, (1,))
    story.log(12, 1, "Error processing append operation on partition orders-0\n"
              "NotEnoughReplicasException: The size of the current ISR is too small")  # fmt: skip

    assert reached(story.events())["isr-below-minimum"]["count"] == 1


def test_every_situation_has_a_run_that_reaches_it_and_one_that_nearly_does() -> None:
    assert set(REACHED) == set(NEARLY) == set(SITUATIONS)


def test_every_situation_says_what_it_is_in_a_sentence() -> None:
    for name, recognise in SITUATIONS.items():
        first, *_ = (recognise.__doc__ or "").split("\n")
        assert first.endswith("."), name


def test_every_situation_stands_in_its_documentation() -> None:
    file = Path(__file__).parents[2] / "docs" / "situations.md"
    page = " ".join(file.read_text("utf-8").split())

    for name, recognise in SITUATIONS.items():
        assert f"- **{name}**: {first_sentence(recognise)}" in page


def test_a_quiet_run_reaches_no_situation(tmp_path: Path) -> None:
    story = Story(path=tmp_path).state(0, 1, (1, 2, 3)).send(1, 2)

    situations = reached(story.events())

    assert in_a_sentence(situations) == f"0 of {len(SITUATIONS)} situations"
    assert situations["isr-of-one"] == {"count": 0, "faults": [], "first_s": None, "where": None}


def test_a_situation_names_the_fault_in_force_and_the_partition(tmp_path: Path) -> None:
    story = Story(path=tmp_path).fault(1, 2, 3)
    _failover(story)

    entry = reached(story.events())["leader-lost-by-session-end"]

    assert entry == {"count": 1, "faults": ["2"], "first_s": 13.0, "where": "orders-0"}


def test_a_cut_names_the_fault_that_made_it(tmp_path: Path) -> None:
    log = {"end_before": 9, "end_after": 4, "bytes": 700}
    story = Story(path=tmp_path).state(0, 1, (1, 2, 3))

    events = story.fault(1, 2, 2, cut={"2": {"orders-0": log}}).events()

    ((at_ns, cut),) = events.cuts
    assert (at_ns, cut.who, cut.to) == (1 * S, "2 (made_up)", 4)
