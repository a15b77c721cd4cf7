"""Readers read."""

from collections import Counter
from collections.abc import Iterator, Sequence

from verifiers.adequacy.counted import ReadCount
from verifiers.adequacy.evidence import ClientEvidence, Evidence
from verifiers.adequacy.rule import Answer, judged, named, not_applicable, rule
from verifiers.run_folder.folder import TopicPartition, partition_name

NEAR_THE_END = 0.9
"""A consumer came close to the end if so much of a log's records lies at or below what it read."""
_FEW = 100
"""Of a partition with fewer records a consumer may have read none, if it read the others."""


@rule("readers-read")
def readers_read(evidence: Evidence) -> Answer:
    """Every consumer began at the start of its partitions, and came close to their ends.

    Close is nine tenths of the records of all its partitions together, and of each that has at
    least a hundred. The members of a group count as one reader. What a consumer passed over in
    between is for the checkers.
    """
    consumers = [client for client in evidence.clients.values() if client.role == "consumer"]
    if evidence.is_claim:
        return not_applicable("The script of the claim decides who reads what.")
    if not consumers:
        return not_applicable("The run has no consumers but those of the final read.")
    reasons: list[str] = []
    figures: dict[str, dict[str, float]] = {}
    for name, members, partitions in _readers(evidence, consumers):
        read = {tp: own for tp in partitions if (own := _merged(evidence, members, tp))}
        reasons += _late(evidence, name, read)
        reasons += _short(evidence, name, partitions, read, figures)
    return judged(reasons, share_read=figures)


def _readers(
    evidence: Evidence, consumers: Sequence[ClientEvidence]
) -> Iterator[tuple[str, Sequence[int], Sequence[TopicPartition]]]:
    """Yield each reader: its name, its processes, and the partitions that it must have read."""
    known = sorted(evidence.counted.final)
    groups: dict[tuple[str, str], list[ClientEvidence]] = {}
    for client in consumers:
        topic = str(client.settings.get("topic", ""))
        if client.mode == "assign":
            yield (
                f"Consumer {client.process}",
                [client.process],
                [tp for tp in known if tp[0] == topic and tp[1] in client.partitions],
            )
        else:
            config = client.settings.get("config")
            group = str(config.get("group.id", "")) if isinstance(config, dict) else ""
            groups.setdefault((group, topic), []).append(client)
    for (group, topic), members in groups.items():
        yield (
            f"The group {group}",
            [client.process for client in members],
            [tp for tp in known if not topic or tp[0] == topic],
        )


def _merged(evidence: Evidence, processes: Sequence[int], tp: TopicPartition) -> ReadCount | None:
    """Return what some processes read of a partition together; None if nothing."""
    polls = evidence.counted.polls
    reads = [polls[process, tp] for process in processes if (process, tp) in polls]
    if not reads:
        return None
    return ReadCount(
        rows=sum(read.rows for read in reads),
        first=min(read.first for read in reads),
        last=max(read.last for read in reads),
    )


def _late(evidence: Evidence, name: str, read: dict[TopicPartition, ReadCount]) -> Iterator[str]:
    final = evidence.counted.final
    late = [
        f"{partition_name(tp)} at {own.first} instead of {final[tp].first}"
        for tp, own in read.items()
        if own.first > final[tp].first
    ]
    if late:
        yield (
            f"{name} did not begin at the start of what it was to read: {named(late)}. What lay "
            "before was shown to nobody; its history may lack its beginning."
        )


def _short(
    evidence: Evidence,
    name: str,
    partitions: Sequence[TopicPartition],
    read: dict[TopicPartition, ReadCount],
    figures: dict[str, dict[str, float]],
) -> Iterator[str]:
    if not read:
        yield f"{name} was given no record at all: what consumers see was not tried."
        return
    final = evidence.counted.final
    passed = Counter({tp: max(0, own.last + 1 - final[tp].first) for tp, own in read.items()})
    length = {tp: final[tp].last + 1 - final[tp].first for tp in partitions}
    total = min(1.0, sum(passed.values()) / max(1, sum(length.values())))
    figures[name] = {"share": round(total, 3)}
    short = [
        f"{partition_name(tp)} to {final[tp].first + passed[tp]} of {final[tp].last + 1}"
        for tp in partitions
        if length[tp] >= _FEW and passed[tp] < NEAR_THE_END * length[tp]
    ]
    if short:
        yield (
            f"{name} did not come close to the end: it read {named(short)}. Let the run last "
            "longer after its faults, or send more slowly."
        )
    elif total < NEAR_THE_END:
        yield (
            f"{name} read {total:.0%} of what it was to read: let the run last longer after its "
            "faults, or send more slowly."
        )
