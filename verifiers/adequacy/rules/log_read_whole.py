"""All of the log was read."""

from collections.abc import Iterator, Mapping

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, named, rule
from verifiers.run_folder.folder import End, TopicPartition, partition_name

_DELETES = ("log.retention.", "retention.", "log.cleanup.", "cleanup.")
"""Settings of brokers and topics whose names begin so let Kafka delete records in order."""


@rule("log-read-whole")
def log_read_whole(evidence: Evidence) -> Answer:
    """The final read got every record of every partition, and every acknowledgement has a fate.

    The partitions are those that the cluster itself had at the end, that lie on a disk, or that
    run.json names. Of each, the final read must have as many rows as there are offsets from the
    log's start to its end, less control records and records of aborted transactions. And of all
    acknowledged records each was found, lost, unseen or deleted in order; none may be unseen.
    """
    ends = {(end.topic, end.partition): end for end in evidence.run.ends}
    if not ends:
        return judged(["There was no final read: what the log holds at the end is unknown."])
    partitions = _partitions(evidence)
    unread = list(_unread(partitions, ends))
    reasons = [f"The final read did not get to the end: {named(unread)}."] if unread else []
    if evidence.counts.acked and not evidence.counts.final:
        reasons.append("The final read gave no record at all.")
    rows: dict[str, dict[str, int]] = {}
    for tp, end in sorted(ends.items()):
        if end.complete:
            rows[partition_name(tp)] = counted = _rows(evidence, tp, end)
            reasons += _differing(tp, counted)
    fates = _fates(evidence)
    reasons += _unaccounted(evidence, fates)
    return judged(reasons, partitions=rows, acknowledged=fates)


def _partitions(evidence: Evidence) -> list[TopicPartition]:
    """Return the partitions that anybody knows of."""
    asked = {
        (topic, int(number))
        for topic, ends in evidence.run.meta.get("partitions_at_end", {}).items()
        for number in ends
    }
    copied = {
        (name.rpartition("-")[0], int(name.rpartition("-")[2]))
        for logs in evidence.replicas.document.get("brokers", {}).values()
        for name in logs
    }
    return sorted(evidence.planned_partitions | asked | copied)


def _unread(partitions: list[TopicPartition], ends: Mapping[TopicPartition, End]) -> Iterator[str]:
    for tp in partitions:
        end = ends.get(tp)
        if end is None:
            yield f"{partition_name(tp)} was not read at all"
        elif not end.complete:
            yield f"{partition_name(tp)} was read to {end.reached} of {end.high}"


def _rows(evidence: Evidence, tp: TopicPartition, end: End) -> dict[str, int]:
    """Return how many rows the final read of a partition has, and how many it must have."""
    final = evidence.counted.final.get(tp)
    gaps = [gap for (_, of), gap in evidence.counted.gaps.items() if of == tp]
    control, aborted = max(gaps, default=(0, 0))
    rows = 0 if final is None else final.rows
    return {
        "start": end.low,
        "end": end.reached,
        "control": control,
        "aborted": aborted,
        "rows": rows,
        "missing": end.reached - end.low - control - aborted - rows,
    }


def _differing(tp: TopicPartition, counted: Mapping[str, int]) -> Iterator[str]:
    if missing := counted["missing"]:
        than = "fewer" if missing > 0 else "more"
        yield (
            f"The final read of {partition_name(tp)} has {counted['rows']:,} rows, "
            f"{abs(missing):,} {than} than the log has records: its history is not whole, or the "
            "log has holes. Look at history/final and the brokers' logs."
        )


def _fates(evidence: Evidence) -> dict[str, int]:
    """Return what became of the acknowledged records; `unaccounted` have no fate."""
    fates = evidence.counted.fates
    acked = evidence.counts.acked
    found = acked - fates.doubtful + fates.found
    return {
        "acknowledged": acked,
        "found": found,
        "lost": fates.lost,
        "unseen": fates.unseen,
        "deleted": fates.deleted,
        "unaccounted": acked - found - fates.lost - fates.unseen - fates.deleted,
    }


def _unaccounted(evidence: Evidence, fates: Mapping[str, int]) -> Iterator[str]:
    if unseen := fates["unseen"]:
        yield (
            f"{unseen:,} acknowledged records were read by nobody, where the final read did not "
            "get to: whether they are lost is unknown."
        )
    if others := fates["unaccounted"]:
        yield (
            f"{others:,} acknowledged records were polled and are in no place that the final read "
            "covered: whether they are lost is unknown."
        )
    if fates["deleted"] and not _may_delete(evidence):
        yield (
            f"{fates['deleted']:,} acknowledged records lie below the first offset of their log, "
            "and the run neither shortened retention nor deleted records: look for who cut the "
            "front of the log."
        )


def _may_delete(evidence: Evidence) -> bool:
    # The script of a claim may call DeleteRecords; its own expectations say what must be left.
    config = evidence.run.meta.get("cluster", {}).get("config", {})
    return evidence.is_claim or any(str(name).startswith(_DELETES) for name in config)
