"""The oracle: which anomalies a contract permits, and why.

Finding and judging are apart: checkers report all they find, and this table alone says what of
it the producers and consumers had no right to rely on. What no row permits is forbidden.
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.core.contract import Contract
from verifiers.consumption import MAY_SKIP

DESTRUCTIVE_FAULTS = frozenset({"power_loss", "disk_loss", "disk_wipe", "tail_cut"})
"""Faults after which what a broker had not flushed, or had, is gone from its disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """All that the oracle judges by.

    Attributes:
        contract: what the workload was promised.
        kafka: version of the brokers, as on Maven Central.
        faults: names of the faults that were injected.
    """

    contract: Contract
    kafka: str
    faults: frozenset[str] = frozenset()

    @property
    def truncates_to_high_watermark(self) -> bool:
        """Whether followers cut their logs by high watermark, as up to 0.10.2 (KIP-101)."""
        version = _version(self.kafka)
        return bool(version) and version < (0, 11)

    @property
    def destroyed(self) -> bool:
        """Whether a fault took away data that a broker had."""
        return bool(self.faults & DESTRUCTIVE_FAULTS)

    @property
    def may_lose(self) -> bool:
        """Whether the contract lets acknowledged records be lost."""
        contract = self.contract
        alone = contract.min_isr == 1 and self.destroyed
        return contract.acks != "all" or contract.unclean_election or alone

    @property
    def may_repeat(self) -> bool:
        """Whether a producer may write a record twice."""
        return not self.contract.idempotent and self.contract.retries != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the oracle says of one kind of anomaly.

    Attributes:
        permitted: whether the contract permits it.
        why: one sentence, with its source.
        permits: what of the contract permits it, in a word or two; empty if nothing does.
    """

    permitted: bool
    why: str
    permits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row of the table: `kinds` empty stands for all of them; the first that fits rules."""

    anomaly: str
    kinds: frozenset[str | None] = frozenset()
    given: Callable[[Circumstances], bool] = lambda _: True
    permitted: bool = True
    permits: str = ""
    why: str

    def fits(self, anomaly: str, kind: str | None, circumstances: Circumstances) -> bool:
        """Tell whether this row speaks of the anomaly under these circumstances."""
        return (
            anomaly == self.anomaly
            and (not self.kinds or kind in self.kinds)
            and self.given(circumstances)
        )


def rule(anomaly: str, kind: str | None, circumstances: Circumstances) -> Ruling:
    """Return whether one kind of an anomaly is permitted, and why."""
    for row in (*_TABLE, *_GROUPS):
        if row.fits(anomaly, kind, circumstances):
            return Ruling(permitted=row.permitted, why=row.why, permits=row.permits)
    if anomaly in _NEVER:
        return Ruling(permitted=False, why=_NEVER[anomaly])
    return Ruling(permitted=False, why="No contract permits it.")


def _unclean(at: Circumstances) -> bool:
    return at.contract.unclean_election


def _old(at: Circumstances) -> bool:
    return at.truncates_to_high_watermark


def _acks(level: str) -> Callable[[Circumstances], bool]:
    return lambda at: at.contract.acks == level


def _alone_and_destroyed(at: Circumstances) -> bool:
    return at.contract.min_isr == 1 and at.destroyed


def _may_lose(at: Circumstances) -> bool:
    return at.may_lose


def _may_repeat(at: Circumstances) -> bool:
    return at.may_repeat


def _may_reorder(at: Circumstances) -> bool:
    return at.may_repeat and at.contract.max_in_flight > 1


def _kinds(*kinds: str | None) -> frozenset[str | None]:
    return frozenset(kinds)


_UNCLEAN = (
    "With unclean leader election on, a replica outside the ISR may lead, and what only the "
    "others held is gone (Kafka documentation, unclean.leader.election.enable; KAFKA-1028)."
)
_KIP_101 = (
    "The contract forbids it, though Kafka up to 0.10.2 is known for it: a follower cuts its log "
    "to its own high watermark, acknowledged records included (KIP-101, mended in 0.11)."
)
_ACKS_0 = (
    "Under acks=0 a producer waits for nothing: what it calls sent may never have arrived "
    "(Kafka documentation, acks)."
)
_ACKS_1 = (
    "Under acks=1 only the leader has the record when it is acknowledged; if another replica "
    "leads before it has copied the record, it is cut off (Kafka documentation, acks)."
)
_ACKED_ELSEWHERE = (
    "An acknowledged record that was lost gives its offset to another, and acks={} permits the "
    "loss itself."
)
_ALONE = (
    "With min.insync.replicas=1 an acknowledged record may lie on one broker only, and a fault "
    "of this run destroyed data on disk (KIP-966; acknowledged is not flushed)."
)
_KEEPS = (
    "acks=all acknowledges what the whole ISR holds, and with unclean election off only an ISR "
    "member leads (Kafka documentation, acks and replication design)."
)
_REPEATS = (
    "Without idempotence a producer that retries after a lost answer writes its record again "
    "(KIP-98)."
)
_REORDERS = (
    "Without idempotence and with more than one request in flight, a retry lets later requests "
    "pass (Kafka documentation, max.in.flight.requests.per.connection)."
)
_REBALANCED = (
    "Under `subscribe` the group may move a partition between two polls, back to its committed "
    "offset or past what another member read (jepsen.tests.kafka)."
)
_RESTARTED = (
    "After an unclean election the log may end below a consumer's position, which then starts "
    "over where auto.offset.reset says (KIP-320)."
)
_COMMITTED = (
    "Consumers read below the high watermark only: what they were given was committed, whatever "
    "the acks, and with unclean election off it stays (replication design, KIP-207)."
)
_COMMIT_STAYS = (
    "A commit is acknowledged when the whole ISR of the offsets topic has it, so the next "
    "coordinator knows of it too (Kafka documentation, offsets.commit.required.acks)."
)

_OUT_OF_SYNC = (
    "A replica outside the ISR is no copy: it may hold what was never committed, and cuts it off "
    "before it is let in again (Kafka documentation, replication design; KIP-101)."
)
_OLD_DIVERGENCE = (
    "Kafka up to 0.10.2 cuts followers by high watermark, and what lay above it on a broker that "
    "led before can stay there under other records' offsets (KIP-101, scenario 2)."
)
_ONE_LOG = (
    "Members of the ISR hold the same batches below the high watermark: since 0.11 a follower cuts "
    "its log by leader epoch before it copies (KIP-101)."
)

_TABLE: tuple[_Row, ...] = (
    # Acknowledged, and not there.
    _Row(anomaly="lost-write", given=_acks("0"), permits="acks=0", why=_ACKS_0),
    _Row(anomaly="lost-write", given=_acks("1"), permits="acks=1", why=_ACKS_1),
    _Row(anomaly="lost-write", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="lost-write",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(anomaly="lost-write", given=_old, permitted=False, why=_KIP_101),
    _Row(anomaly="lost-write", permitted=False, why=_KEEPS),
    _Row(
        anomaly="unseen",
        why=(
            "Nobody looked where these records should be: they are neither kept nor lost, and "
            "leave the verdict unknown instead."
        ),
    ),
    # One offset, two records.
    _Row(
        anomaly="inconsistent-offsets",
        kinds=_kinds("acks"),
        given=_acks("0"),
        permits="acks=0",
        why=_ACKED_ELSEWHERE.format(0),
    ),
    _Row(
        anomaly="inconsistent-offsets",
        kinds=_kinds("acks"),
        given=_acks("1"),
        permits="acks=1",
        why=_ACKED_ELSEWHERE.format(1),
    ),
    _Row(anomaly="inconsistent-offsets", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="inconsistent-offsets",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(anomaly="inconsistent-offsets", given=_old, permitted=False, why=_KIP_101),
    _Row(anomaly="inconsistent-offsets", kinds=_kinds("reads"), permitted=False, why=_COMMITTED),
    _Row(anomaly="inconsistent-offsets", permitted=False, why=_KEEPS),
    # One offset, another record on each disk.
    _Row(
        anomaly="replica-divergence",
        kinds=_kinds("out-of-sync"),
        permits="being outside the ISR",
        why=_OUT_OF_SYNC,
    ),
    _Row(
        anomaly="replica-divergence",
        given=_old,
        permits="Kafka before 0.11",
        why=_OLD_DIVERGENCE,
    ),
    _Row(anomaly="replica-divergence", permitted=False, why=_ONE_LOG),
    # Read, and gone.
    _Row(anomaly="dirty-read", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="dirty-read",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(anomaly="dirty-read", given=_old, permitted=False, why=_KIP_101),
    _Row(anomaly="dirty-read", permitted=False, why=_COMMITTED),
    # Written twice, or in another order.
    _Row(
        anomaly="duplicate", given=_may_repeat, permits="retrying without idempotence", why=_REPEATS
    ),
    _Row(
        anomaly="duplicate",
        kinds=_kinds("moved"),
        given=_unclean,
        permits="unclean election",
        why=_UNCLEAN,
    ),
    _Row(
        anomaly="duplicate",
        kinds=_kinds("moved"),
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(
        anomaly="duplicate",
        permitted=False,
        why="A producer that is idempotent, or never retries, writes a record once (KIP-98).",
    ),
    _Row(
        anomaly="nonmonotonic-send",
        kinds=_kinds("duplicate"),
        given=_may_repeat,
        permits="retrying without idempotence",
        why=f"{_REPEATS} Its last copy counts as its place.",
    ),
    _Row(
        anomaly="nonmonotonic-send",
        kinds=_kinds("lost"),
        given=_may_lose,
        permits="the loss itself",
        why=(
            "One of the two records was lost, as the contract permits, and the offset it was "
            "acknowledged at belongs to a log that was cut off."
        ),
    ),
    _Row(
        anomaly="nonmonotonic-send",
        given=_may_reorder,
        permits="retrying without idempotence",
        why=_REORDERS,
    ),
    _Row(
        anomaly="nonmonotonic-send",
        permitted=False,
        why=(
            "A producer that is idempotent, never retries or has one request in flight writes in "
            "the order it sends (KIP-98, KAFKA-5494)."
        ),
    ),
    # What consumers were given, in order.
    _Row(
        anomaly="nonmonotonic-poll",
        kinds=_kinds("subscribe"),
        permits="subscribing in a group",
        why=_REBALANCED,
    ),
    _Row(anomaly="nonmonotonic-poll", given=_unclean, permits="unclean election", why=_RESTARTED),
    _Row(
        anomaly="nonmonotonic-poll",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(
        anomaly="poll-skip",
        kinds=_kinds("subscribe"),
        permits="subscribing in a group",
        why=_REBALANCED,
    ),
    _Row(anomaly="poll-skip", given=_unclean, permits="unclean election", why=_RESTARTED),
    _Row(
        anomaly="poll-skip", given=_alone_and_destroyed, permits="min.insync.replicas=1", why=_ALONE
    ),
)

_GROUPS: tuple[_Row, ...] = (
    _Row(
        anomaly="consume-skip",
        kinds=_kinds(*MAY_SKIP),
        permits="committing before processing",
        why=(
            "A group that commits an offset before the record has been processed is promised at "
            "most once: what a member had in hand when it died is passed over (Kafka "
            "documentation, message delivery semantics)."
        ),
    ),
    _Row(anomaly="consume-skip", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="consume-skip",
        permitted=False,
        why=(
            "What is committed only after it has been processed is processed at least once (Kafka "
            "documentation, message delivery semantics)."
        ),
    ),
    _Row(
        anomaly="consume-repeat",
        kinds=_kinds("uncommitted"),
        permits="at-least-once processing",
        why=(
            "What a member had processed and not yet committed when its partition moved on is "
            "processed again (Kafka documentation, message delivery semantics)."
        ),
    ),
    _Row(anomaly="consume-repeat", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="consume-repeat",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(anomaly="consume-repeat", permitted=False, why=_COMMIT_STAYS),
    _Row(anomaly="lost-commit", given=_unclean, permits="unclean election", why=_UNCLEAN),
    _Row(
        anomaly="lost-commit",
        given=_alone_and_destroyed,
        permits="min.insync.replicas=1",
        why=_ALONE,
    ),
    _Row(anomaly="lost-commit", permitted=False, why=_COMMIT_STAYS),
)

_GIVEN_IN_ORDER = "A consumer is given a partition in the order of its offsets, none left out."
_NEVER = {
    "epoch-disorder": (
        "Leader epochs grow along a log, and an epoch has one leader, so epoch and offset name one "
        "batch: no contract permits otherwise (KIP-101)."
    ),
    "G1a": "What certainly failed must never be read: no contract permits it (Adya, G1a).",
    "phantom": "What nobody wrote must never be read: no contract permits it.",
    "corrupt-record": "A record must be read as it was written: no contract permits otherwise.",
    "nonmonotonic-poll": _GIVEN_IN_ORDER,
    "poll-skip": _GIVEN_IN_ORDER,
    "int-nonmonotonic-poll": f"{_GIVEN_IN_ORDER} Within one poll nothing excuses it.",
    "int-poll-skip": f"{_GIVEN_IN_ORDER} Within one poll nothing excuses it.",
}


def _version(text: str) -> tuple[int, ...]:
    parts: list[int] = []
    for part in text.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)
