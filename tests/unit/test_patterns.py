"""Patterns: what follows what, and draws that one more kind of fault leaves as they are."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_stop import BrokerStop
from faults.client_link import ClientLink
from faults.fetch_stall import FetchStall
from faults.link import Link
from faults.partition import Partition
from faults.patterns import (
    Alternation,
    Blackout,
    Divided,
    LastInSync,
    Late,
    Recovering,
    Relapse,
    Returned,
    Successor,
)
from faults.power_loss import PowerLoss
from faults.targets import (
    AllBrokers,
    Controller,
    CoordinatorOf,
    FollowerOf,
    IsrDownTo,
    LeaderAndFollower,
    LeaderOf,
    OutOfSync,
    RandomBroker,
    TransactionCoordinatorOf,
    TwoFollowers,
)
from harness.core.errors import UsageError
from harness.core.fault import Fault, Target, describe, fault_traits
from harness.core.pattern import PATTERNS, Alone, Deck, Pattern, fitting
from harness.core.scenario import SCENARIOS, Step
from harness.core.schedule import Mix

FAULTS: tuple[Fault, ...] = (BrokerKill(), BrokerStop(), Partition())
TARGETS = (LeaderOf("orders", 0), LeaderOf("orders", 1), Controller(), RandomBroker())
EVERYBODY = (*TARGETS, AllBrokers(), LeaderAndFollower("orders"), TwoFollowers("orders"))


def deck(stream: str = "7") -> Deck:
    return Deck(stream=stream, faults=FAULTS, targets=TARGETS, limits_s=(3.0,))


@pytest.mark.parametrize("stream", [str(n) for n in range(10)])
@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_a_pattern_begins_with_the_fault_it_was_given(name: str, stream: str) -> None:
    pattern = PATTERNS[name]()
    cards = replace(deck(stream), targets=(*EVERYBODY, CoordinatorOf("orders-group")))
    first = next(
        fault for fault in (BrokerStop(), Link(), ClientLink()) if pattern.fits(fault, cards)
    )

    steps = pattern.steps(first, cards)

    assert steps[0].fault == first
    assert (steps[0].at_s, steps[0].after) == (0, None)
    assert all(step.after is not None or step.at_s > 0 for step in steps[1:])
    assert all(0 <= step.after.delay_s <= 2 for step in steps if step.after)
    assert all(1.5 <= step.hold_s <= 15 for step in steps)
    assert steps == pattern.steps(first, cards)


def _words(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    return [
        (describe(step.target)["name"], describe(step.after.event)["name"] if step.after else "")
        for step in steps
    ]


def test_clients_of_coordinators_are_cut_off_for_longer_than_they_wait() -> None:
    coordinators = CoordinatorOf("orders-group"), TransactionCoordinatorOf("transactor-0")
    cards = replace(deck(), targets=(*EVERYBODY, *coordinators), waits_s=(6.0, 10.0))

    strokes = [Late().steps(ClientLink(), replace(cards, stream=str(n)))[0] for n in range(40)]

    assert {step.target for step in strokes} == set(coordinators)
    assert all(15 <= step.hold_s <= 25 for step in strokes)
    assert not Late().fits(BrokerKill(), cards)
    assert not Late().fits(ClientLink(), deck())
    asked = replace(cards, hold_s=(2.0, 3.0))
    assert 2 <= Late().steps(ClientLink(), asked)[0].hold_s <= 3


def test_what_brokers_do_not_feel_is_part_of_no_other_pattern_but_alone() -> None:
    cards = replace(deck(), faults=(*FAULTS, ClientLink()), targets=EVERYBODY)

    fitting_it = {name for name in PATTERNS if PATTERNS[name]().fits(ClientLink(), cards)}

    assert fitting_it == {"alone"}
    assert all(cards.fault(str(n)) != ClientLink() for n in range(100))


def test_who_is_hit_and_after_what() -> None:
    kill, cards = BrokerKill(), deck()

    target, election = _words(Successor().steps(kill, cards))[1]
    assert (target, election) in {
        ("leader_of", "leader_elected"), ("controller", "controller_elected"),
    }  # fmt: skip
    assert [who for who, _ in _words(Returned().steps(kill, cards))] == ["follower_of", "leader_of"]
    assert _words(Relapse().steps(kill, cards)) == [("follower_of", ""), ("out_of_sync", "healed")]
    assert _words(LastInSync().steps(kill, cards)) == [
        ("isr_down_to", ""), ("leader_of", "isr_shrank"),
    ]  # fmt: skip
    assert [who for who, _ in _words(Alternation().steps(kill, cards))] == ["leader_of"] * 3
    cards = replace(cards, targets=EVERYBODY)
    assert _words(Divided().steps(Link(), cards)) == [
        ("two_followers", ""), ("leader_of", ""), ("leader_of", "leader_elected"),
    ]  # fmt: skip
    assert _words(Blackout().steps(kill, cards)) == [("all", ""), ("leader_of", "leader_elected")]


def test_a_division_lasts_until_the_second_leader_is_hit() -> None:
    for number in range(20):
        cards = replace(deck(str(number)), targets=EVERYBODY)
        cut, first, second = Divided().steps(Link(), cards)

        assert cut.hold_s >= first.at_s + first.hold_s
        assert second.after is not None


def test_only_who_takes_processes_away_blacks_out_and_only_a_link_divides() -> None:
    cards = replace(deck(), targets=EVERYBODY)

    assert Blackout().fits(BrokerKill(), cards)
    assert not Blackout().fits(Partition(), cards)
    assert not Blackout().fits(PowerLoss(), cards)
    assert not LastInSync().fits(PowerLoss(), cards)
    assert all(Divided().fits(fault, cards) for fault in (Link(), FetchStall()))
    # A link may hide the election from a follower.
    assert not Divided().fits(Link(), replace(cards, faults=(*FAULTS, FetchStall())))
    assert not Divided().fits(BrokerKill(), cards)
    assert not Divided().fits(Link(), deck())


def test_crashes_and_losses_of_power_are_dealt_more_often() -> None:
    faults = (BrokerKill(), PowerLoss(), BrokerStop(), Partition())
    drawn = Counter(
        replace(deck(str(number)), faults=faults).fault("next fault") for number in range(400)
    )

    # Three of eight each, and one of eight each.
    assert min(drawn[BrokerKill()], drawn[PowerLoss()]) > 110
    assert max(drawn[BrokerStop()], drawn[Partition()]) < 90


@pytest.mark.parametrize("pattern", [Successor(), LastInSync()])
def test_what_a_fault_brings_about_is_not_waited_for_long_after_it(pattern: Pattern) -> None:
    first, second = pattern.steps(Partition(), deck())

    assert second.after is not None
    assert second.after.within_s == first.hold_s + 5


def test_the_last_replica_in_sync_loses_data_or_is_gone_at_once() -> None:
    faults = (BrokerKill(), PowerLoss(), BrokerStop(), Partition())
    decks = [replace(deck(str(number)), faults=faults) for number in range(40)]

    second = {LastInSync().steps(Partition(), cards)[1].fault for cards in decks}
    kept, cut = (
        LastInSync().steps(Partition(), replace(deck(), faults=faults))[1].fault
        for faults in [(BrokerKill(), BrokerStop()), (Partition(),)]
    )

    assert second == {PowerLoss()}
    assert kept == BrokerKill()
    assert cut == Partition()


@pytest.mark.parametrize(
    ("coordinator", "election"),
    [
        (CoordinatorOf("g"), "coordinator_elected"),
        (TransactionCoordinatorOf("t"), "transaction_coordinator_elected"),
    ],
)
def test_the_next_coordinator_is_hit_after_its_election(coordinator: Target, election: str) -> None:
    cards = Deck(stream="7", faults=FAULTS, targets=(coordinator, RandomBroker()), hold_s=(1, 2))

    first, second = Successor().steps(BrokerKill(), cards)

    assert first.target == second.target == coordinator
    assert second.after is not None
    assert describe(second.after.event)["name"] == election


@pytest.mark.parametrize("pattern", [Returned(), Relapse(), LastInSync()])
@pytest.mark.parametrize("stream", [str(n) for n in range(10)])
def test_all_steps_speak_of_one_partition(pattern: Pattern, stream: str) -> None:
    steps = pattern.steps(BrokerKill(), deck(stream))

    places = {
        (step.target.topic, step.target.partition)
        for step in steps
        if isinstance(step.target, (LeaderOf, FollowerOf, OutOfSync, IsrDownTo))
    }
    assert len(places) == 1


def test_a_pattern_that_nobody_fits_is_refused() -> None:
    with pytest.raises(UsageError, match=r"No pattern \(successor\) can be made"):
        Mix(faults=(BrokerKill(),), targets=(RandomBroker(),), patterns=(Successor(),))


def test_a_link_comes_in_patterns_that_hit_pairs() -> None:
    cards = Deck(
        stream="7", faults=(Link(),), targets=(LeaderAndFollower("orders"), *TARGETS), hold_s=(1, 2)
    )

    assert Alone().fits(Link(), cards)
    assert Recovering().fits(Link(), cards)
    assert [step.fault for step in Recovering().steps(Link(), cards)] == [Link(), Link()]
    assert not any(p.fits(Link(), cards) for p in (Successor(), Returned(), LastInSync()))


def test_no_links_are_left_to_cut_between_all_brokers() -> None:
    assert fitting(Partition(), (AllBrokers(), Controller())) == (Controller(),)
    assert fitting(BrokerKill(), (AllBrokers(), Controller())) == (AllBrokers(), Controller())


@pytest.mark.parametrize("seed", range(20))
def test_another_kind_comes_in_between_and_changes_no_other_draw(seed: int) -> None:
    def dealt(*faults: Fault) -> list[Step]:
        mix = Mix(faults=faults, targets=TARGETS, limits_s=(3.0,), gap_s=1.0)
        return list(mix.steps(seed, 300))

    few = [(s.fault, s.target, s.hold_s) for s in dealt(*FAULTS)]
    more = [(s.fault, s.target, s.hold_s) for s in dealt(*FAULTS, PowerLoss())]

    kept = [entry for entry in more if entry[0] != PowerLoss()]
    assert len(kept) < len(more)
    assert kept == few[: len(kept)]


@pytest.mark.parametrize("seed", range(20))
def test_the_steps_of_a_pattern_stay_together(seed: int) -> None:
    schedule = SCENARIOS["search"]().schedule

    steps = schedule.steps(seed, 90)

    assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
    assert steps[0].after is None
    for before, step in pairwise(steps):
        assert (step.after is None) == (step.at_s > before.at_s)


def test_a_division_destroys_nothing_and_its_last_stroke_is_free_behind_the_cut() -> None:
    faults = (BrokerKill(), BrokerStop(), PowerLoss(), Partition(), Link())
    first: set[str] = set()
    last: set[str] = set()
    for n in range(50):
        dealt = replace(deck(str(n)), faults=faults, targets=EVERYBODY)
        _, *strokes = Divided().steps(Link(), dealt)
        for step, names in zip(strokes, (first, last), strict=True):
            names.add(describe(step.fault)["name"])

    assert first == {"broker_kill", "broker_stop", "partition"}
    assert last == {"broker_kill"}


@pytest.mark.parametrize("seed", range(20))
def test_every_pattern_has_its_turn_however_few_faults_it_can_begin_with(seed: int) -> None:
    schedule = SCENARIOS["search"]().schedule
    assert isinstance(schedule, Mix)

    # The first stroke of a division waits for no event either, but comes behind its cut.
    begun = [
        step.pattern
        for step in schedule.steps(seed, 1200)
        if step.after is None and (step.pattern != "divided" or fault_traits(step.fault).hits_pairs)
    ]

    names = {describe(pattern)["name"] for pattern in schedule.patterns}
    assert set(begun[: len(names)]) == names
    assert set(begun[len(names) : 2 * len(names)]) == names


@pytest.mark.parametrize("seed", range(5))
def test_a_stroke_behind_a_cut_takes_no_time_of_its_own(seed: int) -> None:
    faults, targets = (FetchStall(), BrokerKill()), (TwoFollowers("orders"), LeaderOf("orders"))
    mix = Mix(faults=faults, targets=targets, patterns=(Divided(),), hold_s=(8, 8))

    cuts = [step for step in mix.steps(seed, 90) if isinstance(step.fault, FetchStall)]

    # Seventeen seconds of a cut, and what is left of the last stroke.
    assert len(cuts) == 4
