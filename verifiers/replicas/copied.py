"""The replicas that were copied from the brokers' disks, with their checkpoints and truncations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from harness.core.grouping import by_key
from harness.core.run_dir import REPLICA_EPOCHS, REPLICAS_MANIFEST, RunDir
from verifiers.replicas.checkpoints import epochs_in, offsets_in
from verifiers.replicas.cuts import Cut, cuts_of
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import damage_named
from verifiers.run_folder.large_files import LargeFiles

FOR_EVER = (1 << 63) - 1
"""An offset that no log reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica on a broker's disk.

    Attributes:
        broker: node id.
        topic: of the partition.
        partition: its number.
        segments: its segment files, by offset; of a run elsewhere there is nothing to open here.
        sizes_bytes: their sizes, in the same order.
        epochs: (leader epoch, first offset) of each entry of its leader-epoch checkpoint; None if
            it has no such file, as before 0.11.
        high_watermark: as checkpointed, which happens every five seconds; None if it is not.
        recovery_point: all below is flushed; None if it is not checkpointed.
        log_start: what lies below is as good as deleted.
        in_sync: whether it was in the ISR at the end; None if nobody knows.
        leads: whether it was the leader then.
    """

    broker: int
    topic: str
    partition: int
    segments: tuple[Path, ...]
    sizes_bytes: tuple[int, ...]
    epochs: tuple[tuple[int, int], ...] | None
    high_watermark: int | None
    recovery_point: int | None
    log_start: int
    in_sync: bool | None
    leads: bool

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and partition."""
        return (self.topic, self.partition)

    @property
    def key(self) -> tuple[int, str, int]:
        """Its broker, topic and partition."""
        return (self.broker, *self.topic_partition)

    @property
    def name(self) -> str:
        """The name of its folder on the broker."""
        return f"{self.topic}-{self.partition}"

    @property
    def epoch_offsets(self) -> tuple[tuple[int, int, int], ...]:
        """Each epoch of the checkpoint, its first offset, and the one after its last."""
        entries = self.epochs or ()
        ends = [first for _, first in entries[1:]] + [FOR_EVER]
        return tuple(
            (epoch, since, until) for (epoch, since), until in zip(entries, ends, strict=False)
        )

    @property
    def first_segment(self) -> int:
        """The offset in the name of its first segment; 0 if it has none."""
        return int(self.segments[0].stem) if self.segments else 0

    @property
    def last_segment(self) -> int:
        """The offset in the name of its last segment; 0 if it has none."""
        return int(self.segments[-1].stem) if self.segments else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """All replicas of a run.

    Attributes:
        replicas: by topic, partition and broker.
        cuts: truncations, also of logs that were not copied.
        reasons: why replicas are missing, in sentences.
    """

    replicas: tuple[Replica, ...] = ()
    cuts: tuple[Cut, ...] = ()
    reasons: tuple[str, ...] = ()

    def by_partition(self) -> dict[TopicPartition, list[Replica]]:
        """Return the replicas of each partition."""
        return by_key(self.replicas, attrgetter("topic_partition"))


def epoch_starts(
    replicas: Iterable[Replica],
) -> dict[TopicPartition, tuple[tuple[int, int], ...]]:
    """Return leader epochs and where they begin, by partition, by the replica that knows most."""
    starts: dict[TopicPartition, tuple[tuple[int, int], ...]] = {}
    for replica in replicas:
        entries = replica.epochs or ()
        if len(entries) > len(starts.get(replica.topic_partition, ())):
            starts[replica.topic_partition] = entries
    return starts


def read_copied(folder: RunDir, meta: Mapping[str, Any]) -> Copied:
    """Return the replicas in a run's folder, by its run.json.

    Raises:
        HistoryUnreadable: the manifest is damaged.
    """
    path = folder.path / "cluster" / REPLICAS_MANIFEST
    if not path.is_file():
        return Copied(
            cuts=tuple(cuts_of(folder)),
            reasons=("The brokers' logs were not copied: replicas are not compared.",),
        )
    manifest = folder.read_json(f"cluster/{REPLICAS_MANIFEST}")
    large = LargeFiles.of(folder.path)
    with damage_named(f"{path} does not say what was copied", "restore it, or run again"):
        # Leader and ISR of each partition, as last seen.
        last = {
            (str(line["topic"]), int(line["partition"])): line
            for line in folder.lines("timeline.jsonl")
        }
        reasons = [str(reason) for reason in manifest["reasons"]]
        replicas: list[Replica] = []
        for number, broker in sorted(manifest["brokers"].items(), key=lambda item: int(item[0])):
            home = folder.path / "cluster" / str(broker["service"])
            if broker["copied"]:
                wanted = {str(name) for name in broker["partitions"]}
                replicas += _replicas(home, int(number), wanted, last, large)
            elif broker["why"]:
                reasons.append(f"The logs of broker {number} were not copied: {broker['why']}.")
        cuts = tuple(cuts_of(folder))
    if not reasons:
        reasons += _missing(replicas, meta, last)
    replicas.sort(key=lambda replica: (replica.topic, replica.partition, replica.broker))
    return Copied(replicas=tuple(replicas), cuts=cuts, reasons=tuple(reasons))


def _replicas(
    home: Path,
    broker: int,
    wanted: set[str],
    last: Mapping[TopicPartition, Mapping[str, Any]],
    large: LargeFiles,
) -> Iterator[Replica]:
    for disk in large.folders_within(home):
        if not disk.name.startswith("data"):
            continue
        watermarks, recovered, starts = (
            offsets_in(_text(disk / f"{name}-offset-checkpoint"))
            for name in ("replication", "recovery-point", "log-start")
        )
        for log in large.folders_within(disk):
            if log.name not in wanted:
                continue
            topic, _, number = log.name.rpartition("-")
            tp = (topic, int(number))
            epochs = log / REPLICA_EPOCHS
            state = last.get(tp)
            segments = large.within(log, ".log")
            yield Replica(
                broker=broker,
                topic=topic,
                partition=int(number),
                segments=tuple(segments),
                sizes_bytes=tuple(map(large.size_bytes, segments)),
                epochs=epochs_in(_text(epochs)) if epochs.is_file() else None,
                high_watermark=watermarks.get(tp),
                recovery_point=recovered.get(tp),
                log_start=starts.get(tp, 0),
                in_sync=None if state is None else broker in state["isr"],
                leads=state is not None and state["leader"] == broker,
            )


def _text(path: Path) -> str:
    """Return the text of a file; an empty one if there is no file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _missing(
    replicas: list[Replica],
    meta: Mapping[str, Any],
    last: Mapping[TopicPartition, Mapping[str, Any]],
) -> list[str]:
    """Return, in sentences, why the replicas cannot all be compared."""
    counts = Counter(replica.topic_partition for replica in replicas)
    missing = []
    for topic in meta.get("topics", []):
        for partition in range(topic["partitions"]):
            tp = (topic["name"], partition)
            here, wanted = counts[tp], topic["replication_factor"]
            name = f"{topic['name']}-{partition}"
            if here < wanted:
                missing.append(f"{name} has {here} of its {wanted} replicas on disk")
            elif tp not in last:
                missing.append(f"who was in the ISR of {name} at the end is not known")
    if not missing:
        return []
    shown = "; ".join(missing[:5]) + ("; …" if len(missing) > 5 else "")
    return [f"Not all replicas could be compared: {shown}."]
