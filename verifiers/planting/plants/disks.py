"""Plants on the brokers' disks: damaged bytes, missing batches, wrong epochs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.op import producer_of
from harness.core.run_dir import REPLICA_EPOCHS
from verifiers.planting.plant import Planted, offence_at, plant, planted
from verifiers.planting.run_contents import NothingToPlant, Offence, RunContents, batches_in
from verifiers.planting.run_copy import RunCopy
from verifiers.replicas.copied import Replica
from verifiers.replicas.records import read_batch, values_in
from verifiers.run_folder.folder import name_of

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

    def offence(self, anomaly: str, offset: int, **more: Any) -> Offence:  # noqa: ANN401 (columns)
        """Return an offence at an offset of this replica."""
        return offence_at(anomaly, self.replica.topic_partition, offset, **more)

    @property
    def name(self) -> str:
        """For a sentence."""
        return f"{name_of(self.replica.topic_partition)} of broker {self.replica.broker}"


@plant("corrupt-record", "disk")
def changed_bit(copy: RunCopy) -> Planted:
    """Change a bit at the end of a batch."""
    log = _log(copy.contents, batches=1)
    batch = log.batches[len(log.batches) // 2]
    copy.edit_batch(log.segment, batch, lambda old: old[:-1] + bytes([old[-1] ^ 1]))
    broker = {"broker": str(log.replica.broker), "problem": "checksum"}
    return planted(
        f"a bit of the batch @{batch['base_offset']} of {log.name} was changed",
        log.offence("corrupt-record", batch["base_offset"], kind="disk", detail=broker),
    )


@plant("replica-divergence")
def lacks_the_end(copy: RunCopy) -> Planted:
    """Cut the last batch off a replica that is in the ISR."""
    log = _log(copy.contents, batches=2)
    batch = log.batches[-1]
    divergence = _lacking(copy.path, log, batch)
    copy.edit_batch(log.segment, batch, lambda _: b"")
    return planted(
        f"the last batch, @{batch['base_offset']}, of {log.name} was cut off",
        divergence,
    )


@plant("replica-gap")
def hole(copy: RunCopy) -> Planted:
    """Take a batch out of the middle of a replica that is in the ISR."""
    log = _log(copy.contents, batches=3)
    middle = len(log.batches) // 2
    batch, following = log.batches[middle : middle + 2]
    because = "a replica in the ISR that lacks what its leader holds differs from it"
    divergence = _lacking(copy.path, log, batch, because)
    copy.edit_batch(log.segment, batch, lambda _: b"")
    detail = {
        "broker": str(log.replica.broker),
        "missing_from": str(batch["base_offset"]),
        "missing": str(following["base_offset"] - batch["base_offset"]),
    }
    return planted(
        f"the batch @{batch['base_offset']} of {log.name} was taken out",
        log.offence("replica-gap", following["base_offset"], kind="gap", detail=detail),
        divergence,
    )


@plant("replica-gap", "backwards")
def appended_again(copy: RunCopy) -> Planted:
    """Append the last batch of a replica once more."""
    log = _log(copy.contents, batches=1)
    batch = log.batches[-1]
    copy.edit_batch(log.segment, batch, lambda old: old + old)
    detail = {"broker": str(log.replica.broker), "expected": str(batch["last_offset"] + 1)}
    return planted(
        f"the batch @{batch['base_offset']} of {log.name} was appended again",
        log.offence("replica-gap", batch["base_offset"], kind="backwards", detail=detail),
    )


@plant("epoch-disorder")
def late_epoch(copy: RunCopy) -> Planted:
    """Let a leader-epoch checkpoint say that the last epoch began one batch later."""
    for log in _logs(copy.contents, whole=False):
        epochs = log.replica.epochs
        if not epochs:
            continue
        epoch = epochs[-1][0]
        batches = [
            batch
            for batch in log.batches
            if batch["leader_epoch"] == epoch and batch["magic"] == _V2
        ]
        # Checkers ignore batches below the log start.
        if (
            not batches
            or batches[0]["last_offset"] < log.replica.log_start
            or batches[0]["base_offset"] > epochs[-1][1]
        ):
            continue
        begins = batches[0]["last_offset"] + 1
        entries = [*epochs[:-1], (epoch, begins)]
        lines = "".join(f"{number} {first}\n" for number, first in entries)
        copy.write(
            str(Path(log.segment).parent / REPLICA_EPOCHS), f"0\n{len(entries)}\n{lines}".encode()
        )
        return planted(
            f"the checkpoint of {log.name} has epoch {epoch} begin at {begins}",
            log.offence(
                "epoch-disorder", batches[0]["base_offset"], kind="checkpoint",
                detail={"broker": str(log.replica.broker), "checkpoint_since": str(begins)},
            ),
        )  # fmt: skip
    raise NothingToPlant("no follower's last leader epoch begins in its last segment")


def _log(contents: RunContents, *, batches: int) -> Log:
    """Return a replica with at least so many batches in its last segment."""
    for log in _logs(contents):
        if len(log.batches) >= batches:
            return log
    raise NothingToPlant(
        f"no follower in the ISR has {batches} batches in its last segment, all committed"
    )


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


def _lacking(path: Path, log: Log, batch: Batch, because: str = "") -> Offence:
    """Return the divergence of a replica that lacks a batch, which its leader holds."""
    held = values_in(read_batch(str(path / log.segment), batch["position"], batch["size"]))
    value = next((value for _, value in held if value is not None), None)
    return log.offence(
        "replica-divergence", batch["base_offset"], value=value, because=because, kind="in-sync",
        process=None if value is None else producer_of(value),
        detail={
            "other_broker": str(log.replica.broker),
            "other_holds": "nothing",
            "last_offset": str(batch["last_offset"]),
        },
    )  # fmt: skip
