"""Plants on the brokers' disks: damaged bytes, missing batches, wrong epochs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.op import producer_of
from harness.core.run_dir import REPLICA_EPOCHS
from verifiers.planting.plant import Planted, offence_at, plant, planted
from verifiers.planting.run_contents import NothingToPlant, Offence, RunContents, first_of
from verifiers.planting.run_copy import RunCopy, batches_in
from verifiers.replicas.copied import Replica
from verifiers.replicas.records import read_batch, values_in
from verifiers.run_folder.folder import TopicPartition, partition_name

_ON_DISKS = ("replica-divergence", "replica-gap", "epoch-disorder", "corrupt-record")
_V2 = 2

Batch = Mapping[str, Any]
"""A row of HEADERS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The last segment of a replica that followed and was in the ISR at the end.

    Attributes:
        replica: which.
        segment: its path within the run's folder.
        batches: all of them below the high watermark (rows of HEADERS).
    """

    replica: Replica
    segment: str
    batches: Sequence[Batch]

    def offence(self, anomaly: str, kind: str, batch: Batch, **facts: object) -> Offence:
        """Return an offence at a batch of this replica, with facts beside its broker."""
        detail = {"broker": self.replica.broker, **facts}
        return offence_at(
            anomaly, self.replica.topic_partition, batch["base_offset"], kind=kind,
            detail={name: str(fact) for name, fact in detail.items()},
        )  # fmt: skip

    @property
    def name(self) -> str:
        """For a sentence."""
        return f"{partition_name(self.replica.topic_partition)} of broker {self.replica.broker}"


@plant("corrupt-record", "disk")
def changed_bit(copy: RunCopy) -> Planted:
    """Change a bit at the end of a batch."""
    log = _log(copy.contents, batches=1)
    batch = log.batches[len(log.batches) // 2]
    copy.edit_batch(log.segment, batch, lambda old: old[:-1] + bytes([old[-1] ^ 1]))
    return planted(
        f"a bit of the batch @{batch['base_offset']} of {log.name} was changed",
        log.offence("corrupt-record", "disk", batch, problem="checksum"),
    )


@plant("replica-divergence")
def lacks_the_end(copy: RunCopy) -> Planted:
    """Cut the last batch off a replica that is in the ISR."""
    log = _log(copy.contents, batches=2)
    batch = log.batches[-1]
    divergence = _lacking(copy, log, batch)
    copy.edit_batch(log.segment, batch, lambda _: b"")
    return planted(
        f"the last batch, @{batch['base_offset']}, of {log.name} was cut off", divergence
    )


@plant("replica-gap")
def hole(copy: RunCopy) -> Planted:
    """Take a batch out of the middle of a replica that is in the ISR."""
    log = _log(copy.contents, batches=3)
    middle = len(log.batches) // 2
    batch, following = log.batches[middle : middle + 2]
    because = "a replica in the ISR that lacks what its leader holds differs from it"
    divergence = _lacking(copy, log, batch, because)
    copy.edit_batch(log.segment, batch, lambda _: b"")
    first = batch["base_offset"]
    missing = following["base_offset"] - first
    return planted(
        f"the batch @{first} of {log.name} was taken out",
        log.offence("replica-gap", "gap", following, missing_from=first, missing=missing),
        divergence,
    )


@plant("replica-gap", "backwards")
def appended_again(copy: RunCopy) -> Planted:
    """Append the last batch of a replica once more."""
    log = _log(copy.contents, batches=1)
    batch = log.batches[-1]
    copy.edit_batch(log.segment, batch, lambda old: old + old)
    return planted(
        f"the batch @{batch['base_offset']} of {log.name} was appended again",
        log.offence("replica-gap", "backwards", batch, expected=batch["last_offset"] + 1),
    )


@plant("epoch-disorder")
def late_epoch(copy: RunCopy) -> Planted:
    """Let a leader-epoch checkpoint say that the last epoch began one batch later."""
    for log in _logs(copy.contents, whole=False):
        if not log.replica.epochs:
            continue
        *earlier, (epoch, since) = log.replica.epochs
        of_epoch = (row for row in log.batches if row["leader_epoch"] == epoch)
        first = next((row for row in of_epoch if row["magic"] == _V2), None)
        # Checkers ignore batches below the log start.
        if (
            first is None
            or first["last_offset"] < log.replica.log_start
            or first["base_offset"] > since
        ):
            continue
        begins = first["last_offset"] + 1
        entries = [*earlier, (epoch, begins)]
        lines = "".join(f"{number} {offset}\n" for number, offset in entries)
        copy.write(
            str(Path(log.segment).parent / REPLICA_EPOCHS), f"0\n{len(entries)}\n{lines}".encode()
        )
        return planted(
            f"the checkpoint of {log.name} has epoch {epoch} begin at {begins}",
            log.offence("epoch-disorder", "checkpoint", first, checkpoint_since=begins),
        )
    raise NothingToPlant("no follower's last leader epoch begins in its last segment")


def _log(contents: RunContents, *, batches: int) -> Log:
    """Return a replica with at least so many batches in its last segment."""
    lacking = f"no follower in the ISR has {batches} batches in its last segment, all committed"
    return first_of((log for log in _logs(contents) if len(log.batches) >= batches), lacking)


def _logs(contents: RunContents, *, whole: bool = True) -> Iterator[Log]:
    """Yield the followers in the ISR whose logs have no anomaly.

    Args:
        contents: of the run.
        whole: only those all of whose last segment is known to be committed.

    Raises:
        NothingToPlant: the brokers' logs were not copied.
    """
    if not contents.replicas:
        raise NothingToPlant("the brokers' logs were not copied")
    bounds = {(end.topic, end.partition): end.high for end in contents.run.ends}
    for replica in contents.replicas:
        bound = bounds.get(replica.topic_partition, 0)
        follows = replica.in_sync and not replica.leads and replica.segments
        if not follows or contents.has_any(_ON_DISKS, replica.topic_partition):
            continue
        segment = replica.segments[-1]
        rows = list(batches_in(segment))
        below = [row for row in rows if row["problem"] is None and row["last_offset"] < bound]
        if below and (len(below) == len(rows) or not whole):
            name = contents.name_within(segment)
            yield Log(replica=replica, segment=name, batches=below)


def _kind(contents: RunContents, place: TopicPartition, batch: Batch) -> str:
    """Return the kind of a divergence at a batch, by what faults have destroyed there."""
    is_destroyed = any(
        cut.topic_partition == place
        and cut.to <= batch["last_offset"]
        and batch["base_offset"] < (cut.end or 0)
        for cut in contents.cuts_by_faults
    )
    return "partly-destroyed" if is_destroyed else "in-sync"


def _lacking(copy: RunCopy, log: Log, batch: Batch, because: str = "") -> Offence:
    """Return the divergence of a replica that lacks a batch, which its leader holds."""
    held = values_in(read_batch(str(copy.path / log.segment), batch["position"], batch["size"]))
    value = next((value for _, value in held if value is not None), None)
    place = log.replica.topic_partition
    return offence_at(
        "replica-divergence", place, batch["base_offset"], value,
        None if value is None else producer_of(value), because=because,
        kind=_kind(copy.contents, place, batch),
        detail={
            "other_broker": str(log.replica.broker),
            "other_holds": "nothing",
            "last_offset": str(batch["last_offset"]),
        },
    )  # fmt: skip
