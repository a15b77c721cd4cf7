"""What can have lost an acknowledged record: changes of leaders, cut logs, faults under acks=0.

The contract alone excuses no loss. A record that was acknowledged and is gone was on some disk, or
on its way there, when something happened to its partition: another replica became the leader and
went on without it, or the log was cut below it. A producer with acks=0 waits for nothing, so what
it wrote into a connection may also die with the broker, or with the connection.

A change of leader alone excuses nothing under acks=all: every member of the ISR has the record.
Nor does it where the log went on above the record: the leader held another one in its place, and
was let into the ISR with it.
Nor does a last known leader, which leads for want of an ISR; but it may have lost its log, and that
it was in no ISR is told.
What faults destroyed does, if it was all there was: every replica that was in the ISR then, and at
least min.insync.replicas of them. One copy of several is lost with a record only if its broker
leads afterwards, so that the others cut off what it lacks.

Source: KIP-101 (whose log counts after an election), KIP-279 (others in its place), KIP-966
(acknowledged is not flushed), Kafka documentation, acks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product, zip_longest
from typing import Any

from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from verifiers.frames.history import ANY_PARTITION
from verifiers.replicas.copied import Replica, epoch_starts
from verifiers.replicas.cuts import Cut
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import FOR_EVER_NS, FaultSpan
from verifiers.situations.events import LeaderChange, RunEvents
from verifiers.spark.columns import BOOL
from verifiers.timeline.frames import SCHEMAS
from verifiers.timeline.partition_states import PartitionState

FLAGS = [field.name for field in SCHEMAS["loss_causes"] if field.dataType == BOOL]
"""The columns that say what kind of damage a row tells of."""

_STALE_NS = 30_000_000_000
"""So long after a change of leader, or a healing, a producer with acks=0 may still write to a
broker that drops what it is sent: it hears of it when its metadata is refreshed."""
_SOONEST_BACK_NS = 500_000_000
"""No broker leads sooner after its start: it loads its logs, registers, and is told of its lead."""
_KINDS = (
    (re.compile(r"led .*, neither in the ISR nor ()eligible"), "last known leader"),
    (re.compile(r"lost the lead of .*, under (\w+) of broker "), "change of leader under {}"),
    (re.compile(r"lost the lead of ()"), "change of leader"),
    (re.compile(r"^(\w+) of broker \d+ cut "), "log cut by {}"),
    (re.compile(r"^broker \d+ cut ()"), "log cut by its broker"),
    (re.compile(r"^(\w+) of broker .*, and acks=0$"), "{}"),
)
"""What the words of a cause say once brokers, partitions, offsets and times are left out."""


def loss_causes(events: RunEvents, replicas: Sequence[Replica]) -> list[dict[str, Any]]:
    """Return what can have lost records of the topics under test, as rows of that frame.

    Args:
        events: of the run.
        replicas: those that were copied, for where leader epochs begin.
    """
    if not events.timeline.states:
        # Who led is not known: whatever is lost may have been lost by that.
        destroys = _may_have_destroyed(events)
        return [
            _row(topic, ANY_PARTITION, None, destroys=destroys) for topic in sorted(events.tested)
        ]
    starts = epoch_starts(replicas)
    rows = [
        *(_of_change(events, change, starts) for change in events.tested_leader_changes),
        *(
            _of_last_known(events, change, starts)
            for change in events.last_known_leaders
            if change.partition[0] in events.tested
        ),
        *(
            _of_cut(events, at_ns, cut) | {"leads_no_more": _leads_no_more(events, at_ns, cut)}
            for at_ns, cut in events.cuts
            if cut.topic in events.tested
        ),
        *_of_destroyed_copies(events, events.tested),
        *_of_coordinators(events),
    ]
    if events.run.contract.acks == "0":
        rows += list(_of_faults(events))
    return rows


def taken_commits(events: RunEvents) -> list[dict[str, Any]]:
    """Return when faults took a copy of what groups had committed, as rows of that frame."""
    if not events.timeline.states:
        # Who led is not known, so nothing is laid to it.
        return []
    taken_ns = [at_ns for at_ns, cut in events.cuts if cut.cause and cut.topic == OFFSETS_TOPIC]
    return [{"topic": topic, "taken_ns": taken_ns} for topic in sorted(events.tested)]


def taken_notes(causes: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """Return since when faults had taken what transaction coordinators had noted.

    Args:
        causes: rows of `loss_causes`, of one run.

    Returns:
        `copy_taken_ns`, since when a copy of it, and `all_taken_ns`, since when every copy: columns
        of the frame of clients, on our monotonic clock. None if they did not, or if who led is not
        known, so that nothing is laid to it.
    """
    taken = [(row["at_ns"], row["destroys"]) for row in causes if row["is_of_coordinator"]]
    return {
        "copy_taken_ns": min((at_ns for at_ns, _ in taken), default=None),
        "all_taken_ns": min((at_ns for at_ns, destroys in taken if destroys), default=None),
    }


def copies_destroyed(events: RunEvents) -> bool:
    """Return whether faults destroyed every copy of some partition, of internal topics too."""
    if not events.timeline.states:
        return _may_have_destroyed(events)
    topics = {topic for topic, _ in events.timeline.states}
    return any(True for _ in _of_destroyed_copies(events, topics))


def _may_have_destroyed(events: RunEvents) -> bool:
    """Return whether a fault may have destroyed the only copy, where no ISR is known."""
    return events.run.contract.min_isr == 1 and any(cut.cause for _, cut in events.cuts)


def kind_of_cause(words: str) -> str:
    """Return what kind of cause some words of `loss_causes` tell of; themselves if of none.

    It names no broker, partition, offset or time, so that causes of different runs can be compared.
    """
    for form, kind in _KINDS:
        if match := form.search(words):
            return kind.format(match[1])
    return words


def _of_change(
    events: RunEvents,
    change: LeaderChange,
    starts: Mapping[TopicPartition, Sequence[tuple[int, int]]],
) -> dict[str, Any]:
    leader = change.after.leader
    begin = _begin(change, starts)
    led = "nobody" if leader is None else f"broker {leader}"
    words = (
        f"broker {change.before.leader} lost the lead of {change.where} to {led} at "
        f"{_seconds(events, change.at_ns)}"
    )
    if begin is not None:
        whose = "; the" if leader is None else ", whose"
        words += f"{whose} log went on at offset {begin:,}"
    if fault := events.cause_of(change):
        words += f", under {fault.name} of {_brokers(fault)} ({fault.id})"
    stale_ns = _STALE_NS if events.run.contract.acks == "0" else 0
    until_ns = change.at_ns + stale_ns
    return _row(
        *change.partition, words,
        at_ns=change.at_ns, until_ns=until_ns, cut_to=begin, is_lead=True,
    )  # fmt: skip


def _of_last_known(
    events: RunEvents,
    change: LeaderChange,
    starts: Mapping[TopicPartition, Sequence[tuple[int, int]]],
) -> dict[str, Any]:
    words = (
        f"broker {change.after.leader} led {change.where}, neither in the ISR nor eligible, from "
        f"{_seconds(events, change.at_ns)} on"
    )
    begin = _begin(change, starts)
    if begin is not None:
        words += f" at offset {begin:,}"
    return _row(
        *change.partition, words,
        at_ns=change.at_ns, until_ns=change.at_ns, cut_to=begin, is_last_known=True, is_lead=True,
    )  # fmt: skip


def _begin(
    change: LeaderChange, starts: Mapping[TopicPartition, Sequence[tuple[int, int]]]
) -> int | None:
    """Return the offset at which the log went on, under the next leader if nobody led at first.

    None if no epoch tells.
    """
    epochs = starts.get(change.partition, ())
    return next((since for epoch, since in epochs if epoch >= change.after.leader_epoch), None)


def _of_cut(events: RunEvents, at_ns: int, cut: Cut) -> dict[str, Any]:
    by = f"{cut.cause} of broker {cut.broker}" if cut.cause else f"broker {cut.broker}"
    words = (
        f"{by} cut {cut.topic}-{cut.partition} to offset {cut.to:,} at {_seconds(events, at_ns)}"
    )
    return _row(
        cut.topic, cut.partition, words,
        at_ns=at_ns, until_ns=at_ns, cut_to=cut.to, cut_end=cut.end, takes_a_copy=bool(cut.cause),
        is_reset=cut.is_reset,
    )  # fmt: skip


def _leads_no_more(events: RunEvents, at_ns: int, cut: Cut) -> bool:
    """Return whether it was a fault that cut a log, and its broker certainly led it no more.

    It did not if others led by the time it could again, and to the end of the run. Each state has
    to be known from the fault on: that of the ISR until the broker had lost what it lost, for it
    may have been alone in it, and after that those of the leaders, which differ in their epochs.
    """
    if not cut.cause:
        return False
    fault = next((each for each in events.faults if each.injected.get("time_ns") == at_ns), None)
    started_ns = fault.started_ns(cut.broker) if fault else None
    if fault is None or started_ns is None:
        return False
    back_ns = started_ns + _SOONEST_BACK_NS
    states = events.timeline.states.get(cut.topic_partition, ())
    for state, following in pairwise(states):
        if following.from_ns < fault.decided_ns:
            continue
        if following.after_ns <= at_ns and not state.joins_next:
            return False
        if following.leader_epoch > state.leader_epoch + 1:
            return False
        if following.from_ns >= back_ns and state.leader == cut.broker:
            return False
    return bool(states) and states[-1].leader != cut.broker and states[-1].to_ns >= back_ns


def _of_destroyed_copies(events: RunEvents, topics: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield rows for each cut by a fault with which the last copies in the ISR were gone.

    Cuts add up until the ISR is full again: from then on every replica has what the others have. A
    replica that was cut more than once may have lost a record by any of them, so there is a row for
    each choice of one cut a replica.
    """
    for partition, states in events.states(of=topics):
        cuts: list[tuple[int, Cut]] = []
        for at_ns, cut in events.cuts:
            if not cut.cause or cut.topic_partition != partition:
                continue
            if cuts and _is_full_between(events, states, cuts[-1][0], at_ns):
                cuts.clear()
            cuts.append((at_ns, cut))
            for gone in _choices(_gone(events, states, cuts)):
                yield _of_cut(events, at_ns, cut) | {
                    "until_ns": min(gone_ns for gone_ns, _ in gone),
                    "cut_to": max(each.to for _, each in gone),
                    "destroys": True,
                }


def _of_coordinators(events: RunEvents) -> Iterator[dict[str, Any]]:
    """Yield rows for what faults took of what transaction coordinators had noted.

    Which partition a transactional id belongs to is not asked: what a fault takes from any counts.
    """
    destroyed_ns = {row["at_ns"] for row in _of_destroyed_copies(events, {TRANSACTIONS_TOPIC})}
    hit = {
        (at_ns, cut.broker, cut.cause)
        for at_ns, cut in events.cuts
        if cut.cause and cut.topic == TRANSACTIONS_TOPIC
    }
    for topic, (at_ns, broker, cause) in product(sorted(events.tested), sorted(hit)):
        words = f"{cause} of broker {broker} cut {TRANSACTIONS_TOPIC} at {_seconds(events, at_ns)}"
        yield _row(
            topic, ANY_PARTITION, words,
            at_ns=at_ns, until_ns=at_ns, takes_a_copy=True, destroys=at_ns in destroyed_ns,
            is_of_coordinator=True,
        )  # fmt: skip


def _choices(cuts: Sequence[tuple[int, Cut]]) -> Iterator[Sequence[tuple[int, Cut]]]:
    """Yield each choice of one cut a broker that the cuts before the last one did not allow."""
    if not cuts:
        return
    by_broker: dict[int, list[tuple[int, Cut]]] = {}
    for each in cuts:
        by_broker.setdefault(each[1].broker, []).append(each)
    by_broker[cuts[-1][1].broker] = [cuts[-1]]
    yield from product(*by_broker.values())


def _is_full_between(
    events: RunEvents, states: Sequence[PartitionState], from_ns: int, to_ns: int
) -> bool:
    replicas = events.run.contract.replication_factor
    return any(
        len(state.isr) >= replicas and from_ns < state.after_ns and state.from_ns <= to_ns
        for state in states
    )


def _gone(
    events: RunEvents, states: Sequence[PartitionState], cuts: Sequence[tuple[int, Cut]]
) -> Sequence[tuple[int, Cut]]:
    """Return the cuts that destroyed every copy in the ISR at the last of them, none if one stayed.

    Where the ISR has fewer members than an acknowledgement needs, the copies of those that had left
    it count too.
    """
    at_ns, last = cuts[-1]
    fault = events.fault_on(last.broker, at_ns)
    since_ns = fault.decided_ns if fault else at_ns
    hit = {cut.broker for _, cut in cuts}
    needed = events.run.contract.min_isr
    for state, following in zip_longest(states, states[1:]):
        until_ns = following.from_ns if following else FOR_EVER_NS
        if state.after_ns > at_ns or until_ns < since_ns or not hit.issuperset(state.isr):
            continue
        if len(state.isr) >= needed:
            return [each for each in cuts if each[1].broker in state.isr]
        if len(hit) >= needed:
            return cuts
    return ()


def _of_faults(events: RunEvents) -> Iterator[dict[str, Any]]:
    for (topic, partition), states in events.states():
        replicas = {node for state in states for node in (*state.isr, *state.replicas)}
        for fault in events.faults:
            if fault.victims & replicas:
                words = (
                    f"{fault.name} of {_brokers(fault)} from {_seconds(events, fault.decided_ns)} "
                    f"to {_seconds(events, fault.end_ns)} ({fault.id}), and acks=0"
                )
                yield _row(
                    topic,
                    partition,
                    words,
                    at_ns=fault.decided_ns,
                    until_ns=fault.end_ns + _STALE_NS,
                    since_ns=fault.decided_ns - _STALE_NS,
                )


def _row(topic: str, partition: int, words: str | None, **known: Any) -> dict[str, Any]:  # noqa: ANN401 (columns)
    """Return a row; a time or an offset that is not given bounds nothing."""
    bounds = {"at_ns": 0, "since_ns": 0, "until_ns": FOR_EVER_NS, "cut_to": None, "cut_end": None}
    row = {"topic": topic, "partition": partition, "words": words}
    return {**row, **bounds, **dict.fromkeys(FLAGS, False), **known}


def _brokers(fault: FaultSpan) -> str:
    return "broker " + " and ".join(str(node) for node in sorted(fault.victims))


def _seconds(events: RunEvents, at_ns: int) -> str:
    return f"{(at_ns - events.run.origin_ns) / 1e9:.1f} s"
