"""How a few faults hang together: most windows in which records are lost follow an event.

Windows of milliseconds to a second are hit by a step that waits for what opens them, and by
independent draws hardly ever.
"""

from dataclasses import dataclass, replace

from faults.events import BrokerAnswers, Healed, IsrGrew, IsrShrank
from faults.targets import (
    AllBrokers,
    CoordinatorOf,
    FollowerOf,
    IsrDownTo,
    LeaderOf,
    OutOfSync,
    TransactionCoordinatorOf,
    TwoFollowers,
)
from harness.core.event import Event
from harness.core.fault import Fault, FaultTraits, Target, fault_traits
from harness.core.pattern import Deck, is_elected, pattern
from harness.core.scenario import LONGEST_WAIT_S, After, Step

_CUT_S = 1.0
"""Time for a cut to be in force before the leader is hit, seconds."""
_LATE_S = 5.0
"""What a fault does not bring about so soon after its hold, it does not bring about, seconds."""


@pattern("successor")
@dataclass(frozen=True, slots=True)
class Successor:
    """Whoever has a role by election is hit, and so is the successor, right after the election."""

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether anybody here is elected whom the fault can hit."""
        return fault_traits(fault).takes_roles and any(map(is_elected, deck.targets))

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        target, election = deck.elected("target")
        hold_s, other = _longest(deck, "hold"), deck.fault("next fault")
        return (
            Step(at_s=0, fault=fault, target=target, hold_s=hold_s),
            _following(election, other, target, deck, within_s=hold_s + _LATE_S),
        )


@pattern("returned")
@dataclass(frozen=True, slots=True)
class Returned:
    """A follower is hit, and the leader as soon as the follower is back."""

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether a partition is among the targets, and the fault hits no pairs."""
        return _has_partition(fault, deck)

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        leader = _partition(deck)
        place = leader.topic, leader.partition
        back = deck.one_of("event", (IsrGrew(*place), *_back(fault)))
        return (
            Step(at_s=0, fault=fault, target=FollowerOf(*place), hold_s=_longest(deck, "hold")),
            _following(back, deck.fault("next fault"), leader, deck),
        )


@pattern("recovering")
@dataclass(frozen=True, slots=True)
class Recovering:
    """Somebody is hit, and during the recovery somebody else."""

    def fits(self, fault: Fault, deck: Deck) -> bool:  # noqa: ARG002 (all are asked alike)
        """Return whether brokers have something to recover from."""
        return not fault_traits(fault).cuts_clients

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        back = deck.one_of("event", _back(fault))
        other = deck.fault("next fault")
        return (
            Step(
                at_s=0,
                fault=fault,
                target=deck.target("target", fault),
                hold_s=deck.hold_s_of("hold"),
            ),
            _following(back, other, deck.target("next target", other), deck),
        )


@pattern("relapse")
@dataclass(frozen=True, slots=True)
class Relapse:
    """A follower is hit, healed, and hit again before it has caught up."""

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether a partition is among the targets, and the fault hits no pairs."""
        return _has_partition(fault, deck)

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        leader = _partition(deck)
        place = leader.topic, leader.partition
        return (
            Step(at_s=0, fault=fault, target=FollowerOf(*place), hold_s=_longest(deck, "hold")),
            _following(Healed(), fault, OutOfSync(*place), deck),
        )


@pattern("last_in_sync")
@dataclass(frozen=True, slots=True)
class LastInSync:
    """All followers of a partition are hit, and the last replica in sync loses what it has.

    A crash takes nothing from it: it leads again with all that was acknowledged.
    """

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether a partition is among the targets, and the followers keep their data."""
        return _has_partition(fault, deck) and not fault_traits(fault).destroys_data

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        leader = _partition(deck)
        place = leader.topic, leader.partition
        hold_s, destroying = 2 * _longest(deck, "hold"), deck.destroying("next fault")
        shrank = IsrShrank(*place, replicas=1)
        return (
            Step(at_s=0, fault=fault, target=IsrDownTo(1, *place), hold_s=hold_s),
            _following(shrank, destroying, leader, deck, within_s=hold_s + _LATE_S),
        )


@pattern("alternation")
@dataclass(frozen=True, slots=True)
class Alternation:
    """One leader after the other is hit, each as soon as the one before is back."""

    turns: int = 3

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether a partition is among the targets, and the fault hits no pairs."""
        return _has_partition(fault, deck)

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return all strokes, of one kind."""
        leader = _partition(deck)
        back = deck.one_of("event", _back(fault))
        return tuple(
            Step(
                at_s=0, fault=fault, target=leader, hold_s=deck.hold_s_of(f"hold {turn}"),
                after=After(event=back, delay_s=deck.delay_s(f"delay {turn}")) if turn else None,
            )
            for turn in range(self.turns)
        )  # fmt: skip


@pattern("divided")
@dataclass(frozen=True, slots=True)
class Divided:
    """Two followers of a partition cannot copy from each other, and leader after leader is hit.

    Whoever is elected next cannot be followed by the other one, which is still in sync. Nothing is
    destroyed: what is lost then, Kafka has cut off. Where there is a fault that swallows fetches
    alone, a link is not cut: with ZooKeeper the controller may be behind it, and the other follower
    would not hear of the election.
    """

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether the fault parts two brokers, and two followers are among the targets."""
        traits = fault_traits(fault)
        is_best = traits.reads_requests or not any(map(_stalls_fetches, deck.faults))
        has_followers = any(isinstance(target, TwoFollowers) for target in deck.targets)
        return traits.hits_pairs and traits.cuts_links and is_best and has_followers

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return the cut, which lasts longest, and both strokes."""
        followers = [target for target in deck.targets if isinstance(target, TwoFollowers)]
        pair = deck.one_of("partition", followers)
        leader = LeaderOf(pair.topic, pair.partition)
        hold_s = _longest(deck, "first hold")
        cut_s = _CUT_S + hold_s + deck.hold_s_of("hold")
        election, other = leader.election(), deck.only(_is_free_behind_a_cut).fault("last fault")
        last = _following(election, other, leader, deck, within_s=hold_s + _LATE_S)
        return (
            Step(at_s=0, fault=fault, target=pair, hold_s=cut_s),
            Step(
                at_s=_CUT_S,
                fault=deck.only(_keeps_disks).fault("next fault"),
                target=leader,
                hold_s=hold_s,
            ),
            replace(last, at_s=_CUT_S, hold_s=_longest(deck, "next hold")),
        )


@pattern("blackout")
@dataclass(frozen=True, slots=True)
class Blackout:
    """All brokers are hit at once, and a leader again as soon as one is elected.

    Not with a fault that destroys data: no contract survives that on every broker.
    """

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether the fault takes processes away and leaves their disks as they are."""
        traits = fault_traits(fault)
        is_harmless = traits.stops_process and not traits.destroys_data
        return is_harmless and _has_partition(fault, deck)

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return both strokes."""
        leader = _partition(deck)
        return (
            Step(at_s=0, fault=fault, target=AllBrokers(), hold_s=deck.hold_s_of("hold")),
            _following(leader.election(), deck.fault("next fault"), leader, deck),
        )


@pattern("late")
@dataclass(frozen=True, slots=True)
class Late:
    """A coordinator's clients are cut off for longer than they wait for its answers.

    They ask again as soon as they can, and what they had asked may still be on its way: TCP sends
    it again later, up to as long after the healing as the cut had lasted.
    """

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether the fault cuts off clients, and a coordinator is among the targets."""
        return fault_traits(fault).cuts_clients and bool(_coordinators(deck))

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return the one stroke."""
        target = deck.one_of("coordinator", _coordinators(deck))
        return (Step(at_s=0, fault=fault, target=target, hold_s=deck.outlasting_s("hold")),)


def _coordinators(deck: Deck) -> list[Target]:
    kinds = CoordinatorOf, TransactionCoordinatorOf
    return [target for target in deck.targets if isinstance(target, kinds)]


def _stalls_fetches(fault: Fault) -> bool:
    traits = fault_traits(fault)
    return traits.hits_pairs and traits.reads_requests


def _keeps_disks(traits: FaultTraits) -> bool:
    return not (traits.hits_pairs or traits.destroys_data)


def _is_free_behind_a_cut(traits: FaultTraits) -> bool:
    """Return whether a broker can be hit so while a link of it is cut: not cut off, nor shut down.

    Any other fault would come when the cut is over.
    """
    return _keeps_disks(traits) and not traits.cuts_links and traits.ends_lead_by != "shutdown"


def _following(
    event: Event, fault: Fault, target: Target, deck: Deck, *, within_s: float = LONGEST_WAIT_S
) -> Step:
    """Return the second stroke of a pattern, 0 to 2 s after an event."""
    return Step(
        at_s=0,
        fault=fault,
        target=target,
        hold_s=deck.hold_s_of("next hold"),
        after=After(event=event, delay_s=deck.delay_s("delay"), within_s=within_s),
    )


def _back(fault: Fault) -> tuple[Event, ...]:
    """Return by what it shows that a victim is back: only who was gone answers again."""
    return (BrokerAnswers(), Healed()) if fault_traits(fault).stops_process else (Healed(),)


def _has_partition(fault: Fault, deck: Deck) -> bool:
    has_partition = any(isinstance(target, LeaderOf) for target in deck.targets)
    return has_partition and fault_traits(fault).takes_roles


def _partition(deck: Deck) -> LeaderOf:
    leaders = [target for target in deck.targets if isinstance(target, LeaderOf)]
    return deck.one_of("partition", leaders)


def _longest(deck: Deck, draw: str) -> float:
    """Return a hold that the cluster does not miss, as far as the deck's holds go."""
    return max(deck.hold_s_of(f"{draw} {turn}") for turn in range(3))
