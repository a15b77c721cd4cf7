"""Faults of another kind than a wrong record: transactions, processes, ISRs and controllers."""

from collections.abc import Sequence
from typing import Any

from tests.batches import marker, transactional, v2, value_of
from tests.spark.disks import Disk, Disks, alike
from tests.spark.ops import TOPIC, end
from tests.spark.story import Story, row

S = 1_000_000_000
TEN = [value_of(1, n) for n in range(10)]

_MARKERS = "KIP-98, KIP-664: a transaction that is over has a marker in each of its partitions"
_TIMEOUT = "transaction.timeout.ms: what a client leaves open, its coordinator aborts"
_NOTHING = "what was not recorded cannot be judged"
_BACK = "replication design: who has caught up is let into the ISR"
_CHECKSUM = "KIP-98: a batch has a checksum of its records (KAFKA-19012)"
_ENDS = "a process that no fault ended has no reason to end"
_ONE = "KIP-595: a voter votes once in an epoch, so an epoch has one leader"


def left_open(*, epoch: int = 0, then: bytes = b"") -> Disks:
    """Return replicas with a transaction of producer 7 that ended, and one at 4 that did not."""
    content = transactional(0, TEN[:3], producer=7) + marker(3, producer=7)
    content += transactional(4, TEN[3:5], producer=7, producer_epoch=epoch)
    return alike(Disk(content=content + transactional(6, TEN[5:6], producer=8) + then))


BOTH_END = marker(7, producer=8)


def coordinators(*known: dict[str, Any], asked_s: float = 100) -> dict[str, Any]:
    """Return what the coordinators know; of producer 8 that it has ended."""
    eight = coordinated(producer_id=8, state="CompleteAbort", transactional_id="eight")
    return {
        "coordinators": [{"topic": TOPIC, "asked_ns": round(asked_s * S)}],
        "transactional_ids": [eight, *known],
    }


def coordinated(*, due_s: float | None = None, **more: Any) -> dict[str, Any]:
    known = {
        "topic": TOPIC, "producer_id": 7, "producer_epoch": 0, "transactional_id": "seven",
        "state": "CompleteCommit", "partitions": [],
        "due_ns": None if due_s is None else round(due_s * S),
    }  # fmt: skip
    return {**known, **more}


def hangs(kind: str, *, state: str | None = None, epoch: int = 0) -> dict[str, Any]:
    """Return the offence of the transaction at 4."""
    known: dict[str, Any] = {}
    if state is not None:
        known = {"transactional_id": "seven", "state": state}
    return dict(
        row(
            "hanging-transaction", kind, offset=4, producer_id="7", producer_epoch=str(epoch),
            last_offset="5", batches="1", broker="1", **known,
        )
    )  # fmt: skip


def story(title: str, why: str, finds: Sequence[Any] = (), **more: Any) -> Story:
    return Story(title=title, why=why, ends=[end(high=8)], finds=finds, **more)


def missing(kind: str | None, *, partition: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return a row of the frame on the recovery, which may last for 120 s."""
    nobody = {"missing": None, "leader": None, "isr": None, "caught_up_ns": None}
    times = {"from_ns": 0, "to_ns": 121 * S, "bound_ns": 120 * S}
    topic = "" if partition is None else TOPIC
    return {"topic": topic, "partition": partition, "kind": kind, **nobody, **times, **more}


def process(kind: str | None = None, status: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a row of the frame on processes."""
    known = {"topic": "", "node": 2, "service": "broker-2", "said": None, "status": status}
    return {"kind": kind, **known, "from_ns": 8 * S, "to_ns": 9 * S, **more}


def refused(batches: int, kind: str | None = None) -> dict[str, Any]:
    """Return a row of the frame on what brokers refused."""
    return {"topic": "", "node": 2, "kind": kind, "at_ns": 9 * S, "batches": batches}


def elected(epoch: int, node: int, told_by: str = "") -> dict[str, Any]:
    return {
        "topic": "", "epoch": epoch, "node": node, "told_by": told_by or f"node {node}",
        "at_utc": "2026-11-22 12:00:00.000",
    }  # fmt: skip


WHOLE = missing(None, partition=None)

# fmt: off
TRANSACTIONS = (
    story(
        "a transaction that its coordinator has ended and no marker ends is found",
        _MARKERS,
        [hangs("ended", state="CompleteCommit")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated()),
    ),
    story(
        "a marker ends whatever its producer has open",
        "KIP-360: a coordinator may raise the epoch before it aborts",
        disks=left_open(then=BOTH_END + marker(8, producer=7, producer_epoch=1, commit=False)),
        timeline=coordinators(coordinated()),
    ),
    story(
        "a transaction may be open until its time has run out",
        _TIMEOUT,
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="Ongoing", partitions=[0], due_s=101)),
    ),
    story(
        "a transaction whose time has run out is found",
        _TIMEOUT,
        [hangs("overdue", state="Ongoing")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="Ongoing", partitions=[0], due_s=99)),
    ),
    story(
        "a transaction of which no clock tells how long it lasts may be open",
        _NOTHING,
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="Ongoing", partitions=[0])),
    ),
    story(
        "a partition that is no part of its producer's transaction is found",
        "KIP-890: a late request adds records to a partition that nobody added",
        [hangs("not-added", state="Ongoing")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="Ongoing", partitions=[1], due_s=101)),
    ),
    story(
        "a transaction is over when its producer begins another one",
        "KIP-890: since 4.0 every transaction has an epoch of its own",
        [hangs("ended", state="Ongoing")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(
            coordinated(state="Ongoing", producer_epoch=1, partitions=[0], due_s=101)
        ),
    ),
    story(
        "a transaction of a producer that no coordinator knows is found",
        "KIP-664: who is not known will not be aborted",
        [hangs("forgotten")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(),
    ),
    story(
        "a transaction that is decided may wait for its marker for a while",
        "KIP-98: markers are written after the decision",
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="PrepareCommit", partitions=[0], due_s=101)),
    ),
    story(
        "a transaction that is decided and gets no marker is found",
        "KIP-98: markers are written after the decision",
        [hangs("unmarked", state="PrepareAbort")],
        disks=left_open(then=BOTH_END),
        timeline=coordinators(coordinated(state="PrepareAbort", partitions=[0], due_s=99)),
    ),
    story(
        "nothing is said of open transactions where their coordinators are not known",
        _NOTHING,
        disks=left_open(then=BOTH_END),
    ),
    story(
        "records outside of transactions need no marker",
        _MARKERS,
        disks=alike(Disk(content=v2(0, TEN[:8]))),
        timeline=coordinators(coordinated()),
    ),
)

CLUSTER = (
    Story(
        title="a cluster that is whole again has nothing to tell",
        why=_BACK,
        timeline={"recoveries": [WHOLE]},
    ),
    Story(
        title="what is not in the ISR when the bound has run out is found, kind by kind",
        why=_BACK,
        timeline={
            "recoveries": [
                WHOLE,
                missing("behind", missing=3, leader=1, isr="1,2"),
                missing("caught-up", missing=2, leader=1, isr="1", caught_up_ns=31 * S),
                missing("leaderless", partition=1, isr="3"),
                missing("unregistered", partition=None, missing=3),
            ]
        },
        finds=[
            row("isr-not-whole", "behind", at_s=121, missing="3", leader="1", isr="1,2",
                bound_s="120.0"),
            row("isr-not-whole", "caught-up", at_s=121, missing="2", leader="1", isr="1",
                caught_up_s="31.0", bound_s="120.0"),
            row("isr-not-whole", "leaderless", partition=1, at_s=121, isr="3", bound_s="120.0"),
            row("isr-not-whole", "unregistered", topic=None, partition=None, at_s=121, missing="3",
                bound_s="120.0"),
        ],
    ),
    Story(
        title="a replica that lags when the bound has run out leaves the verdict open",
        why="no bound is Kafka's own",
        timeline={
            "recoveries": [WHOLE, missing("behind", missing=3, leader=1, isr="1,2")],
        },
        finds=[
            row("isr-not-whole", "behind", at_s=121, missing="3", leader="1", isr="1,2",
                bound_s="120.0"),
        ],
        reasons=["isr-not-whole: 1 replica or broker had not come back after the last healing."],
    ),
    Story(
        title="processes that run have nothing to tell",
        why=_ENDS,
        timeline={"processes": [process(), process(node=1, service="broker-1")]},
    ),
    Story(
        title="a process that ended by itself is found",
        why=_ENDS,
        timeline={"processes": [process(), process("exited", 1, said="Shutdown broker")]},
        finds=[
            row("broker-ended", "exited", topic=None, partition=None, at_s=9, node="2",
                service="broker-2", status="1", said="Shutdown broker"),
        ],
        reasons=["broker-ended was found 1 time: A node ends when it is told to"],
    ),
    Story(
        title="a process that somebody killed leaves the verdict open",
        why="signal(7): SIGKILL comes from outside",
        timeline={"processes": [process(), process("killed", 137)]},
        finds=[
            row("broker-ended", "killed", topic=None, partition=None, at_s=9, node="2",
                service="broker-2", status="137"),
        ],
        reasons=["broker-ended: 1 process of a node ended though no fault ended it. SIGKILL"],
    ),
    Story(
        title="a broker that refused no batch has nothing to tell",
        why=_CHECKSUM,
        timeline={"refusals": [refused(0)]},
    ),
    Story(
        title="a batch that a broker refused for its checksum is found",
        why=_CHECKSUM,
        timeline={"refusals": [refused(0), refused(3)]},
        finds=[
            row("corrupt-batch", topic=None, partition=None, at_s=9, node="2", batches="3"),
        ],
        reasons=["corrupt-batch was found 1 time: A client computes the checksum over what it"],
    ),
    Story(
        title="a batch that a broker refused where a fault changes bytes leaves the verdict open",
        why=_CHECKSUM,
        timeline={"refusals": [refused(1, "damaged")]},
        finds=[
            row("corrupt-batch", "damaged", topic=None, partition=None, at_s=9, node="2",
                batches="1"),
        ],
        reasons=["corrupt-batch: 1 broker refused batches since their checksums did not fit."],
    ),
    Story(
        title="one active controller after the other is in order, whoever tells it",
        why=_ONE,
        timeline={
            "elections": [
                elected(1, 101), elected(2, 102), elected(2, 102, "log of broker-1"),
                elected(3, 101),
            ]
        },
    ),
    Story(
        title="two active controllers of one epoch are found",
        why=_ONE,
        timeline={
            "elections": [elected(1, 101), elected(2, 102), elected(2, 103, "log of broker-1")]
        },
        finds=[
            row(
                "two-controllers", topic=None, partition=None, epoch="2", nodes="102,103",
                claims="node 102 by node 102 2026-11-22 12:00:00.000; "
                "node 103 by log of broker-1 2026-11-22 12:00:00.000",
            ),
        ],
        reasons=["two-controllers was found 1 time: An epoch has one active controller"],
    ),
)
# fmt: on

STORIES = (*TRANSACTIONS, *CLUSTER)
