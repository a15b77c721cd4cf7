"""What consumer groups processed and committed."""

from typing import Any

from harness.core.op import value_of
from tests.spark.ops import TOPIC, Op, Rec, end, event, final, info, ok, poll
from tests.spark.story import Row, Story, of, row

FIRST, SECOND = 200, 201

_AT_MOST = "at most once, in Kafka's documentation of message delivery semantics"
_AT_LEAST = "at least once, in Kafka's documentation of message delivery semantics"
_CUT = "a log that was cut off is another log: KIP-101, KIP-320"
_ORDER = "a group in order offends nobody"
_GONE = "KAFKA-5600, KAFKA-20634: commits that went back with a new coordinator"


def log(*offsets: int) -> list[Op]:
    return [*(ok(1, n, n) for n in offsets), final(*(Rec(1, n, n) for n in offsets))]


def joins(process: int, commits: str = "after-processing", group: str = "g one") -> Op:
    return event(process, "subscribe", op=0, topic=TOPIC, detail=f"{commits} {group}")


def given(process: int, op: int, *offsets: int) -> Op:
    return poll(process, op, *(Rec(1, n, n) for n in offsets))


def processes(process: int, offset: int, *, op: int | None = 0) -> Op:
    return event(process, "processed", op=op, topic=TOPIC, partition=0, offset=offset)


def commits(process: int, offset: int) -> Op:
    return event(process, "committed", topic=TOPIC, partition=0, offset=offset)


def fetches(process: int, offset: int | None, *, asked_s: float) -> Op:
    asked = str(int(asked_s * 1e9))
    place = {"topic": TOPIC, "partition": 0, "offset": offset}
    return event(process, "offset-fetch", detail=asked, **place)


def lost_at(
    offset: int, sequence: int, new: int, *, sent_s: int, read_s: int, over_s: float
) -> list[Row]:
    """What is found of a record of producer 1 that a record of producer 2 has the place of."""
    value, over = (1, sequence), (2, new)
    told: dict[str, Any] = {
        "acked_offset": str(offset),
        "complete_ns": str(int((sent_s + 0.5) * 1e9)),
        "invoke_ns": str(sent_s * 10**9),
        "last_read_ns": str(read_s * 10**9),
        "last_read_offset": str(offset),
        "last_reader": "200",
        "polled": "1",
        "producer": "1",
        "sequence": str(sequence),
    }
    return [
        row("lost-write", offset=offset, value=value, process=1, at_s=sent_s + 0.5, **told),
        row(
            "dirty-read",
            offset=offset,
            value=value,
            process=FIRST,
            at_s=read_s,
            finally_read="0",
            send_type="ok",
            sent_partition="0",
            **told,
        ),
        row(
            "inconsistent-offsets",
            "reads",
            offset=offset,
            value=over,
            process=2,
            at_s=over_s,
            other_producer="1",
            other_sequence=str(sequence),
            other_value=str(value_of(*value)),
            producer="2",
            read_value=str(value_of(*over)),
            sequence=str(new),
        ),
    ]


SKIPPING = [*log(0, 1), joins(FIRST), commits(FIRST, 2), processes(FIRST, 0)]
POLLING = [*log(0, 1), joins(FIRST, "auto-polled"), processes(FIRST, 0)]
AUDITED = [
    *log(0, 1, 2),
    joins(FIRST),
    processes(FIRST, 0),
    commits(FIRST, 1),
]
GIVEN_AGAIN = [
    *log(0),
    joins(FIRST),
    given(FIRST, 0, 0),
    processes(FIRST, 0),
    commits(FIRST, 1),
    joins(SECOND),
    given(SECOND, 0, 0),
    processes(SECOND, 0),
]
CUT = [
    ok(1, 0, 1),
    joins(FIRST),
    poll(FIRST, 0, Rec(1, 0, 1)),
    processes(FIRST, 1),
    commits(FIRST, 3),
    *(ok(2, n, n) for n in range(4)),
    final(*(Rec(2, n, n) for n in range(4))),
]
"""A group commits 3 after a record of a log that is cut off, and written anew to 4."""
AUDIT = event(350, "audit", topic=TOPIC, detail="after-processing g one")

# fmt: off
GONE = row(
    "lost-commit", "in-sync", offset=2, process=SECOND, at_s=4, group="g one", committed_by="200",
    committed_ns="2000000000",
)

STORIES = (
    Story(
        title="what was committed and never processed is skipped",
        why=_AT_MOST,
        ops=[
            *log(0, 1, 2),
            joins(FIRST, "before-processing"),
            given(FIRST, 0, 0, 1, 2),
            commits(FIRST, 3),
            processes(FIRST, 0),
            event(FIRST, "crash"),
        ],
        finds=[
            row(
                "consume-skip", "before-processing", offset=1, value=(1, 1), process=200, at_s=5,
                committed="3", given_to="200", group="g one",
            ),
            row(
                "consume-skip", "before-processing", offset=2, value=(1, 2), process=200, at_s=5,
                committed="3", given_to="200", group="g one",
            ),
        ],
    ),
    Story(
        title="a committed record that nobody has processed yet is skipped",
        why=_AT_MOST,
        ops=SKIPPING,
        finds=[
            row(
                "consume-skip", "after-processing", offset=1, value=(1, 1), committed="2",
                group="g one",
            )
        ],
    ),
    Story(
        title="a successor that processes it after all heals the skip",
        why="at least once, and late is not never",
        ops=[*SKIPPING, joins(SECOND), processes(SECOND, 1)],
    ),
    Story(
        title="a record that another group processed is skipped all the same, given to nobody",
        why="each group has offsets of its own",
        ops=[
            *log(0),
            joins(FIRST, group="a"),
            joins(SECOND, group="b"),
            commits(FIRST, 1),
            processes(SECOND, 0),
        ],
        finds=[
            row(
                "consume-skip", "after-processing", offset=0, value=(1, 0), committed="1", group="a"
            )
        ],
    ),
    Story(
        title="of several ways to commit the weakest names the skip",
        why="who committed is not known, so the group is held to the least that a member promises",
        ops=[*log(0), joins(FIRST), joins(SECOND, "auto-delivered"), commits(FIRST, 1)],
        finds=[
            row(
                "consume-skip", "auto-delivered", offset=0, value=(1, 0), committed="1",
                group="g one",
            )
        ],
    ),
    Story(
        title="an automatic commit that nobody was told of is no skip",
        why=_ORDER,
        ops=POLLING,
    ),
    Story(
        title="a commit that only its successor saw skips too",
        why="what the coordinator answers was committed, acknowledged or not",
        ops=[*POLLING, joins(SECOND), fetches(SECOND, 2, asked_s=9)],
        finds=[
            row(
                "consume-skip", "after-processing", offset=1, value=(1, 1), committed="2",
                group="g one",
            )
        ],
    ),
    Story(
        title="a commit in a log that was cut off does not count once its group begins anew",
        why=_CUT,
        ops=[
            *CUT,
            event(FIRST, "seek", topic=TOPIC, partition=0, offset=0),
            poll(FIRST, 1, Rec(2, 0, 0)),
            processes(FIRST, 0, op=1),
            commits(FIRST, 1),
        ],
        finds=lost_at(1, 0, 1, sent_s=0, read_s=2, over_s=6.5),
    ),
    Story(
        title="who goes on where it was in a log that was cut off passes over what is new there",
        why=_CUT,
        ops=[
            *CUT,
            event(FIRST, "seek", topic=TOPIC, partition=0, offset=3),
            poll(FIRST, 1, Rec(2, 3, 3)),
            processes(FIRST, 3, op=1),
            commits(FIRST, 4),
        ],
        finds=[
            *lost_at(1, 0, 1, sent_s=0, read_s=2, over_s=6.5),
            *(
                row("consume-skip", "lost", offset=n, value=(2, n), committed="4", group="g one")
                for n in range(3)
            ),
        ],
    ),
    Story(
        title="what the final read did not get to is not lost, and a commit beyond it counts",
        why=_AT_LEAST,
        ops=[
            *(ok(1, n, n) for n in range(3)),
            final(Rec(1, 0, 0)),
            joins(FIRST),
            given(FIRST, 0, 0, 1, 2),
            processes(FIRST, 1),
            processes(FIRST, 2),
            commits(FIRST, 3),
        ],
        ends=[end(high=3, reached=1), end(partition=1)],
        finds=[
            row(
                "consume-skip", "after-processing", offset=0, value=(1, 0), process=200, at_s=5,
                committed="3", given_to="200", group="g one",
            ),
        ],
    ),
    Story(
        title="what lies below the cut is passed over as ever",
        why=_AT_LEAST,
        ops=[
            *(ok(1, n, n) for n in range(3)),
            joins(FIRST),
            given(FIRST, 0, 1, 2),
            processes(FIRST, 1),
            processes(FIRST, 2),
            commits(FIRST, 3),
            ok(2, 0, 2),
            event(FIRST, "seek", topic=TOPIC, partition=0, offset=2),
            poll(FIRST, 1, Rec(2, 0, 2)),
            processes(FIRST, 2, op=1),
            commits(FIRST, 3),
            final(Rec(1, 0, 0), Rec(1, 1, 1), Rec(2, 0, 2)),
        ],
        finds=[
            *lost_at(2, 2, 0, sent_s=2, read_s=4, over_s=8.5),
            row(
                "consume-skip", "after-processing", offset=0, value=(1, 0), committed="3",
                group="g one",
            ),
        ],
    ),
    Story(
        title="what is not committed yet may still be processed",
        why=_ORDER,
        ops=[*log(0, 1, 2), joins(FIRST), processes(FIRST, 0), commits(FIRST, 1)],
    ),
    Story(
        title="where there is no record there is nothing to skip",
        why=_ORDER,
        ops=[info(1, 0), *log(1), joins(FIRST), processes(FIRST, 1), commits(FIRST, 2)],
    ),
    Story(
        title="a subscriber that only polls is asked nothing",
        why=_ORDER,
        ops=[
            *log(0),
            event(FIRST, "subscribe", topic=TOPIC),
            given(FIRST, 0, 0),
            commits(FIRST, 1),
        ],
    ),
    Story(
        title="a group that is asked for before anything was committed has lost nothing",
        why=_ORDER,
        ops=[*log(0), joins(FIRST), fetches(FIRST, None, asked_s=0), processes(FIRST, 0)],
    ),
    Story(
        title="a coordinator that knows of more than was acknowledged has lost nothing",
        why=_ORDER,
        ops=[
            *log(0, 1),
            joins(FIRST),
            processes(FIRST, 0),
            processes(FIRST, 1),
            commits(FIRST, 1),
            fetches(SECOND, 2, asked_s=99),
        ],
    ),
    Story(
        title="what is processed before it is committed may be repeated",
        why=_AT_LEAST,
        ops=[
            *log(0, 1),
            joins(FIRST),
            given(FIRST, 0, 0, 1),
            processes(FIRST, 0),
            commits(FIRST, 1),
            processes(FIRST, 1),
            event(FIRST, "crash"),
            joins(SECOND),
            given(SECOND, 0, 1),
            processes(SECOND, 1),
            commits(SECOND, 2),
        ],
        finds=[
            row(
                "consume-repeat", "uncommitted", offset=1, process=201, at_s=11,
                after_ns="7000000000", after_process="200", group="g one", poll="0",
            )
        ],
    ),
    Story(
        title="what had been committed is not to be given out again",
        why=_AT_LEAST,
        ops=GIVEN_AGAIN,
        finds=[
            row(
                "consume-repeat", "committed", offset=0, process=201, at_s=8, after_ns="4000000000",
                after_process="200", committed="1", group="g one", poll="0",
            )
        ],
    ),
    Story(
        # Both were given the record before either had committed, and both commits were taken.
        title="who commits before processing and is repeated was taken for alive too long",
        why="KAFKA-9824 and fencing by generation: an expelled member's commit must be refused",
        ops=[
            *log(0),
            joins(FIRST, "before-processing"),
            joins(SECOND, "before-processing"),
            given(FIRST, 0, 0),
            given(SECOND, 0, 0),
            commits(FIRST, 1),
            processes(FIRST, 0),
            commits(SECOND, 1),
            processes(SECOND, 0),
        ],
        finds=[
            row(
                "consume-repeat", "before-processing", offset=0, process=201, at_s=9,
                after_ns="7000000000", after_process="200", group="g one", poll="0",
            )
        ],
    ),
    Story(
        title="who processed before committing may be repeated by one that commits first",
        why=_AT_LEAST,
        ops=[
            *log(0),
            joins(FIRST, "after-processing"),
            joins(SECOND, "before-processing"),
            given(FIRST, 0, 0),
            processes(FIRST, 0),
            given(SECOND, 0, 0),
            commits(SECOND, 1),
            processes(SECOND, 0),
        ],
        finds=[
            row(
                "consume-repeat", "uncommitted", offset=0, process=201, at_s=8,
                after_ns="5000000000", after_process="200", group="g one", poll="0",
            )
        ],
    ),
    Story(
        title="what lies beyond the last commit is not skipped",
        why=_ORDER,
        ops=AUDITED,
    ),
    Story(
        title="what an auditor is told at the end counts as committed",
        why="what the coordinator answers was committed, acknowledged or not",
        ops=[*AUDITED, AUDIT, fetches(350, 3, asked_s=99)],
        finds=[
            row(
                "consume-skip", "after-processing", offset=1, value=(1, 1), committed="3",
                group="g one",
            ),
            row(
                "consume-skip", "after-processing", offset=2, value=(1, 2), committed="3",
                group="g one",
            ),
        ],
    ),
    Story(
        title="an auditor who is told of less than was committed finds a lost commit",
        why=_GONE,
        ops=[*AUDITED, AUDIT, fetches(350, 0, asked_s=99)],
        finds=[
            row(
                "lost-commit", "in-sync", offset=1, process=350, at_s=8, committed_by="200",
                committed_ns="6000000000", fetched="0", group="g one",
            )
        ],
    ),
    *(
        Story(
            title=f"a commit that is lost after power was lost {when} is {kind}",
            why="KIP-966: what is acknowledged is not flushed",
            ops=[*AUDITED, AUDIT, fetches(350, 0, asked_s=99)],
            timeline={"taken_commits": [{"topic": TOPIC, "taken_ns": [*at_ns]}]},
            finds=[
                row(
                    "lost-commit", kind, offset=1, process=350, at_s=8, committed_by="200",
                    committed_ns="6000000000", fetched="0", group="g one",
                )
            ],
        )
        for when, kind, at_ns in (
            ("behind it", "partly-destroyed", (5 * 10**9, 7 * 10**9)),
            ("before it", "in-sync", (5 * 10**9,)),
            ("too late", "in-sync", (9 * 10**9,)),
        )
    ),
    Story(
        # The automatic commit of the second delivery may come before its processing.
        title="a commit after the record was given out again excuses nobody and nothing",
        why=_AT_LEAST,
        ops=[
            *log(0),
            joins(FIRST, "auto-delivered"),
            given(FIRST, 0, 0),
            processes(FIRST, 0),
            given(FIRST, 1, 0),
            commits(FIRST, 1),
            processes(FIRST, 0, op=1),
        ],
        finds=[
            row(
                "consume-repeat", "uncommitted", offset=0, process=200, at_s=7,
                after_ns="4000000000", after_process="200", group="g one", poll="1",
            ),
            row(
                "nonmonotonic-poll", "assign", offset=0, value=(1, 0), process=200, at_s=5,
                after_ns="3000000000", after_offset="0", after_poll="0", after_value=of(1, 0),
                poll="1",
            ),
        ],
    ),
    Story(
        title="a client that does not tell its polls is dated by its processing",
        why=_AT_LEAST,
        ops=[
            *log(0),
            joins(FIRST),
            processes(FIRST, 0, op=None),
            commits(FIRST, 1),
            processes(FIRST, 0, op=None),
        ],
        finds=[
            row(
                "consume-repeat", "committed", offset=0, process=200, at_s=5, after_ns="3000000000",
                after_process="200", committed="1", group="g one",
            )
        ],
    ),
    *(
        Story(
            title=f"a record given out again after power was lost {when} its commit is {kind}",
            why="KIP-966: what is acknowledged is not flushed",
            ops=GIVEN_AGAIN,
            timeline={"taken_commits": [{"topic": TOPIC, "taken_ns": [at_ns]}]},
            finds=[
                row(
                    "consume-repeat", kind, offset=0, process=201, at_s=8, after_ns="4000000000",
                    after_process="200", committed="1", group="g one", poll="0",
                )
            ],
        )
        for when, kind, at_ns in (
            ("behind", "partly-destroyed", 6 * 10**9),
            ("before", "committed", 4 * 10**9),
        )
    ),
    Story(
        title="every time after the first is one repeat",
        why=_AT_LEAST,
        ops=[*log(0), joins(FIRST), *(processes(FIRST, 0, op=n) for n in range(3))],
        finds=[
            row(
                "consume-repeat", "uncommitted", offset=0, process=200, at_s=4,
                after_ns="3000000000", after_process="200", group="g one", poll="1",
            ),
            row(
                "consume-repeat", "uncommitted", offset=0, process=200, at_s=5,
                after_ns="4000000000", after_process="200", group="g one", poll="2",
            ),
        ],
    ),
    *(
        Story(
            title=f"an acknowledged commit that is gone is lost ({told} is told instead)",
            why=_GONE,
            ops=[
                joins(FIRST),
                commits(FIRST, 1),
                commits(FIRST, 2),
                joins(SECOND),
                fetches(SECOND, told, asked_s=3.5),
            ],
            finds=[gone],
        )
        for told, gone in (
            (None, GONE),
            (1, {**GONE, "detail": {**GONE["detail"], "fetched": "1"}}),
        )
    ),
    Story(
        title="the last commit counts and not the highest",
        why="a group may be set back on purpose (kafka-consumer-groups --reset-offsets)",
        ops=[
            joins(FIRST),
            commits(FIRST, 9),
            commits(FIRST, 2),
            joins(SECOND),
            fetches(SECOND, 2, asked_s=9),
        ],
    ),
    Story(
        title="a commit acknowledged only after it was asked for is not lost",
        why="the answer may have been on its way",
        ops=[joins(FIRST), joins(SECOND), commits(FIRST, 2), fetches(SECOND, 1, asked_s=1.5)],
    ),
    Story(
        title="one group can skip, repeat and lose a commit at once",
        why=f"{_AT_MOST}; {_AT_LEAST}; {_GONE}",
        ops=[
            *log(0, 1),
            joins(FIRST),
            processes(FIRST, 0),
            processes(FIRST, 0),
            commits(FIRST, 2),
            joins(SECOND),
            fetches(SECOND, 0, asked_s=99),
        ],
        finds=[
            row(
                "consume-repeat", "uncommitted", offset=0, process=200, at_s=5,
                after_ns="4000000000", after_process="200", group="g one", poll="0",
            ),
            row(
                "consume-skip", "after-processing", offset=1, value=(1, 1), committed="2",
                group="g one",
            ),
            row(
                "lost-commit", "in-sync", offset=2, process=201, at_s=8, committed_by="200",
                committed_ns="6000000000", fetched="0", group="g one",
            ),
        ],
    ),
)
# fmt: on
