"""What a step can wait for: each event compares two looks at the cluster."""

from dataclasses import dataclass
from typing import ClassVar

from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, coordinating_partition
from harness.core.errors import UsageError
from harness.core.event import Need, event
from harness.core.view import PartitionState, View


@event("leader_elected")
@dataclass(frozen=True, slots=True)
class LeaderElected:
    """A partition has another leader than before, or one again."""

    topic: str
    partition: int = 0

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody leads who did not, or leads under a higher epoch."""
        return _is_elected(before, after, self.topic, self.partition)


@event("controller_elected")
@dataclass(frozen=True, slots=True)
class ControllerElected:
    """Another controller is active than before."""

    needs: ClassVar[frozenset[Need]] = frozenset({"controller"})

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody is the controller who was not."""
        return after.controller not in (None, before.controller)


@event("coordinator_elected")
@dataclass(frozen=True, slots=True)
class CoordinatorElected:
    """A consumer group has another coordinator than before, or one again."""

    topics: ClassVar[frozenset[str]] = frozenset({OFFSETS_TOPIC})

    group: str | None = None

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody leads the group's partition of __consumer_offsets anew."""
        return _has_coordinator_anew(before, after, OFFSETS_TOPIC, self.group)


@event("transaction_coordinator_elected")
@dataclass(frozen=True, slots=True)
class TransactionCoordinatorElected:
    """A transactional id has another coordinator than before, or one again."""

    topics: ClassVar[frozenset[str]] = frozenset({TRANSACTIONS_TOPIC})

    transactional_id: str | None = None

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody leads the id's partition of __transaction_state anew."""
        return _has_coordinator_anew(before, after, TRANSACTIONS_TOPIC, self.transactional_id)


@event("isr_shrank")
@dataclass(frozen=True, slots=True)
class IsrShrank:
    """A replica of a partition has left the ISR; with `replicas`, so many are left at most."""

    topic: str
    partition: int = 0
    replicas: int | None = None

    def __post_init__(self) -> None:
        """Reject an ISR of nobody.

        Raises:
            UsageError: fewer than one replica would be left.
        """
        if self.replicas is not None and self.replicas < 1:
            raise UsageError(f"An ISR does not shrink to {self.replicas}: choose 1 or more.")

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody is missing who was in sync, and few enough are left."""
        old, new = _states(before, after, self.topic, self.partition)
        if old is None or new is None or set(old.isr) <= set(new.isr):
            return False
        return self.replicas is None or len(new.isr) <= self.replicas


@event("isr_grew")
@dataclass(frozen=True, slots=True)
class IsrGrew:
    """A replica of a partition has come back into the ISR."""

    topic: str
    partition: int = 0

    def happens(self, before: View, after: View) -> bool:
        """Return whether somebody is in sync who was not."""
        old, new = _states(before, after, self.topic, self.partition)
        return old is not None and new is not None and not set(new.isr) <= set(old.isr)


@event("caught_up")
@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The last replica of a partition that was behind has caught up: its ISR is full again."""

    topic: str
    partition: int = 0

    def happens(self, before: View, after: View) -> bool:
        """Return whether the ISR is full, and was not."""
        old, new = _states(before, after, self.topic, self.partition)
        return old is not None and new is not None and not _is_full(old) and _is_full(new)


@event("broker_answers")
@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """A broker answers clients that did not: it has started again, or can be reached again."""

    def happens(self, before: View, after: View) -> bool:
        """Return whether one more answers."""
        return bool(after.answering - before.answering)


@event("healed")
@dataclass(frozen=True, slots=True)
class Healed:
    """A fault of the run has been taken back."""

    def happens(self, before: View, after: View) -> bool:
        """Return whether one more has."""
        return after.healed > before.healed


@event("commits_rest")
@dataclass(frozen=True, slots=True)
class CommitsRest:
    """The high watermark of a partition stands still for so many seconds."""

    needs: ClassVar[frozenset[Need]] = frozenset({"committed"})

    topic: str
    partition: int = 0
    for_s: float = 1.0

    def __post_init__(self) -> None:
        """Reject no time.

        Raises:
            UsageError: it is not more than 0.
        """
        _reject_no_time("commits_rest", self.for_s)

    def happens(self, before: View, after: View) -> bool:  # noqa: ARG002 (all are asked alike)
        """Return whether it has stood still for so long."""
        end = after.committed.get((self.topic, self.partition))
        return end is not None and end.rested_s >= self.for_s


@event("commits_resume")
@dataclass(frozen=True, slots=True)
class CommitsResume:
    """A record of a partition is committed that was idle for so many seconds."""

    needs: ClassVar[frozenset[Need]] = frozenset({"committed"})

    topic: str
    partition: int = 0
    idle_s: float = 3.0

    def __post_init__(self) -> None:
        """Reject no time.

        Raises:
            UsageError: it is not more than 0.
        """
        _reject_no_time("commits_resume", self.idle_s)

    def happens(self, before: View, after: View) -> bool:
        """Return whether the high watermark moved after it had stood still for so long."""
        place = self.topic, self.partition
        old, new = before.committed.get(place), after.committed.get(place)
        return (
            old is not None and new is not None
            and old.rested_s >= self.idle_s and new.offset > old.offset
        )  # fmt: skip


@event("group_rebalances")
@dataclass(frozen=True, slots=True)
class GroupRebalances:
    """A consumer group begins to rebalance."""

    needs: ClassVar[frozenset[Need]] = frozenset({"groups"})

    group: str | None = None

    def happens(self, before: View, after: View) -> bool:
        """Return whether its coordinator says so, and did not before."""
        if self.group is None:
            return False
        old, new = before.group_states.get(self.group), after.group_states.get(self.group)
        return _is_rebalancing(new) and not _is_rebalancing(old)


@event("transaction_prepared")
@dataclass(frozen=True, slots=True)
class TransactionPrepared:
    """A transaction coordinator has written that a transaction is to commit or to abort.

    Its markers are still to be written.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"transactions"})
    topics: ClassVar[frozenset[str]] = frozenset({TRANSACTIONS_TOPIC})

    def happens(self, before: View, after: View) -> bool:
        """Return whether one more has been prepared."""
        return after.prepared > before.prepared


def _states(
    before: View, after: View, topic: str, partition: int
) -> tuple[PartitionState | None, PartitionState | None]:
    place = topic, partition
    return before.partitions.get(place), after.partitions.get(place)


def _is_elected(before: View, after: View, topic: str, partition: int) -> bool:
    old, new = _states(before, after, topic, partition)
    if old is None or new is None or new.leader is None:
        return False
    before_epoch, epoch = old.leader_epoch, new.leader_epoch
    is_later = before_epoch is not None and epoch is not None and before_epoch < epoch
    return new.leader != old.leader or is_later


def _has_coordinator_anew(before: View, after: View, topic: str, name: str | None) -> bool:
    """Return whether the partition that a name belongs to has a leader anew; not without a name."""
    # How many partitions the topic has only the running cluster tells.
    partitions = sum(known == topic for known, _ in after.partitions)
    if name is None or not partitions:
        return False
    return _is_elected(before, after, topic, coordinating_partition(name, partitions))


def _is_full(state: PartitionState) -> bool:
    return state.leader is not None and set(state.isr) >= set(state.replicas)


def _is_rebalancing(state: str | None) -> bool:
    return state is not None and state.endswith("REBALANCING")


def _reject_no_time(name: str, seconds: float) -> None:
    if seconds <= 0:
        raise UsageError(f"{name} needs a time of more than 0 s, and {seconds:g} was given.")
