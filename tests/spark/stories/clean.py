"""Histories in which no checker may find anything."""

from tests.spark.ops import Rec, event, final, ok, poll
from tests.spark.story import Story

A, B, C = (1, 0), (1, 1), (1, 2)

# fmt: off
STORIES = (
    Story(
        title="nothing is found in a history in order",
        why="what was sent is there once, and was given in order",
        ops=[
            ok(*A, 0),
            ok(*B, 1),
            ok(2, 0, 0, partition=1),
            poll(9, 0, Rec(*A, 0), Rec(2, 0, 0, partition=1), Rec(*B, 1)),
            poll(8, 0, Rec(*B, 1)),
            final(Rec(*A, 0), Rec(*B, 1), Rec(2, 0, 0, partition=1)),
        ],
    ),
    Story(title="nothing is found in an empty history", why="nothing happened"),
    Story(
        title="gaps that transactions leave are no offence",
        why="KIP-98: markers of transactions take offsets, and are given to nobody",
        ops=[
            ok(*A, 0),
            ok(*B, 2),
            ok(*C, 5),
            poll(9, 0, Rec(*A, 0), Rec(*B, 2)),
            poll(9, 1, Rec(*C, 5)),
            final(Rec(*A, 0), Rec(*B, 2), Rec(*C, 5)),
        ],
    ),
    Story(
        title="a consumer that starts over after an assignment is no offence",
        why="an assignment, a rebalance and a seek each set a new place to read from",
        ops=[
            ok(*A, 0),
            ok(*B, 1),
            poll(9, 0, Rec(*A, 0), Rec(*B, 1)),
            event(9, "assign"),
            poll(9, 1, Rec(*A, 0)),
            event(9, "rebalance", op=2),
            poll(9, 2, Rec(*B, 1), Rec(*A, 0)),
            event(9, "seek", topic="orders", partition=0, offset=1),
            poll(9, 3, Rec(*B, 1)),
            final(Rec(*A, 0), Rec(*B, 1)),
        ],
    ),
)
# fmt: on
