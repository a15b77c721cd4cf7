"""Windows of time in which checkers may expect something.

When too few replicas were in sync, up to which offset consumers could read, and when the faults
left enough brokers for partitions to be writable.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from harness.core.cluster import voters
from harness.core.grouping import by_key
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import Line, fault_spans
from verifiers.timeline.partition_states import PartitionState, Timeline

_Row = dict[str, Any]

EpochStarts = Mapping[TopicPartition, Sequence[tuple[int, int]]]
"""Leader epochs of partitions, and the offsets at which they begin."""


def shortages(timeline: Timeline, min_isr: int) -> list[_Row]:
    """Return when an ISR certainly was too small: rows of that frame, without the producers.

    It begins when the leader itself has said that it holds so few in sync, while the committed
    state was the same: a leader need not act on metadata it has not received. It ends before the
    next state is appended that has more of them, or another leader. `min_isr` is the lowest
    min.insync.replicas that was in force.
    """
    few = (
        sample
        for sample in timeline.samples
        if sample.get("sample") == "isr-count" and int(sample["count"]) < min_isr
    )
    # A second answer within the same stretch adds nothing to the first.
    first: dict[tuple[str, int, int], _Row] = {}
    for sample in sorted(few, key=lambda sample: int(sample["answered_ns"])):
        tp, leader = (str(sample["topic"]), int(sample["partition"])), int(sample["broker"])
        asked_ns, answered_ns = int(sample["asked_ns"]), int(sample["answered_ns"])
        states = timeline.states.get(tp, ())
        for number, state in enumerate(states):
            if (
                state.from_ns <= asked_ns
                and answered_ns <= state.to_ns
                and state.leader == leader
                and len(state.isr) < min_isr
            ):
                to_ns = _lasts(states, number, min_isr)
                shortage = {
                    "topic": tp[0], "partition": tp[1], "from_ns": answered_ns, "to_ns": to_ns,
                    "leader": leader, "isr": ",".join(map(str, state.isr)),
                }  # fmt: skip
                first.setdefault((*tp, to_ns), shortage)
    return list(first.values())


def _lasts(states: Sequence[PartitionState], number: int, min_isr: int) -> int:
    """Return until when the ISR certainly stayed too small under one leader."""
    state = states[number]
    while state.joins_next and number + 1 < len(states):
        number += 1
        following = states[number]
        same = (following.leader, following.leader_epoch) == (state.leader, state.leader_epoch)
        if not same or len(following.isr) >= min_isr:
            break
        state = following
    return state.to_ns


def high_watermarks(timeline: Timeline) -> list[Mapping[str, Any]]:
    """Return the samples of high watermarks whose leader epoch is known, in their order."""
    return [
        sample
        for sample in timeline.samples
        if sample.get("sample") == "high-watermark" and sample.get("leader_epoch") is not None
    ]


def ceilings(timeline: Timeline, starts: EpochStarts) -> list[_Row]:
    """Return up to which offset could be read, from one sample of a partition to the next.

    They are the rows of that frame: the high watermark was no higher when it was asked for, in the
    same leader epoch.

    A high watermark does not fall within a leader epoch, so what it is found to be later bounds
    what consumers may have been given before; but only while no other broker can have led: a
    leader that was deposed and does not know it answers with what it had. So a stretch lies within
    one epoch, by the committed states. Consumers too ask whoever was deposed until he hears of it,
    and he may have a higher high watermark than his successor begins with: only records of the
    epoch itself are bound, which he never had.

    Args:
        timeline: of the run.
        starts: leader epochs and where they begin, by partition; those that are not in it have no
            record, or are not known, and bound nothing.
    """
    sampled = by_key(high_watermarks(timeline), itemgetter("topic", "partition", "leader_epoch"))
    found: list[_Row] = []
    for (topic, partition, epoch), samples in sampled.items():
        reign = _reign(timeline.states.get((topic, partition), ()), epoch)
        start = dict(starts.get((topic, partition), ())).get(epoch)
        if reign is None or start is None:
            continue
        ordered = sorted(samples, key=lambda sample: int(sample["asked_ns"]))
        begins = [0, *(int(sample["asked_ns"]) for sample in ordered)]
        lowest: tuple[int, int] | None = None
        # The high watermark of a sample bounds every earlier read.
        for begin_ns, sample in reversed(list(zip(begins, ordered, strict=False))):
            offset, asked_ns = int(sample["offset"]), int(sample["asked_ns"])
            if lowest is None or offset <= lowest[0]:
                lowest = (offset, asked_ns)
            from_ns, to_ns = max(begin_ns, reign[0]), min(asked_ns, reign[1])
            if from_ns < to_ns:
                found.append(
                    {
                        "topic": topic, "partition": partition, "from_ns": from_ns, "to_ns": to_ns,
                        "high_watermark": lowest[0], "leader_epoch": epoch, "epoch_start": start,
                        "asked_ns": lowest[1],
                    }
                )  # fmt: skip
    return found


def _reign(states: Sequence[PartitionState], epoch: int) -> tuple[int, int] | None:
    """Return from when and until when an epoch certainly was the latest; None if never."""
    own_states = [state for state in states if state.leader_epoch == epoch]
    if not own_states:
        return None
    newer = [state.after_ns for state in states if state.leader_epoch > epoch]
    until_ns = min(newer) if newer else states[-1].to_ns
    return own_states[0].from_ns, until_ns


def demands(
    lines: Iterable[Line], meta: Mapping[str, Any], load_ns: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return when partitions must be writable: the faults leave enough brokers, and clients send.

    Enough are min.insync.replicas of any partition's replicas, and a majority of the controllers.
    A fault hits its victims from its decision until it is healed, whatever it does to them. The
    lines are those of faults.jsonl, `load_ns` is when the first send was invoked, and the last.
    """
    faults = fault_spans(lines)
    points = sorted({*load_ns, *(t for fault in faults for t in (fault.decided_ns, fault.end_ns))})
    found: list[tuple[int, int]] = []
    for begin_ns, end_ns in pairwise(points):
        if not load_ns[0] <= begin_ns < end_ns <= load_ns[1]:
            continue
        hit = frozenset[int]().union(
            *(f.victims for f in faults if f.decided_ns < end_ns and begin_ns < f.end_ns)
        )
        if _is_enough(hit, meta):
            if found and found[-1][1] == begin_ns:
                found[-1] = (found[-1][0], end_ns)
            else:
                found.append((begin_ns, end_ns))
    return found


def _is_enough(hit: frozenset[int], meta: Mapping[str, Any]) -> bool:
    cluster, contract = meta.get("cluster", {}), meta["contract"]
    number, isolated = int(cluster.get("brokers", 0)), int(cluster.get("controllers", 0))
    brokers = set(range(1, number + 1))
    copies = int(contract.get("replication_factor", 1))
    least = max(1, int(contract.get("min_isr", 1)))
    if len(hit & brokers) > copies - least:
        return False
    if cluster.get("metadata") == "zookeeper":
        return hit <= brokers
    electors = voters(brokers=number, controllers=isolated)
    return len(hit.intersection(electors)) <= (len(electors) - 1) // 2
