"""The settings that a search draws for each run, from a documented set for every version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

from harness.core.contract import Contract
from harness.core.version import (
    FIRST_IDEMPOTENCE,
    FIRST_KRAFT,
    FIRST_WITH_LARGE_SEGMENTS,
    SMALLEST_SEGMENT,
    numbers,
)

Flags = Mapping[str, Any]
_SMALL = ("16384", "65536", str(SMALLEST_SEGMENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One setting, and the values that it is drawn from.

    Attributes:
        name: of the setting, as a flag has it; of a broker property, the property.
        values: each as likely as the others.
        why: what the values make likelier.
        since: the first version that knows it.
        workloads: those that have it, be it chosen or the default; empty: all have.
    """

    name: str
    values: Callable[[tuple[int, ...]], Sequence[Any]]
    why: str
    since: tuple[int, ...] = ()
    workloads: tuple[str, ...] = ()

    def one(self, stream: str, version: tuple[int, ...]) -> Any:  # noqa: ANN401 (any flag's)
        """Return the value that a stream draws for a version."""
        return Random(f"{stream}/{self.name}").choice(self.values(version))  # noqa: S311 (a draw that its seed repeats, no secret)

    def in_turn(self, stream: str, number: int, version: tuple[int, ...]) -> Any:  # noqa: ANN401 (any flag's)
        """Return the value with a number, from 0: each comes once before any comes again."""
        values = list(self.values(version))
        deal, place = divmod(number, len(values))
        Random(f"{stream}/{self.name}/{deal}").shuffle(values)  # noqa: S311 (a draw that its seed repeats, no secret)
        return values[place]


def _of(*values: Any) -> Callable[[tuple[int, ...]], Sequence[Any]]:  # noqa: ANN401 (any flag's)
    return lambda _: values


def _segment_bytes(version: tuple[int, ...]) -> Sequence[str]:
    return _SMALL[-1:] if version >= FIRST_WITH_LARGE_SEGMENTS else _SMALL


CLUSTERS: tuple[Draw, ...] = (
    Draw(
        name="controllers",
        values=_of(0, 1, 1),
        why="brokers may all be gone but one, and the metadata still moves",
        since=FIRST_KRAFT,
    ),
)
"""Drawn for several runs, which share a cluster of ours that has no ZooKeeper."""

BROKERS: tuple[Draw, ...] = (
    Draw(
        name="log.segment.bytes",
        values=_segment_bytes,
        why="a log of many segments is cut, rolled and recovered more often",
    ),
    Draw(
        name="replica.lag.time.max.ms",
        values=_of("3000", "10000"),
        why="followers leave the ISR within a hold, or stay in it while they miss everything",
    ),
    Draw(
        name="replica.fetch.wait.max.ms",
        values=_of("50", "500", "2000"),
        why="a follower hears late of what is committed",
    ),
    Draw(
        name="offsets.topic.num.partitions",
        values=_of("1", "50"),
        why="one broker coordinates every group",
    ),
    Draw(
        name="offsets.load.buffer.size",
        values=_of("16384", "5242880"),
        why="a new coordinator loads offsets in many parts",
    ),
    Draw(
        name="transaction.state.log.num.partitions",
        values=_of("1", "50"),
        why="one broker coordinates every transaction",
        since=FIRST_IDEMPOTENCE,
    ),
    Draw(
        name="compression.type",
        values=_of("producer", "producer", "gzip"),
        why="brokers compress what came otherwise anew",
    ),
)
"""Properties of brokers, drawn for several runs, which share a cluster."""

RUNS: tuple[Draw, ...] = (
    Draw(name="replication_factor", values=_of(3, 3, 2), why="fewer replicas are left"),
    Draw(name="min_isr", values=_of(2, 1), why="a smaller ISR goes on acknowledging"),
    Draw(
        name="unclean_election",
        values=_of(None, None, "on"),
        why="a replica outside the ISR may lead",
    ),
    Draw(
        name="rate",
        values=_of("10", "60", "300", "1000"),
        why="partitions without a record between two elections, single records, and a flood",
        workloads=("send_poll", "transactional"),
    ),
    Draw(
        name="rate",
        values=_of("10", "60", "300"),
        why="members have time to catch up, or the end of a run would wait for them",
        workloads=("consumer_group",),
    ),
    Draw(name="record_size", values=_of(100, 100, 2000), why="batches of another length"),
    Draw(name="linger_ms", values=_of(0.0, 5.0, 100.0), why="small batches and large ones"),
    Draw(name="compression", values=_of("none", "lz4"), why="batches that are opened late"),
    Draw(name="topic_partitions", values=_of(2, 6), why="idle partitions, and busy ones"),
    Draw(name="producers", values=_of(1, 3), why="one session, or several"),
    Draw(
        name="quiet",
        values=_of(None, None, "3s", "15s"),
        why="a follower knows an old high watermark, and a lone record comes after it",
        workloads=("send_poll",),
    ),
    Draw(
        name="producer_life",
        values=_of(None, None, "3s"),
        why="brokers know many producers, and new ones while they recover",
        workloads=("send_poll",),
    ),
    Draw(
        name="transaction_timeout",
        values=_of("60s", "60s", "10s"),
        why="coordinators abort what faults or applications delay",
        workloads=("transactional",),
    ),
    Draw(
        name="think_time",
        values=_of(None, None, "3s", "30s"),
        why="transactions are open while faults come, and beyond their timeout",
        workloads=("transactional",),
    ),
    Draw(
        name="partition_eof",
        values=_of(None, "on"),
        why="the end of a partition is handed over among its records",
        workloads=("consumer_group",),
    ),
    Draw(
        name="commit_position",
        values=_of(None, "on"),
        why="the client says what is committed, and not the application",
        workloads=("consumer_group",),
    ),
)
"""Drawn for each run: the contract, and the shape of the load."""


def drawn(flags: Flags, stream: str, *, clusters: str, cluster: int, kafka: str) -> dict[str, Any]:
    """Return the flags of a run with what is drawn in the place of those that were not given.

    A draw that would contradict another is left out: an ISR is not asked to be larger than there
    are replicas, nor a batch to be larger than a segment of a log.

    Args:
        flags: what was given.
        stream: names the draws of this run.
        clusters: names the draws of the brokers, which several runs share.
        cluster: the number of theirs, from 0. Few are made, so their settings come in turn.
        kafka: version of the brokers.
    """
    version = numbers(kafka) or (999,)
    given = {name: value for name, value in flags.items() if value is not None}
    for draw in _of_runs(flags):
        given.setdefault(draw.name, draw.one(stream, version))
    if flags.get("min_isr") is None:
        given["min_isr"] = min(given["min_isr"], given["replication_factor"])
    # A cluster of the user's own has its settings.
    is_ours = not (flags.get("compose") or flags.get("bootstrap"))
    if is_ours and flags.get("metadata") != "zookeeper":
        for draw in CLUSTERS:
            if version >= draw.since:
                given.setdefault(draw.name, draw.in_turn(clusters, cluster, version))
    own = {text.partition("=")[0] for text in given.get("broker_config", ())}
    properties = [*given.get("broker_config", ())]
    for draw in BROKERS if is_ours else ():
        if draw.name not in own and version >= draw.since:
            properties.append(f"{draw.name}={draw.in_turn(clusters, cluster, version)}")
    config = dict(text.split("=", 1) for text in properties)
    if flags.get("batch_size") is None and "log.segment.bytes" in config:
        # A batch that is larger than a segment is refused.
        largest = int(config["log.segment.bytes"]) // 2
        given["batch_size"] = min(largest, Contract().batch_size_bytes)
    return {**given, "broker_config": properties} if properties else given


def _of_runs(given: Flags) -> list[Draw]:
    """Return what is drawn for each run of the workload that is given, or of any."""
    workload = given.get("workload") or "send_poll"
    return [draw for draw in RUNS if not draw.workloads or workload in draw.workloads]


def pairs_of(flags: Flags, given: Flags, *, kafka: str) -> dict[str, float]:
    """Return each two settings of a run that were drawn, and how often they should come together.

    Args:
        flags: of the run, as `drawn` returned them.
        given: what was not drawn.
        kafka: version of the brokers.

    Returns:
        The share of all runs that have both, by the two in words.
    """
    version = numbers(kafka) or (999,)
    shares = {}
    for draw in _of_runs(given):
        if given.get(draw.name) is None:
            values, value = draw.values(version), flags[draw.name]
            shares[f"{draw.name}={value}"] = max(1, values.count(value)) / len(values)
    return {f"{a} and {b}": shares[a] * shares[b] for a, b in combinations(shares, 2)}
