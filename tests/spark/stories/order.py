"""In which order things were sent, and given to consumers."""

from tests.spark.ops import Op, Rec, end, event, final, info, ok, poll, txn
from tests.spark.story import Story, of, row

SENT = [ok(1, n, n) for n in range(4)]
LOG = final(*(Rec(1, n, n) for n in range(4)))

_POLLS = "the nonmonotonic-poll analysis of jepsen.tests.kafka: a consumer goes forward"
_SKIPS = "the poll-skip analysis of jepsen.tests.kafka: no known record is passed over"
_RESET = "a fresh assignment, a seek and a crash set a new place to read from"
_SENDS = "KIP-98: an idempotent producer's sends lie in their order, five in flight or one"


def given(*offsets: int) -> list[Rec]:
    return [Rec(1, offset, offset) for offset in offsets]


def back_after(what: Op) -> list[Op]:
    """A consumer goes back to where it was, and something has happened meanwhile."""
    return [*SENT, poll(9, 0, *given(0, 1)), what, poll(9, 1, *given(0)), LOG]


def swapped_after(error: Op) -> list[Op]:
    """A later send lies earlier, and a client had an error between the two."""
    log = final(Rec(1, 2, 3), Rec(1, 1, 5))
    return [ok(1, 1, 5), error, event(2, "error", op=2), ok(1, 2, 3), log]


# fmt: off
STORIES = (
    Story(
        title="a poll that begins below the last is nonmonotonic",
        why=_POLLS,
        ops=[*SENT, poll(9, 0, *given(0, 1)), poll(9, 1, *given(0)), LOG],
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=9, at_s=5,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="a poll that begins at the last is nonmonotonic",
        why=_POLLS,
        ops=[*SENT, poll(9, 0, *given(0, 1)), poll(9, 1, *given(1)), LOG],
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=1, value=(1, 1), process=9, at_s=5,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="a group may have moved a subscribed consumer, so the kind says subscribe",
        why="a rebalance returns to what was committed (KIP-429)",
        ops=[*SENT, poll(9, 0, *given(0, 1)), poll(9, 1, *given(0)), LOG],
        subscribed=[9],
        finds=[
            row(
                "nonmonotonic-poll", "subscribe", offset=0, value=(1, 0), process=9, at_s=5,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    *(
        Story(
            title=f"of two polls with {reset} between them nothing is asked",
            why=_RESET,
            ops=back_after(event(9, reset)),
        )
        for reset in ("assign", "subscribe", "seek", "crash")
    ),
    Story(
        title="a seek of another consumer excuses nothing",
        why=_RESET,
        ops=back_after(event(8, "seek")),
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=9, at_s=6,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="a seek in another partition excuses nothing",
        why=_RESET,
        ops=back_after(event(9, "seek", topic="orders", partition=1)),
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=9, at_s=6,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="an error between two polls excuses nothing",
        why=_RESET,
        ops=back_after(event(9, "error")),
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=9, at_s=6,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="a poll beyond a known record skips it",
        why=_SKIPS,
        ops=[*SENT, poll(9, 0, *given(0)), poll(9, 1, *given(3)), LOG],
        finds=[
            row(
                "poll-skip", "assign", offset=3, value=(1, 3), process=9, at_s=5,
                after_ns="4000000000", after_offset="0", after_poll="0", after_value=of(1, 0),
                poll="1", skipped="2",
            )
        ],
    ),
    Story(
        title="offsets that hold no record are nothing to skip",
        why="KIP-98: markers and compaction leave offsets without a record",
        ops=[
            ok(1, 0, 0),
            ok(1, 9, 9),
            poll(9, 0, *given(0)),
            poll(9, 1, *given(9)),
            final(*given(0, 9)),
        ],
    ),
    *(
        Story(
            title=f"a single record at {between}, far within a gap, is skipped",
            why="where records lie is kept as bits, 64 offsets a word: each edge of a word counts",
            ops=[
                *(ok(1, offset, offset) for offset in (62, between, 192)),
                poll(9, 0, *given(62)),
                poll(9, 1, *given(192)),
                final(*given(62, between, 192)),
            ],
            finds=[
                row(
                    "poll-skip", "assign", offset=192, value=(1, 192), process=9, at_s=4,
                    after_ns="3000000000", after_offset="62", after_poll="0", after_value=of(1, 62),
                    poll="1", skipped="1",
                )
            ],
        )
        for between in (63, 64, 127, 128, 191)
    ),
    Story(
        title="what lies at the edges of a gap is not skipped",
        why="only what lies strictly between two polls was passed over",
        ops=[
            *(ok(1, offset, offset) for offset in (0, 62, 63, 128, 129)),
            poll(9, 0, *given(63)),
            poll(9, 1, *given(128)),
            final(*given(0, 62, 63, 128, 129)),
        ],
    ),
    Story(
        title="a seek excuses a jump to its offset",
        why="the consumer goes on where it was sent",
        ops=[
            *SENT,
            poll(9, 0, *given(0)),
            event(9, "seek", topic="orders", partition=0, offset=3),
            poll(9, 1, *given(3)),
            LOG,
        ],
    ),
    Story(
        title="a seek excuses no jump beyond its offset",
        why="a seek excuses a jump to its offset, and nothing else",
        ops=[
            *SENT,
            poll(9, 0, *given(0)),
            event(9, "seek", topic="orders", partition=0, offset=2),
            poll(9, 1, *given(3)),
            LOG,
        ],
        finds=[
            row(
                "poll-skip", "assign", offset=3, value=(1, 3), process=9, at_s=6, skipped="1",
                after_ns="4000000000", after_offset="0", after_poll="0", after_value=of(1, 0),
                poll="1",
            )
        ],
    ),
    Story(
        title="a seek excuses no jump to before its offset",
        why="a seek excuses a jump to its offset, and nothing else",
        ops=back_after(event(9, "seek", topic="orders", partition=0, offset=1)),
        finds=[
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=9, at_s=6,
                after_ns="4000000000", after_offset="1", after_poll="0", after_value=of(1, 1),
                poll="1",
            )
        ],
    ),
    Story(
        title="a reset excuses a skip",
        why=_RESET,
        ops=[*SENT, poll(9, 0, *given(0)), event(9, "seek"), poll(9, 1, *given(3)), LOG],
    ),
    Story(
        title="one poll that goes back is internally nonmonotonic",
        why="the int-nonmonotonic-poll analysis of jepsen.tests.kafka",
        ops=[*SENT, poll(9, 4, *given(0, 2, 1)), LOG],
        finds=[
            row(
                "int-nonmonotonic-poll", offset=1, value=(1, 1), process=9, at_s=4,
                after_ns="4000000000", after_offset="2", after_poll="4", after_value=of(1, 2),
                poll="4",
            ),
            row(
                "int-poll-skip", offset=2, value=(1, 2), process=9, at_s=4, after_ns="4000000000",
                after_offset="0", after_poll="4", after_value=of(1, 0), poll="4", skipped="1",
            ),
        ],
    ),
    Story(
        title="one poll that leaves a record out skips internally",
        why="the int-poll-skip analysis of jepsen.tests.kafka",
        ops=[*SENT, poll(9, 4, *given(0, 3)), LOG],
        finds=[
            row(
                "int-poll-skip", offset=3, value=(1, 3), process=9, at_s=4, after_ns="4000000000",
                after_offset="0", after_poll="4", after_value=of(1, 0), poll="4", skipped="2",
            )
        ],
    ),
    Story(
        # At 1 the log that was cut off had a marker, and the log of today has a record.
        title="a log that was cut off was read with gaps of its own",
        why="KIP-98: markers of transactions take offsets, others in each log",
        ops=[ok(1, 0, 0), info(1, 1), poll(9, 4, Rec(1, 0, 0), Rec(1, 1, 2)), ok(2, 0, 1),
             final(Rec(1, 0, 0), Rec(2, 0, 1))],
        finds=[
            row(
                "dirty-read", offset=2, value=(1, 1), process=9, at_s=2, complete_ns="1500000000",
                finally_read="0", invoke_ns="1000000000", last_read_ns="2000000000",
                last_read_offset="2", last_reader="9", polled="1", producer="1", send_type="info",
                sent_partition="0", sequence="1",
            ),
            row(
                "int-poll-skip", "lost", offset=2, value=(1, 1), process=9, at_s=2,
                after_ns="2000000000", after_offset="0", after_poll="4", after_value=of(1, 0),
                poll="4", skipped="1",
            ),
        ],
    ),
    Story(
        title="a gap beyond what the final read reached may be that of a log that was cut off",
        why="KIP-98: markers of transactions take offsets, and nobody knows where they lay",
        ops=[ok(1, 0, 0), info(1, 1), poll(9, 4, Rec(1, 0, 0), Rec(1, 1, 2)), ok(2, 0, 1),
             final(Rec(1, 0, 0), Rec(2, 0, 1))],
        ends=[end(high=3, reached=2), end(partition=1)],
        finds=[
            row(
                "int-poll-skip", "lost", offset=2, value=(1, 1), process=9, at_s=2,
                after_ns="2000000000", after_offset="0", after_poll="4", after_value=of(1, 0),
                poll="4", skipped="1",
            ),
        ],
    ),
    Story(
        title="what lay between two records in a log that was cut off is not skipped",
        why="the final log has both, and nothing between them",
        ops=[info(2, 0), poll(8, 0, Rec(2, 0, 1)), ok(1, 0, 0), ok(1, 1, 2),
             poll(9, 4, Rec(1, 0, 0), Rec(1, 1, 2)), final(Rec(1, 0, 0), Rec(1, 1, 2))],
        finds=[
            row(
                "dirty-read", offset=1, value=(2, 0), process=8, at_s=1,
                complete_ns="500000000", finally_read="0",
                invoke_ns="0", last_read_ns="1000000000", last_read_offset="1",
                last_reader="8", polled="1", producer="2", send_type="info", sent_partition="0",
                sequence="0",
            ),
        ],
    ),
    Story(
        title="a record that was moved counts where the final log has it",
        why="its log was cut off and it was written again, in order, where that ended",
        ops=[*SENT, poll(9, 0, Rec(1, 0, 7)), LOG],
        finds=[
            row(
                "duplicate", "moved", offset=0, value=(1, 0), process=1, at_s=0.5,
                acked_offset="0", complete_ns="500000000", invoke_ns="0", last_offset="7",
                last_read_ns="4000000000", last_read_offset="0", last_reader="9", partitions="1",
                polled="1", producer="1", sequence="0",
            ),
        ],
    ),
    Story(
        title="a poll in which partitions moved is passed over",
        why="librdkafka may hand out records of two assignments in one poll",
        ops=[*SENT, event(9, "rebalance", op=4), poll(9, 4, *given(0, 3, 1)), LOG],
    ),
    Story(
        title="a later send at an earlier offset is nonmonotonic",
        why=_SENDS,
        ops=[
            ok(1, 0, 5),
            ok(1, 1, 3),
            ok(1, 2, 6),
            final(Rec(1, 1, 3), Rec(1, 0, 5), Rec(1, 2, 6)),
        ],
        finds=[
            row(
                "nonmonotonic-send", "order", offset=3, value=(1, 1), process=1, at_s=1.5,
                after_offset="5", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            )
        ],
    ),
    Story(
        title="a later send of a transaction at an earlier offset is nonmonotonic within it",
        why=_SENDS,
        ops=[
            ok(1, 0, 5, txn=3),
            ok(1, 1, 3, txn=3),
            txn("ok", 1, 3),
            final(Rec(1, 1, 3), Rec(1, 0, 5)),
        ],
        finds=[
            row(
                "int-nonmonotonic-send", "order", offset=3, value=(1, 1), process=1, at_s=1.5,
                after_offset="5", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            )
        ],
    ),
    Story(
        title="sends are ordered by sequence and not by completion",
        why=_SENDS,
        ops=[ok(1, 1, 6), ok(1, 0, 5), final(Rec(1, 0, 5), Rec(1, 1, 6))],
    ),
    Story(
        title="an indeterminate send counts where it was read",
        why="it was read, so it was written (Jepsen's :info)",
        ops=[ok(1, 0, 5), info(1, 1, partition=None), final(Rec(1, 1, 3), Rec(1, 0, 5))],
        finds=[
            row(
                "nonmonotonic-send", "order", offset=3, value=(1, 1), process=1, at_s=1.5,
                after_offset="5", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            )
        ],
    ),
    Story(
        title="an unread indeterminate send breaks the chain",
        why="whether it lies between its neighbours, nobody knows",
        ops=[ok(1, 0, 5), info(1, 1), ok(1, 2, 3), final(Rec(1, 2, 3), Rec(1, 0, 5))],
    ),
    Story(
        title="an offset that was told and never acknowledged is no place",
        why="a transaction of unknown outcome may have lost what it wrote there",
        ops=[info(1, 0, 5), ok(1, 1, 3), final(Rec(1, 1, 3))],
    ),
    Story(
        title="a send without offset counts where it was read",
        why="under acks=0 no offset is told",
        ops=[ok(1, 0, None), ok(1, 1, None), final(Rec(1, 1, 0), Rec(1, 0, 1))],
        finds=[
            row(
                "nonmonotonic-send", "order", offset=0, value=(1, 1), process=1, at_s=1.5,
                after_offset="1", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            )
        ],
    ),
    Story(
        title="a duplicate counts at its last offset",
        why="its second copy is what a retry wrote behind its successor (KAFKA-5494)",
        ops=[ok(1, 0, 5), ok(1, 1, 6), final(Rec(1, 0, 5), Rec(1, 1, 6), Rec(1, 0, 9))],
        finds=[
            row(
                "duplicate", "log", offset=5, value=(1, 0), process=1, at_s=0.5, acked_offset="5",
                complete_ns="500000000", invoke_ns="0", last_offset="9", last_read_offset="9",
                partitions="1", polled="0", producer="1", sequence="0",
            ),
            row(
                "nonmonotonic-send", "duplicate", offset=6, value=(1, 1), process=1, at_s=1.5,
                after_offset="9", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="order broken by a lost record says so",
        why="an offset that was acknowledged and cut off stands for a loss first",
        ops=[ok(1, 0, 100), ok(1, 1, 60), final(Rec(1, 1, 60))],
        finds=[
            row(
                "lost-write", offset=100, value=(1, 0), process=1, at_s=0.5, acked_offset="100",
                complete_ns="500000000", invoke_ns="0", polled="0", producer="1", sequence="0",
            ),
            row(
                "nonmonotonic-send", "lost", offset=60, value=(1, 1), process=1, at_s=1.5,
                after_offset="100", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="order broken beyond what the final read reached may be a loss",
        why="an offset of a log that was cut off says nothing, and this may be one",
        ops=[ok(1, 0, 100), ok(1, 1, 60), poll(8, 0, Rec(1, 0, 100)),
             poll(9, 0, Rec(1, 1, 60))],
        ends=[end(high=101, reached=50), end(partition=1)],
        finds=[
            row(
                "nonmonotonic-send", "lost", offset=60, value=(1, 1), process=1, at_s=1.5,
                after_offset="100", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        # P1:1 lies in the socket of a frozen broker; P1:2 is the first send of the new producer.
        title="the sends before and after a rebuilt producer are not compared",
        why="order is promised by producer id (KIP-98), and a rebuilt producer has another",
        ops=[
            ok(1, 0, 0),
            info(1, 1),
            event(1, "error", op=2, detail="new producer after: _FATAL"),
            ok(1, 2, 1),
            ok(1, 3, 2),
            final(Rec(1, 0, 0), Rec(1, 2, 1), Rec(1, 3, 2), Rec(1, 1, 3)),
        ],
    ),
    *(
        Story(
            title=f"an error that rebuilt no producer between two sends ({op}) excuses nothing",
            why="order is promised by producer id (KIP-98), and that stayed",
            ops=swapped_after(event(1, "error", op=op)),
            finds=[
                row(
                    "nonmonotonic-send", "order", offset=3, value=(1, 2), process=1, at_s=3.5,
                    after_offset="5", after_sequence="1", after_value=of(1, 1), producer="1",
                    sequence="2",
                )
            ],
        )
        for op in (None, 0, 1, 3)
    ),
    Story(
        title="producers are compared apart",
        why="nothing is promised about the order of two producers",
        ops=[ok(1, 0, 5), ok(2, 1, 3), final(Rec(2, 1, 3), Rec(1, 0, 5))],
    ),
)
# fmt: on
