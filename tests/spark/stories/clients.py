"""What clients were told, and which of them gave up."""

from typing import Any

from tests.spark.ops import Op, event, fail, info, txn
from tests.spark.story import Story, row

S = 1_000_000_000
_LONG_AFTER = 90 * S
"""The fault of every story is in force at 1 s; so long after it nothing is explained by it."""

_PROTOCOL = "the error codes of the Kafka protocol say what a broker means"


def told(process: int, words: str, *, time_ns: int | None = None) -> Op:
    """Return an error that a client was told of, not of a send."""
    return event(
        process, "error", detail=words, **({} if time_ns is None else {"time_ns": time_ns})
    )


def refused(op: Op, error: str) -> Op:
    """Return a send or transaction that met an error."""
    return Op(op.dataset, tuple({**one, "error": error} for one in op.rows))


def fatal(process: int, words: str, **other: Any) -> Op:
    """Return an error after which a client is of no more use."""
    return event(process, "fatal", detail=words, **other)


def ended(
    process: int,
    code: int,
    *,
    role: str = "producer",
    asked: bool | None = None,
    killed: bool = False,
    timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return how a client ended, at 80 s; with 0 it did so because it was asked to."""
    return {
        "process": process, "role": role, "txn_timeout_s": timeout_s, "exit_code": code,
        "asked_to_stop": code == 0 if asked is None else asked, "killed": killed,
        "ended_ns": 80 * S,
    }  # fmt: skip


def explained(process: int, family: str, from_s: float, to_s: float) -> dict[str, Any]:
    """Return when faults explain a family of errors."""
    return {
        "process": process, "family": family, "begins_ns": [round(from_s * S)],
        "ends_ns": [round(to_s * S)],
    }  # fmt: skip


# fmt: off
STORIES = (
    Story(
        title="errors of a disturbed cluster need no explanation",
        why=_PROTOCOL,
        ops=[
            refused(info(1, 0), "_MSG_TIMED_OUT"),
            refused(info(1, 1), "NOT_ENOUGH_REPLICAS"),
            refused(txn("info", 2, 0), "_TIMED_OUT"),
            told(9, "NOT_LEADER_FOR_PARTITION: Broker: Not leader for partition"),
            told(9, "_TRANSPORT: localhost:1/1: Disconnected (after 123ms in state UP)"),
            told(9, "commit: REQUEST_TIMED_OUT: Broker: Request timed out"),
            refused(fail(1, 2), "the client ended before it learnt the outcome"),
        ],
    ),
    Story(
        title="a record that is refused as none is found, whatever was broken",
        why="KIP-467: INVALID_RECORD",
        ops=[
            refused(fail(1, 0), "INVALID_RECORD"),
            told(9, "commit: INVALID_REQUEST: Broker: Invalid request"),
        ],
        finds=[
            row("unexplained-answer", "record", value=(1, 0), process=1, at_s=0.5,
                error="INVALID_RECORD", to="send"),
            row("unexplained-answer", "record", topic=None, partition=None, process=9, at_s=1,
                error="INVALID_REQUEST", to="event",
                words="commit: INVALID_REQUEST: Broker: Invalid request"),
        ],
        reasons=["unexplained-answer was found 2 times"],
    ),
    Story(
        title="a broker that does not know its own error may have been broken just then",
        why=_PROTOCOL,
        ops=[refused(txn("info", 2, 0), "UNKNOWN"), told(9, "UNKNOWN: Unknown broker error")],
        finds=[
            row("unexplained-answer", "server-at-rest", topic=None, partition=None, process=2,
                at_s=0.5, error="UNKNOWN", to="txn"),
            row("unexplained-answer", "server", topic=None, partition=None, process=9, at_s=1,
                error="UNKNOWN", to="event", words="UNKNOWN: Unknown broker error"),
        ],
    ),
    Story(
        title="long after the last fault nothing explains that error",
        why=_PROTOCOL,
        ops=[told(9, "UNKNOWN: Unknown broker error", time_ns=_LONG_AFTER)],
        finds=[
            row("unexplained-answer", "server-at-rest", topic=None, partition=None, process=9,
                at_s=90, error="UNKNOWN", to="event", words="UNKNOWN: Unknown broker error"),
        ],
    ),
    Story(
        title="bytes that a fault has damaged do not match their checksum",
        why="CORRUPT_MESSAGE is what a checksum is for",
        ops=[refused(info(1, 0), "INVALID_MSG"), told(9, "_BAD_MSG: Local: Bad message format")],
        timeline={"explanations": [explained(1, "bytes", 0, 9), explained(9, "bytes", 0, 9)]},
    ),
    Story(
        title="bytes that nothing has damaged must match their checksum",
        why="CORRUPT_MESSAGE is what a checksum is for",
        ops=[refused(info(1, 0), "INVALID_MSG")],
        finds=[
            row("unexplained-answer", "bytes", value=(1, 0), process=1, at_s=0.5,
                error="INVALID_MSG", to="send"),
        ],
    ),
    Story(
        title="a disk that no fault of ours has touched may be the machine's",
        why="KIP-112: KAFKA_STORAGE_ERROR",
        ops=[told(9, "offset-fetch: KafkaError{code=KAFKA_STORAGE_ERROR,val=56,str=\"Disk\"}")],
        finds=[
            row("unexplained-answer", "storage", topic=None, partition=None, process=9, at_s=0,
                error="KAFKA_STORAGE_ERROR", to="event",
                words="offset-fetch: KafkaError{code=KAFKA_STORAGE_ERROR,val=56,str=\"Disk\"}"),
        ],
        reasons=["unexplained-answer: 1 answer of a broker is explained by no fault."],
    ),
    Story(
        title="a client that ends when it is asked to, or is killed by the run, did not give up",
        why="a client that is killed is a move of its group",
        ops=[event(3, "fenced", op=0, detail="_FENCED"), event(200, "crash")],
        timeline={"clients": [ended(1, 0), ended(200, -9, killed=True), ended(900, 0, role="reader",
                                                                             asked=False)]},
        finds=[],
    ),
    Story(
        title="a client that dies by itself, or by a stranger's hand, gave up",
        why="what a process does to itself is its library's doing, and what others do is not",
        ops=[event(1, "crash")],
        timeline={"clients": [ended(1, -6), ended(2, -9), ended(3, 70), ended(4, 0, asked=False)]},
        finds=[
            row("client-gave-up", kind, topic=None, partition=None, process=process, at_s=80,
                exit_code=code, role="producer")
            for process, kind, code in (
                (1, "crashed", "-6"), (2, "killed", "-9"), (3, "ended", "70"), (4, "ended", "0"),
            )
        ],
        reasons=["client-gave-up was found 4 times: A client library must not end its process"],
    ),
    Story(
        title="a producer whose sequence a broker does not know any more gives up",
        why="KIP-98: OUT_OF_ORDER_SEQUENCE_NUMBER",
        ops=[fatal(1, "OUT_OF_ORDER_SEQUENCE_NUMBER: Broker: Broker received")],
        timeline={"clients": [ended(1, 0)]},
        finds=[
            row("client-gave-up", "sequence", topic=None, partition=None, process=1, at_s=0,
                error="OUT_OF_ORDER_SEQUENCE_NUMBER",
                words="OUT_OF_ORDER_SEQUENCE_NUMBER: Broker: Broker received"),
        ],
    ),
    Story(
        title="who is fenced though nobody else asked for its transactional id gives up",
        why="KIP-98: only a later client of the id fences",
        ops=[
            event(1, "init", detail="0.120"),
            txn("info", 1, 0),
            fatal(1, "_FENCED: Local: fenced", op=0),
            event(2, "init", detail="unanswered"),
            event(2, "init", detail="0.120"),
            fatal(2, "INVALID_PRODUCER_EPOCH: Broker: fenced"),
            event(4, "init", detail="11.5"),
            fatal(4, "_FENCED: Local: fenced"),
            txn("info", 3, 7),
            fatal(3, "PRODUCER_FENCED: Broker: fenced", op=7, time_ns=60 * S),
        ],
        timeline={"clients": [
            ended(process, 0, timeout_s=20.0) for process in (1, 2, 3, 4)
        ]},
        finds=[
            row("client-gave-up", "fenced", topic=None, partition=None, process=1, at_s=2,
                error="_FENCED", words="_FENCED: Local: fenced", open_s="1.0"),
            row("client-gave-up", "own", topic=None, partition=None, process=2, at_s=5,
                error="INVALID_PRODUCER_EPOCH", words="INVALID_PRODUCER_EPOCH: Broker: fenced"),
            row("client-gave-up", "own", topic=None, partition=None, process=4, at_s=7,
                error="_FENCED", words="_FENCED: Local: fenced"),
            row("client-gave-up", "timed-out", topic=None, partition=None, process=3, at_s=60,
                error="PRODUCER_FENCED", words="PRODUCER_FENCED: Broker: fenced", open_s="52.0"),
        ],
    ),
    *(
        Story(
            title=f"a producer is fenced after faults took what coordinators had noted: {kind}",
            why="a coordinator may abort what it has forgotten to be over (KIP-98)",
            ops=[txn("info", 1, 0), fatal(1, "_FENCED: Local: fenced", op=0)],
            timeline={"clients": [ended(1, 0, timeout_s=20.0) | taken]},
            finds=[
                row("client-gave-up", kind, topic=None, partition=None, process=1, at_s=1,
                    error="_FENCED", words="_FENCED: Local: fenced", open_s="1.0"),
            ],
        )
        for kind, taken in (
            ("partly-destroyed", {"copy_taken_ns": S // 2, "all_taken_ns": 3 * S}),
            ("destroyed", {"copy_taken_ns": 0, "all_taken_ns": S // 2}),
            ("fenced", {"copy_taken_ns": 3 * S}),
        )
    ),
    Story(
        title="who aborts what its coordinator has not heard of is refused; a commit is in doubt",
        why="librdkafka issue 4849: an abort that overtakes AddPartitionsToTxn",
        ops=[
            txn("fail", 1, 0, committing=False),
            fatal(1, "INVALID_TXN_STATE: Broker: odd", op=0),
            txn("info", 2, 7),
            fatal(2, "INVALID_TXN_STATE: Broker: odd", op=7),
        ],
        timeline={"clients": [ended(1, 0, timeout_s=20.0), ended(2, 0, timeout_s=20.0)]},
        finds=[
            row("client-gave-up", "unbegun", topic=None, partition=None, process=1, at_s=1,
                error="INVALID_TXN_STATE", words="INVALID_TXN_STATE: Broker: odd", open_s="1.0"),
            row("client-gave-up", "state", topic=None, partition=None, process=2, at_s=3,
                error="INVALID_TXN_STATE", words="INVALID_TXN_STATE: Broker: odd", open_s="1.0"),
        ],
    ),
    Story(
        title="other fatal errors, and a cluster that lets a client in no more",
        why="librdkafka, INTRODUCTION.md, fatal errors",
        ops=[
            fatal(200, "UNRELEASED_INSTANCE_ID: Broker: in use"),
            fatal(1, "CLUSTER_AUTHORIZATION_FAILED: Broker: no"),
        ],
        timeline={"clients": [ended(1, 0), ended(200, 0)]},
        finds=[
            row("client-gave-up", "fatal", topic=None, partition=None, process=200, at_s=0,
                error="UNRELEASED_INSTANCE_ID", words="UNRELEASED_INSTANCE_ID: Broker: in use"),
            row("client-gave-up", "refused", topic=None, partition=None, process=1, at_s=1,
                error="CLUSTER_AUTHORIZATION_FAILED",
                words="CLUSTER_AUTHORIZATION_FAILED: Broker: no"),
        ],
    ),
)
