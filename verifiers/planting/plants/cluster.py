"""Plants of faults of the cluster: processes, ISRs, controllers and transactions."""

import struct
from operator import itemgetter
from typing import Any

from crc32c import crc32c

from harness.core.grouping import by_key
from verifiers.planting.plant import Planted, offence_at, plant, planted
from verifiers.planting.run_contents import NothingToPlant, Offence, first_of
from verifiers.planting.run_copy import RunCopy, batches_in
from verifiers.replicas.copied import Replica
from verifiers.replicas.segments import V2_HEADER
from verifiers.run_folder.folder import partition_name
from verifiers.run_folder.journal import fault_spans
from verifiers.timeline.elections import read_elections
from verifiers.timeline.recovery import CAUGHT_UP_S

_ABORTED = 134
_LONG_S = 2 * CAUGHT_UP_S
_OTHER = 1 << 40
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 17, 21, 43
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


@plant("isr-not-whole")
def lags(copy: RunCopy) -> Planted:
    """Let a follower be outside the ISR when the wait for it ended, and still behind."""
    return _left_out(copy, kind="behind", ends=(10, 5))


@plant("isr-not-whole", "caught-up")
def left_out(copy: RunCopy) -> Planted:
    """Let a follower be outside the ISR though it has held all for a minute."""
    return _left_out(copy, kind="caught-up", ends=(10, 10))


def _left_out(copy: RunCopy, *, kind: str, ends: tuple[int, int]) -> Planted:
    """Leave the last follower of a partition out of the ISR, with the log ends of both."""
    recovery = copy.contents.run.meta.get("recovery")
    if recovery is None or not recovery["whole"]:
        raise NothingToPlant("that the cluster was whole at the end is not recorded")
    replicas = copy.contents.replicas
    led = {r.topic_partition: r.broker for r in replicas if r.leads}
    fit = [r for r in replicas if r.in_sync and not r.leads and r.topic_partition in led]
    follower = first_of(reversed(fit), "no partition has a follower in the ISR")
    leader = led[follower.topic_partition]
    topic, partition = follower.topic_partition
    to_ns = copy.contents.after_ns + round(_LONG_S * 1e9)
    times = {"from_ns": copy.contents.after_ns, "to_ns": to_ns, "bound_s": _LONG_S}
    state = {
        "topic": topic, "partition": partition, "leader": leader, "isr": [leader],
        "replicas": [leader, follower.broker],
    }  # fmt: skip
    copy.edit_run(recovery={**recovery, **times, "whole": False, "partitions": [state]})
    samples = [
        {
            "sample": "replica", "asked_ns": at_ns, "answered_ns": at_ns, "topic": topic,
            "partition": partition, "broker": broker, "log_end": end, "high_watermark": None,
        }
        for at_ns in (times["from_ns"], times["from_ns"] + 1, to_ns)
        for broker, end in ((leader, ends[0]), (follower.broker, ends[1]))
    ]  # fmt: skip
    copy.add_lines("samples.jsonl", samples)
    return planted(
        f"broker {follower.broker} was not in the ISR of {partition_name((topic, partition))} "
        f"after {_LONG_S:g} s",
        offence_at(
            "isr-not-whole", (topic, partition), kind=kind,
            detail={"missing": str(follower.broker), "leader": str(leader)},
        ),
    )  # fmt: skip


@plant("broker-ended")
def crashed(copy: RunCopy) -> Planted:
    """Let the first node's process have ended with SIGABRT, after all faults."""
    name = "cluster/processes.json"
    if not (copy.path / name).is_file():
        raise NothingToPlant("how the nodes' processes ended is not recorded")
    at_ns = copy.contents.after_ns
    faults = fault_spans(copy.contents.folder.lines("faults.jsonl"))
    in_force = {node for fault in faults if not fault.is_healed for node in fault.victims}
    nodes = [node["node"] for node in copy.contents.folder.read_json(name)["nodes"]]
    fit = (node for node in nodes if node not in in_force)
    ended = first_of(fit, "every node has a fault in force at the end")

    def end(document: dict[str, Any]) -> dict[str, Any]:
        (exits,) = (node["exits"] for node in document["nodes"] if node["node"] == ended)
        exits.append({"pid": 1, "status": _ABORTED, "from_ns": at_ns, "to_ns": at_ns})
        return document

    copy.edit_json(name, end)
    detail = {"node": str(ended), "status": str(_ABORTED)}
    return planted(
        f"the process of node {ended} ended with status {_ABORTED}",
        Offence(anomaly="broker-ended", kind="crashed", detail=detail),
    )


@plant("corrupt-batch")
def sent_damaged(copy: RunCopy) -> Planted:
    """Let a broker have refused a batch more when the clients had ended."""
    known = (row for row in copy.contents.timeline_rows["refusals"] if not row["batches"])
    told = first_of(known, "no broker told that it had refused no batch")

    def refuse(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (broker,) = (each for each in lines[-1]["brokers"] if each["node"] == told["node"])
        broker["batches"] += 1
        return lines

    copy.edit_lines("cluster/refusals.jsonl", refuse)
    detail = {"node": str(told["node"]), "batches": "1"}
    return planted(
        f"broker {told['node']} refused a batch for its checksum",
        Offence(anomaly="corrupt-batch", kind=told["kind"], detail=detail),
    )


@plant("two-controllers")
def claimed_twice(copy: RunCopy) -> Planted:
    """Let another node's log tell that it became the active controller in a known epoch."""
    contents = copy.contents
    claims = read_elections(contents.path / "cluster", contents.timeline)
    claimed = by_key(claims, itemgetter("epoch"))
    by_epoch = {epoch: {claim["node"] for claim in of} for epoch, of in claimed.items()}
    alone = {epoch: min(nodes) for epoch, nodes in by_epoch.items() if len(nodes) == 1}
    logs = sorted((contents.path / "cluster").glob("*/server.log"))
    if not alone or not logs:
        raise NothingToPlant("no node is known to have become the active controller")
    epoch = max(alone)
    node = alone[epoch] + 1
    line = (
        f"\n[2030-01-01 00:00:00,000] INFO [RaftManager id={node}] Completed transition to "
        f"Leader(localId={node}, epoch={epoch}) (org.apache.kafka.raft.QuorumState)\n"
    )
    copy.edit_bytes(contents.name_within(logs[0]), lambda old: old + line.encode())
    detail = {"epoch": str(epoch), "nodes": f"{alone[epoch]},{node}"}
    return planted(
        f"node {node} says that it became the active controller in epoch {epoch} too",
        Offence(anomaly="two-controllers", detail=detail),
    )


@plant("hanging-transaction")
def marker_of_another(copy: RunCopy) -> Planted:
    """Give the last marker of a transaction to another producer, on all disks."""
    contents = copy.contents
    rows = contents.timeline_rows
    if not rows["coordinators"]:
        raise NothingToPlant("what the transaction coordinators know was not copied")
    ended = {row["producer_id"] for row in rows["transactional_ids"] if row["state"] in _ENDED}
    places = (
        (replica.topic_partition, place)
        for replica in contents.replicas
        if replica.leads
        and not contents.has_any(("hanging-transaction",), replica.topic_partition)
        and (place := _last_transaction(replica, ended))
    )
    lacking = "no transaction ended in the last segment of a leader"
    tp, (producer, first, marker) = first_of(places, lacking)
    for replica in contents.replicas:
        if replica.topic_partition == tp:
            _give_away(copy, replica, marker)
    return planted(
        f"the marker @{marker} of {partition_name(tp)} belongs to another producer than the "
        f"transaction @{first}",
        offence_at(
            "hanging-transaction", tp, first, kind="ended", detail={"producer_id": str(producer)}
        ),
    )  # fmt: skip


def _last_transaction(replica: Replica, ended: set[int]) -> tuple[int, int, int] | None:
    """Return producer id, first offset and marker of a transaction that no other one follows."""
    data: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    for segment in replica.segments:
        for row in batches_in(segment):
            if row["problem"] is not None or not row["is_transactional"]:
                continue
            producer, base = row["producer_id"], row["base_offset"]
            if not row["is_control"]:
                data.setdefault(producer, base)
                found.pop(producer, None)
            elif producer in data:
                found[producer] = (data.pop(producer), base)
    fit = [(producer, *place) for producer, place in found.items() if producer in ended]
    return fit[-1] if fit else None


def _give_away(copy: RunCopy, replica: Replica, marker: int) -> None:
    """Change the producer id of one control batch of a replica, and its checksum."""
    for segment in replica.segments:
        for row in batches_in(segment):
            if row["problem"] is None and row["base_offset"] == marker:
                copy.edit_batch(copy.contents.name_within(segment), row, _of_another)


def _of_another(content: bytes) -> bytes:
    batch = bytearray(content)
    producer = V2_HEADER.unpack_from(batch)[8]
    struct.pack_into(">q", batch, _PRODUCER_AT, producer + _OTHER)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)
