"""Transactions: whole or not at all, read by nobody before, ended by one client."""

from tests.spark.ops import TOPIC, Op, Rec, end, event, fail, final, info, ok, poll, txn
from tests.spark.stories.values import cause_of_loss
from tests.spark.story import Story, row

_ATOMIC = "atomicity of transactions, KIP-98"
_OWN = "the precommitted-read analysis of jepsen.tests.kafka"
_CIRCLE = "G1c in Adya's thesis, as jepsen.tests.kafka looks for it"
_FENCED = "fencing of zombies, KIP-98"
_ISOLATION = "isolation.level, KIP-98: who reads committed is given nothing of aborted transactions"
_ONCE = "exactly once: offsets are committed in the transaction, KIP-98 and KIP-447"


def whole(kind: str, number: int = 0) -> list[Op]:
    """A transaction of two records in two partitions, and how it ended."""
    first, second = 2 * number, 2 * number + 1
    sends = {
        "ok": [ok(1, first, first, txn=number), ok(1, second, second, partition=1, txn=number)],
        "info": [info(1, first, txn=number), info(1, second, partition=1, txn=number)],
        "fail": [fail(1, first, txn=number), fail(1, second, txn=number)],
    }
    return [*sends[kind], txn(kind, 1, number)]


def consumes(*offsets: int, member: int = 1) -> list[Op]:
    return [
        event(member, "processed", op=n, topic=TOPIC, partition=0, offset=offset)
        for n, offset in enumerate(offsets)
    ]


def joins(member: int = 1) -> Op:
    return event(member, "assign", topic=TOPIC, partition=0, detail="transactional g")


A, B = Rec(1, 0, 0), Rec(1, 1, 1, 1)
OWN = [ok(2, 0, 1), ok(1, 0, 0, txn=4), poll(1, 0, Rec(1, 0, 0), Rec(2, 0, 1), txn=4)]

# fmt: off
LOST_B = row(
    "lost-write", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5, acked_offset="1",
    complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1", sequence="1",
)
"""The second record of the first transaction, acknowledged, and nowhere."""
DESTROYED_B = {
    **LOST_B, "kind": "partly-destroyed", "detail": {**LOST_B["detail"], "lost_by": "damage"}
}

CUT = {"cut_to": 0, "takes_a_copy": True}
DAMAGE = cause_of_loss(partition=1, cut_to=0, cut_end=9, takes_a_copy=True)

STORIES = (
    Story(
        title="nothing is found where transactions are whole or absent",
        why=_ATOMIC,
        ops=[
            *whole("ok"),
            *whole("info", 1),
            *whole("info", 2),
            *whole("fail", 3),
            poll(9, 0, A, B),
            final(A, B, Rec(1, 2, 2), Rec(1, 3, 3, 1)),
        ],
    ),
    *(
        Story(
            title=f"a transaction ({kind}) of which a part is lacking is torn",
            why=f"{_ATOMIC}: also one whose outcome nobody knows",
            ops=[*whole(kind), final(A)],
            finds=[
                *lost,
                row(
                    "torn-transaction", "decided", partition=1, offset=1 if lost else None,
                    value=(1, 1),
                    process=1, at_s=1.5, found="1", lacking="1", txn="0", type=kind,
                ),
            ],
        )
        for kind, lost in (
            ("ok", [LOST_B]),
            ("info", []),
        )
    ),
    *(
        Story(
            title=f"a transaction ({kind}) of which a part was destroyed is torn by that",
            why=_ATOMIC,
            ops=[*whole(kind), final(A)],
            timeline={"loss_causes": [DAMAGE]},
            finds=[
                *lost,
                row(
                    "torn-transaction", "partly-destroyed", partition=1,
                    offset=1 if lost else None, value=(1, 1), process=1, at_s=1.5, found="1",
                    lacking="1", txn="0", type=kind,
                ),
            ],
        )
        for kind, lost in (("ok", [DESTROYED_B]), ("info", []))
    ),
    Story(
        title="each torn transaction is told once",
        why=_ATOMIC,
        ops=[*whole("ok"), *whole("ok", 1), *whole("ok", 2), final(A, Rec(1, 3, 3, 1))],
        finds=[
            row(
                "lost-write", offset=2, value=(1, 2), process=1, at_s=3.5, acked_offset="2",
                complete_ns="3500000000", invoke_ns="3000000000", polled="0", producer="1",
                sequence="2",
            ),
            row(
                "lost-write", offset=4, value=(1, 4), process=1, at_s=6.5, acked_offset="4",
                complete_ns="6500000000", invoke_ns="6000000000", polled="0", producer="1",
                sequence="4",
            ),
            row(
                "lost-write", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5,
                acked_offset="1", complete_ns="1500000000", invoke_ns="1000000000", polled="0",
                producer="1", sequence="1",
            ),
            row(
                "lost-write", partition=1, offset=5, value=(1, 5), process=1, at_s=7.5,
                acked_offset="5", complete_ns="7500000000", invoke_ns="7000000000", polled="0",
                producer="1", sequence="5",
            ),
            row(
                "torn-transaction", "decided", offset=2, value=(1, 2), process=1, at_s=4.5,
                found="1", lacking="1", txn="1", type="ok",
            ),
            row(
                "torn-transaction", "decided", partition=1, offset=1, value=(1, 1), process=1,
                at_s=1.5,
                found="1", lacking="1", txn="0", type="ok",
            ),
        ],
    ),
    Story(
        title="a part that a consumer saw and the log lost tears it too",
        why=_ATOMIC,
        ops=[*whole("ok"), poll(9, 0, A, B), final(A)],
        finds=[
            row(
                "dirty-read", partition=1, offset=1, value=(1, 1), process=9, at_s=3,
                acked_offset="1", complete_ns="1500000000", finally_read="0",
                invoke_ns="1000000000", last_read_ns="3000000000", last_read_offset="1",
                last_reader="9", polled="1", producer="1", send_type="ok", sent_partition="1",
                sequence="1",
            ),
            row(
                "lost-write", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5,
                acked_offset="1", complete_ns="1500000000", invoke_ns="1000000000",
                last_read_ns="3000000000", last_read_offset="1", last_reader="9", polled="1",
                producer="1", sequence="1",
            ),
            row(
                "torn-transaction", "decided", partition=1, offset=1, value=(1, 1), process=1,
                at_s=1.5,
                found="1", lacking="1", txn="0", type="ok",
            ),
        ],
    ),
    Story(
        title="a part beyond the final read tears nothing",
        why="it is neither there nor lacking: nobody looked",
        ops=[*whole("ok"), final(A)],
        ends=[end(partition=0), end(partition=1, high=100, reached=1)],
        finds=[
            row(
                "unseen", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5,
                acked_offset="1", complete_ns="1500000000", invoke_ns="1000000000", polled="0",
                producer="1", sequence="1",
            )
        ],
    ),
    Story(
        title="a record that the client refused is no part",
        why="it was never in the transaction",
        ops=[*whole("ok"), fail(1, 2, txn=0), final(A, B)],
    ),
    Story(
        title="a send whose invocation nobody recorded is no part",
        why="which transaction it belonged to, nobody knows",
        ops=[*whole("info"), info(1, 7, partition=None), final(A, B)],
    ),
    Story(
        title="a transaction must not be given its own records",
        why=_OWN,
        ops=[*OWN, txn("ok", 1, 4), final(Rec(1, 0, 0), Rec(2, 0, 1))],
        finds=[
            row(
                "precommitted-read", "read_committed", offset=0, value=(1, 0), process=1, at_s=2,
                records="1", txn="4", type="ok",
            )
        ],
    ),
    Story(
        title="the next transaction may be given them",
        why=_OWN,
        ops=[*whole("ok"), poll(1, 0, A, B, txn=1), txn("ok", 1, 1), final(A, B)],
    ),
    Story(
        title="the same number of another client is another transaction",
        why=_OWN,
        ops=[*whole("ok"), poll(2, 0, A, B, txn=0), txn("ok", 2, 0), final(A, B)],
    ),
    Story(
        title="two transactions must not be given each other's records",
        why=_CIRCLE,
        ops=[
            ok(1, 0, 0, txn=0),
            ok(2, 0, 1, txn=5),
            poll(2, 0, Rec(1, 0, 0), txn=5),
            poll(1, 0, Rec(2, 0, 1), txn=0),
            txn("ok", 1, 0),
            txn("ok", 2, 5),
            final(Rec(1, 0, 0), Rec(2, 0, 1)),
        ],
        finds=[
            row(
                "G1c", offset=0, value=(1, 0), process=1, at_s=4.5, txn="0", transactions="2",
                cycle="1/0 > 2/5 > 1/0", steps="orders/0@0, orders/0@1",
            )
        ],
    ),
    Story(
        title="a transaction must not be given a record of one that began after it ended",
        why=f"{_CIRCLE}, in realtime",
        ops=[
            poll(1, 0, Rec(2, 0, 0), txn=0),
            txn("ok", 1, 0),
            ok(2, 0, 0, txn=5),
            txn("ok", 2, 5),
            final(Rec(2, 0, 0)),
        ],
        finds=[
            row(
                "G1c-realtime", offset=0, value=(2, 0), process=1, at_s=1.5, txn="0",
                transactions="2", cycle="2/5 > 1/0 > 2/5", steps="orders/0@0, realtime",
            )
        ],
    ),
    Story(
        title="transactions that go on after others began may be given their records",
        why=f"{_CIRCLE}: what overlaps may have been committed in either order",
        ops=[
            poll(1, 0, Rec(2, 0, 0), txn=0),
            ok(2, 0, 0, txn=5),
            txn("info", 1, 0),
            txn("ok", 2, 5),
            final(Rec(2, 0, 0)),
        ],
    ),
    Story(
        title="a zombie must not commit",
        why=_FENCED,
        ops=[
            event(1, "takeover", op=0),
            *whole("ok"),
            *whole("ok", 1),
            final(A, B, *(Rec(1, n, n, n % 2) for n in (2, 3))),
        ],
        finds=[
            row(
                "zombie-commit", topic=None, partition=None, process=1, at_s=3.5, taken_over_ns="0",
                txn="0",
            )
        ],
    ),
    Story(
        title="a zombie that was refused is no offence",
        why=_FENCED,
        ops=[event(1, "takeover", op=0), *whole("fail"), event(1, "fenced", op=0)],
    ),
    Story(
        title="who reads uncommitted may see what is aborted",
        why=_ISOLATION,
        ops=[*whole("fail"), poll(8, 0, A), txn("ok", 1, 1)],
        uncommitted=[8],
        finds=[
            row(
                "G1a", "read_uncommitted", offset=0, value=(1, 0), process=1, at_s=0.5,
                last_reader="8", polled="1", txn="0",
            )
        ],
    ),
    Story(
        title="what was committed without its producer knowing was given to all",
        why="the outcome of its transaction is unknown, and the final read has it",
        ops=[ok(1, 0, 0), info(1, 1, txn=3), txn("info", 1, 3), ok(1, 2, 2),
             poll(8, 0, Rec(1, 0, 0), Rec(1, 1, 1), Rec(1, 2, 2)),
             final(Rec(1, 0, 0), Rec(1, 1, 1), Rec(1, 2, 2))],
        uncommitted=[8],
    ),
    *(
        Story(
            title=f"who reads committed may not, {after}",
            why=_ISOLATION,
            ops=[*whole("fail"), poll(8, 0, A), poll(9, 0, A)],
            uncommitted=[8],
            timeline={"loss_causes": [cause_of_loss(**cause) for cause in causes]},
            finds=[
                row(
                    "G1a", kind, offset=0, value=(1, 0), process=1, at_s=0.5,
                    complete_ns="500000000", finally_read="0", invoke_ns="0",
                    last_read_ns="4000000000", last_read_offset="0", last_reader="9", polled="1",
                    producer="1", send_type="fail", sent_partition="0", sequence="0",
                ),
                row(
                    "dirty-read", offset=0, value=(1, 0), process=9, at_s=4,
                    complete_ns="500000000", finally_read="0", invoke_ns="0",
                    last_read_ns="4000000000", last_read_offset="0", last_reader="9", polled="1",
                    producer="1", send_type="fail", sent_partition="0", sequence="0",
                ),
            ],
        )
        for after, kind, causes in (
            ("whatever broke", "read_committed", [{}]),
            ("nor after a cut of what was not yet there", "read_committed", [CUT | {"cut_end": 1}]),
            ("unless its marker was cut", "partly-destroyed", [CUT | {"cut_end": 2}]),
            ("unless its coordinator forgot", "partly-destroyed", [{"is_of_coordinator": True}]),
            ("unless all copies were cut", "destroyed", [CUT | {"cut_end": 2, "destroys": True}]),
        )
    ),
    Story(
        title="a refused record without a transaction may be read by nobody",
        why=_ISOLATION,
        ops=[fail(1, 0), poll(8, 0, A)],
        uncommitted=[8],
        finds=[
            row(
                "G1a", offset=0, value=(1, 0), process=1, at_s=0.5, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="1000000000", last_read_offset="0",
                last_reader="8", polled="1", producer="1", send_type="fail", sent_partition="0",
                sequence="0",
            ),
            row(
                "dirty-read", offset=0, value=(1, 0), process=8, at_s=1, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="1000000000", last_read_offset="0",
                last_reader="8", polled="1", producer="1", send_type="fail", sent_partition="0",
                sequence="0",
            ),
        ],
    ),
    Story(
        # The read_uncommitted reader is given all, the other one passes over what was aborted.
        title="reads of what was not committed trip nobody else",
        why=_ISOLATION,
        ops=[
            *whole("ok"),
            *whole("fail", 1),
            *whole("info", 2),
            *whole("ok", 3),
            poll(8, 0, A, Rec(1, 2, 2), Rec(1, 4, 4), Rec(1, 6, 6)),
            poll(9, 0, A, Rec(1, 6, 6)),
            final(A, B, Rec(1, 6, 6), Rec(1, 7, 7, 1)),
        ],
        uncommitted=[8],
        finds=[
            row(
                "G1a", "read_uncommitted", offset=2, value=(1, 2), process=1, at_s=3.5,
                last_reader="8", polled="1", txn="1",
            )
        ],
    ),
    Story(
        title="a committed record that only an uncommitted reader saw is missed",
        why=_ISOLATION,
        ops=[*whole("ok"), poll(8, 0, A, B), final(A)],
        uncommitted=[8],
        finds=[
            row(
                "dirty-read", partition=1, offset=1, value=(1, 1), process=8, at_s=3,
                acked_offset="1", complete_ns="1500000000", finally_read="0",
                invoke_ns="1000000000", last_read_ns="3000000000", last_read_offset="1",
                last_reader="8", polled="1", producer="1", send_type="ok", sent_partition="1",
                sequence="1",
            ),
            row(
                "lost-write", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5,
                acked_offset="1", complete_ns="1500000000", invoke_ns="1000000000",
                last_read_ns="3000000000", last_read_offset="1", last_reader="8", polled="1",
                producer="1", sequence="1",
            ),
            row(
                "torn-transaction", "decided", partition=1, offset=1, value=(1, 1), process=1,
                at_s=1.5,
                found="1", lacking="1", txn="0", type="ok",
            ),
        ],
    ),
    Story(
        title="what a transaction consumed is not consumed again",
        why=_ONCE,
        ops=[ok(2, 0, 0), joins(), *consumes(0, 0), final(Rec(2, 0, 0))],
        finds=[
            row(
                "consume-repeat", "transactional", offset=0, process=1, at_s=3,
                after_ns="2000000000", after_process="1", group="g", poll="1",
            )
        ],
    ),
    Story(
        title="what a transaction consumed once is in order",
        why=_ONCE,
        ops=[ok(2, 0, 0), joins(), *consumes(0), final(Rec(2, 0, 0))],
    ),
    Story(
        title="what a transaction committed over was not consumed",
        why=_ONCE,
        ops=[
            ok(2, 0, 0),
            ok(2, 1, 1),
            joins(),
            *consumes(0),
            event(1, "committed", topic=TOPIC, partition=0, offset=2),
            final(Rec(2, 0, 0), Rec(2, 1, 1)),
        ],
        finds=[
            row("consume-skip", "transactional", offset=1, value=(2, 1), committed="2", group="g")
        ],
    ),
)
# fmt: on
