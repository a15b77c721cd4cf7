"""Plants in high watermarks, ISR sizes and times of acknowledgements."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from harness.core.grouping import by_key
from harness.core.version import numbers
from verifiers.planting.new_clients import new_consumer_polls
from verifiers.planting.plant import Planted, offence_at, offence_of, plant, planted
from verifiers.planting.run_contents import NONE, Flags, NothingToPlant, RunContents, first_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition, partition_name
from verifiers.timeline.frames import MONOTONE_SINCE, asking_all, load
from verifiers.timeline.partition_states import PartitionState
from verifiers.timeline.windows import demands, high_watermarks

_SENDS_BACK = 3
_MARGIN = 1.05


@plant("hw-regression")
def hw_regression(copy: RunCopy) -> Planted:
    """Add a sample right before a leader's last one, with a higher high watermark.

    A later sample would bound earlier reads.
    """
    _demand_monotone(copy.contents)
    lacking = "no leader was asked for a high watermark after all earlier answers"
    last = first_of(_last_samples(copy.contents), lacking)
    at_ns, offset = int(last["asked_ns"]) - 1, int(last["offset"])
    higher = {**last, "offset": offset + 1, "asked_ns": at_ns, "answered_ns": at_ns}
    copy.add_lines("samples.jsonl", [higher])
    tp = (str(last["topic"]), int(last["partition"]))
    return planted(
        f"the leader of {partition_name(tp)} told {offset + 1}, then {offset}",
        offence_at("hw-regression", tp, offset, detail={"was": str(offset + 1)}),
    )


@plant("read-beyond-hw")
def read_beyond_hw(copy: RunCopy) -> Planted:
    """Let a consumer have been given a record before it was committed."""
    contents = copy.contents
    plain = by_key(contents.plain, attrgetter("topic_partition"))
    beyond = (
        (record, bound)
        for bound in contents.timeline_rows["ceilings"]
        for record in plain.get((bound["topic"], bound["partition"]), ())
        if record.offset >= max(bound["high_watermark"], bound["epoch_start"])
        and not contents.has_any(("read-beyond-hw",), record.topic_partition)
    )
    lacking = "no high watermark is known that bounds what may have been given"
    record, bound = first_of(beyond, lacking)
    new_consumer_polls(copy, record, time_ns=bound["to_ns"] - 1)
    return planted(
        f"a consumer was given {record.name} when the high watermark was {bound['high_watermark']}",
        offence_of(
            "read-beyond-hw", record, detail={"high_watermark": str(bound["high_watermark"])}
        ),
    )


@plant("acked-below-min-isr")
def acked_below_min_isr(copy: RunCopy) -> Planted:
    """Let a leader have said that its ISR was too small while it acknowledged sends.

    Where the ISR never was too small for the contract, the contract asks for one replica more than
    were in it.
    """
    contents = copy.contents
    producers = asking_all(contents.path)
    if not producers:
        raise NothingToPlant("no producer is known to have asked for acks=all")
    sends = contents.rows("send")
    invoked, completed = sends.numbers("invoke_ns"), sends.numbers("complete_ns")
    acked = sends.among("type", "ok") & sends.among("process", *producers)
    for min_isr, tp, state in _small(contents):
        within = (invoked >= state.from_ns) & (completed <= state.to_ns)
        within &= acked & contents.in_partition("send", tp)
        if not within.any():
            continue
        asked_ns = int(np.sort(invoked[within])[-_SENDS_BACK:][0])
        due = within & (invoked >= asked_ns)
        detail = {"leader": str(state.leader), "isr": ",".join(map(str, state.isr))}
        sample = {
            "sample": "isr-count", "topic": tp[0], "partition": tp[1], "asked_ns": asked_ns,
            "answered_ns": asked_ns, "broker": state.leader, "count": len(state.isr),
        }  # fmt: skip
        copy.add_lines("samples.jsonl", [sample])
        copy.edit_run(contract={**contents.run.meta["contract"], "min_isr": min_isr})
        return planted(
            f"the leader of {partition_name(tp)} said that {len(state.isr)} of "
            f"{min_isr} replicas were in sync, and went on to acknowledge {due.sum()} sends",
            *(
                offence_at("acked-below-min-isr", tp, *place, detail=detail)
                for _, *place in sends.cells(due, "offset", "value", "process")
            ),
        )
    raise NothingToPlant("no send was acknowledged while an ISR was known to be small")


@plant("unavailable")
def unavailable(copy: RunCopy) -> Planted:
    """Let the acknowledgements of a partition come after the time in which they were due.

    Where the scenario set no bound, it sets one that the run kept.
    """
    contents = copy.contents
    meta, sends = contents.run.meta, contents.rows("send")
    load_ns = load(meta)
    faults = list(contents.folder.lines("faults.jsonl"))
    spans = demands(faults, meta, load_ns) if load_ns else []
    acked = sends.among("type", "ok") & (sends.numbers("complete_ns") != NONE)
    placed = sends.numbers("partition") != NONE
    sent = sends.cells(placed, "topic", "partition")
    topic_partitions = sorted({(topic, partition) for _, topic, partition in sent})
    if not spans or not topic_partitions:
        raise NothingToPlant("at no time did the faults leave enough brokers under load")
    given_s = meta.get("available_within_s")
    widest_ns = max(_widest_ns(contents, tp, acked, spans) for tp in topic_partitions)
    bound_ns = round(float(given_s) * 1e9) if given_s else round(widest_ns * _MARGIN) + 1
    begin_ns, end_ns = max(spans, key=lambda span: span[1] - span[0])
    fit = [tp for tp in topic_partitions if not contents.has_any(("unavailable",), tp)]
    if end_ns - begin_ns <= bound_ns or not fit:
        raise NothingToPlant(
            f"the faults left enough for {(end_ns - begin_ns) / 1e9:.1f} s on end, and the bound "
            f"is {bound_ns / 1e9:.1f} s"
        )
    tp = fit[0]
    times = sends.numbers("complete_ns")
    late = acked & contents.in_partition("send", tp) & (times >= begin_ns) & (times <= end_ns)
    copy.put("send", late, complete_ns=end_ns + 1)
    if not given_s:
        copy.edit_run(available_within_s=bound_ns / 1e9)
    return planted(
        f"nothing was acknowledged in {partition_name(tp)} for {(end_ns - begin_ns) / 1e9:.1f} s",
        offence_at("unavailable", tp),
    )


def _demand_monotone(contents: RunContents) -> None:
    known = numbers(contents.run.kafka)
    if known and known < MONOTONE_SINCE:
        raise NothingToPlant(
            f"leaders of Kafka {contents.run.kafka} may take a high watermark back"
        )


def _last_samples(contents: RunContents) -> Iterator[Mapping[str, Any]]:
    """Yield the last sample of each partition and epoch that was asked after all answers."""
    sampled = high_watermarks(contents.timeline)
    by_epoch = by_key(sampled, itemgetter("topic", "partition", "leader_epoch"))
    for (topic, partition, _), samples in by_epoch.items():
        *others, last = sorted(samples, key=lambda sample: int(sample["asked_ns"]))
        in_order = all(
            int(sample["answered_ns"]) < int(last["asked_ns"]) - 1
            and int(sample["offset"]) <= int(last["offset"])
            for sample in others
        )
        if in_order and not contents.has_any(("hw-regression",), (topic, partition)):
            yield last


def _small(contents: RunContents) -> Iterator[tuple[int, TopicPartition, PartitionState]]:
    """Yield the stretches of a small ISR, with the contract under which it was too small.

    Such as no other stretch follows that would belong to it. Those that are too small as it is
    come first.
    """
    contract = contents.run.contract
    asked = any(sample.get("sample") == "isr-count" for sample in contents.timeline.samples)
    changed = any(contents.folder.lines("settings.jsonl"))
    wanted = [contract.min_isr]
    if not asked and not changed:
        # Else other stretches, already asked about, might become too small as well.
        wanted += range(contract.min_isr + 1, contract.replication_factor + 1)
    for min_isr in wanted:
        for tp, states in contents.timeline.states.items():
            for state, following in zip(states, [*states[1:], None], strict=True):
                goes_on = (
                    following is not None
                    and state.joins_next
                    and len(following.isr) < min_isr
                    and (following.leader, following.leader_epoch)
                    == (state.leader, state.leader_epoch)
                )
                small = state.leader is not None and len(state.isr) < min_isr
                if small and not goes_on and state.from_ns < state.to_ns:
                    yield min_isr, tp, state


def _widest_ns(
    contents: RunContents, tp: TopicPartition, acked: Flags, spans: Sequence[tuple[int, int]]
) -> int:
    """Return the longest time without an acknowledgement of a partition, where it counts."""
    times = np.sort(
        contents.rows("send").numbers("complete_ns")[acked & contents.in_partition("send", tp)]
    )
    widest = 0
    for begin_ns, end_ns in spans:
        within = times[(times >= begin_ns) & (times <= end_ns)]
        gaps = np.diff(np.concatenate(([begin_ns], within, [end_ns])))
        widest = max(widest, int(gaps.max()))
    return widest
