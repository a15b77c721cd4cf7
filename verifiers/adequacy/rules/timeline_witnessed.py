"""Witnesses of the timeline."""

from collections.abc import Iterator, Sequence

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, named, not_applicable, rule
from verifiers.run_folder.folder import TopicPartition, partition_name
from verifiers.timeline.partition_states import PartitionState


@rule("timeline-witnessed")
def timeline_witnessed(evidence: Evidence) -> Answer:
    """Leaders, ISRs and high watermarks of every partition are known from first to last fault.

    The committed states come from the controllers' log of the metadata, or from ZooKeeper; that
    leaders and ISRs were watched, and high watermarks sampled, is in timeline.jsonl and
    samples.jsonl.
    """
    timeline, faults = evidence.timeline.timeline, evidence.events.faults
    if not faults:
        return not_applicable("No fault was injected.")
    begin_ns = min(fault.decided_ns for fault in faults)
    end_ns = max(fault.end_ns for fault in faults)
    planned = sorted(evidence.planned_partitions)
    watched = {(str(line["topic"]), int(line["partition"])) for line in timeline.lines}
    sampled = {
        (str(sample["topic"]), int(sample["partition"]))
        for sample in timeline.samples
        if sample.get("sample") == "high-watermark"
    }
    reasons = [
        *_lacking("Nobody watched who led", "timeline.jsonl", planned, watched),
        *_lacking("The high watermark was never sampled of", "samples.jsonl", planned, sampled),
    ]
    cluster = evidence.run.meta.get("cluster", {})
    # A Compose file of the user's may keep the metadata where nobody finds it.
    if timeline.source == "polled" and not cluster.get("compose"):
        reasons.append(
            "The committed leaders and ISRs are not known: the log of the cluster's metadata was "
            "not kept, or its times could not be placed on our clock. See cluster/*/metadata."
        )
    elif timeline.states:
        unknown = [
            partition_name(tp)
            for tp in planned
            if not _covers(timeline.states.get(tp, ()), begin_ns, end_ns)
        ]
        if unknown:
            reasons.append(
                f"The committed leader and ISR of {named(unknown)} are not known from the first "
                "fault to the last: the log of the cluster's metadata is not whole."
            )
    asked = [int(sample["asked_ns"]) for sample in timeline.samples]
    if asked and not (min(asked) <= begin_ns and end_ns <= max(asked)):
        reasons.append(
            "Samples were not taken from the first fault to the last: samples.jsonl is not whole."
        )
    return judged(
        reasons,
        source=timeline.source,
        states=sum(len(states) for tp, states in timeline.states.items() if tp in set(planned)),
        samples=len(timeline.samples),
    )


def _lacking(
    what: str, file: str, planned: list[TopicPartition], known: set[TopicPartition]
) -> Iterator[str]:
    lacking = [partition_name(tp) for tp in planned if tp not in known]
    if lacking:
        yield f"{what} {named(lacking)}: {file} is not whole."


def _covers(states: Sequence[PartitionState], begin_ns: int, end_ns: int) -> bool:
    return bool(states) and states[0].from_ns <= begin_ns and end_ns <= states[-1].to_ns
