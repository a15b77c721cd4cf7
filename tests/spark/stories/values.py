"""What became of each value: lost, unseen, twice, moved, from nowhere, refused, gone again."""

from typing import Any

from tests.spark.ops import TOPIC, Rec, end, fail, final, info, ok, poll
from tests.spark.story import Row, Story, of, row
from verifiers.situations.loss_causes import FLAGS

A, B, C = (1, 0), (1, 1), (1, 2)

_LOST = "acks=all with min.insync.replicas: an acknowledged record survives (Kafka's documentation)"
_UNSEEN = "the unseen analysis of jepsen.tests.kafka: nobody looked is not the same as lost"
_DUPLICATE = "KIP-98: an idempotent producer's record is in the log once"
_INFO = "an outcome that nobody knows may be either (Jepsen's :info)"
_PHANTOM = "what is read was written: integrity, the least that a log promises"
_CORRUPT = "the CRC-32C of a v2 batch, and the checksum that every record of ours carries"
_G1A = "G1a of Adya's isolation levels: nobody reads what was refused or aborted"
_DIRTY = "KIP-101: a read that a later truncation takes back was of an uncommitted record"
_SLOT = "the inconsistent-offsets analysis of jepsen.tests.kafka: one offset, one record"


def lost_by_damage(kind: str) -> Row:
    """Return a loss that damage explains, or one of a kind that it does not explain."""
    lost = row(
        "lost-write", kind, offset=1, value=(1, 1), process=1, at_s=1.5, acked_offset="1",
        complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1", sequence="1",
    )  # fmt: skip
    if kind == "unexplained":
        return lost
    return {**lost, "detail": {**lost["detail"], "lost_by": "damage"}}


def cause_of_loss(**other: Any) -> dict[str, Any]:
    """Return damage that may have lost whatever was sent to partition 0."""
    anything = {"topic": TOPIC, "partition": 0, "at_ns": 3, "since_ns": 0, "until_ns": 1 << 62}
    words = {"cut_to": None, "cut_end": None, "words": "damage"}
    return {**anything, **words, **dict.fromkeys(FLAGS, False), **other}


def _lost_power(*, cut_end: int, **other: Any) -> dict[str, Any]:
    return cause_of_loss(cut_to=0, cut_end=cut_end, takes_a_copy=True, **other)


def _last_known(*, cut_to: int) -> dict[str, Any]:
    return cause_of_loss(cut_to=cut_to, is_last_known=True)


# fmt: off
_POLLED_ELSEWHERE = row(
    "duplicate", "moved", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
    complete_ns="500000000", invoke_ns="0", last_offset="3", last_read_ns="1000000000",
    last_read_offset="0", last_reader="9", partitions="1", polled="1", producer="1", sequence="0",
)
"""A value that was acknowledged and lies at 0, and was polled at 3."""

STORIES = (
    Story(
        title="an acknowledged record that the final read lacks is lost",
        why=_LOST,
        ops=[ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*A, 0), Rec(*C, 2))],
        finds=[
            row(
                "lost-write", offset=1, value=(1, 1), process=1, at_s=1.5, acked_offset="1",
                complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1",
                sequence="1",
            )
        ],
    ),
    *(
        Story(
            title=f"a loss after {what} is {kind}",
            why="a contract permits losses by damage, there and then, and none by themselves",
            ops=[ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*A, 0), Rec(*C, 2))],
            timeline={"loss_causes": [cause]},
            finds=[lost_by_damage(kind)],
        )
        for what, kind, cause in (
            ("a change of leader", "explained", cause_of_loss()),
            ("a cut at its offset", "explained", cause_of_loss(cut_to=1)),
            ("a cut of the last copy", "destroyed", cause_of_loss(cut_to=1, destroys=True)),
            ("lost power", "partly-destroyed", _lost_power(cut_end=2)),
            (
                "lost power alone, of a broker that led no more",
                "partly-destroyed",
                _lost_power(cut_end=2, leads_no_more=True),
            ),
            ("a last known leader", "last-known", _last_known(cut_to=1)),
            ("a last known leader that had it", "unexplained", _last_known(cut_to=2)),
            ("lost power where it was not yet", "explained", _lost_power(cut_end=1)),
            (
                "lost power where it was not yet, of a broker that led no more",
                "explained",
                _lost_power(cut_end=1, leads_no_more=True),
            ),
            ("a cut above it", "unexplained", cause_of_loss(cut_to=2)),
            ("damage of another partition", "unexplained", cause_of_loss(partition=1)),
            ("damage of before", "unexplained", cause_of_loss(until_ns=999_999_999)),
            ("damage of long after", "unexplained", cause_of_loss(since_ns=1_500_000_001)),
        )
    ),
    Story(
        title="a cut below a lost record is told of before a change of leader that came first",
        why="before KIP-101 a new leader's log does not say where it went on",
        ops=[ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*A, 0), Rec(*C, 2))],
        timeline={
            "loss_causes": [
                cause_of_loss(words="a change of leader"),
                cause_of_loss(at_ns=5, cut_to=2, words="a cut above it"),
                cause_of_loss(at_ns=7, cut_to=1),
                cause_of_loss(at_ns=8, cut_to=0, words="a later cut"),
            ]
        },
        finds=[lost_by_damage("explained")],
    ),
    *(
        Story(
            title=f"a cut behind lost power of a broker that led {since} makes a loss {kind}",
            why="KIP-101: who follows a broker that lost a record cuts it off, and nobody else may",
            ops=[ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*A, 0), Rec(*C, 2))],
            timeline={
                "loss_causes": [
                    _lost_power(cut_end=2, leads_no_more=leads_no_more, words=power),
                    cause_of_loss(at_ns=5, cut_to=1, words=cut),
                ]
            },
            finds=[lost_by_damage(kind)],
        )
        for since, leads_no_more, kind, power, cut in (
            ("no more", True, "explained", "power", "damage"),
            ("on", False, "partly-destroyed", "damage", "a later cut"),
        )
    ),
    Story(
        title="a lost tail is lost and not unseen",
        why="KAFKA-3410: unclean leaders cut tails first; a tail counts like the middle",
        ops=[ok(*A, 0), ok(*B, 1), final(Rec(*A, 0))],
        finds=[
            row(
                "lost-write", offset=1, value=(1, 1), process=1, at_s=1.5, acked_offset="1",
                complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1",
                sequence="1",
            )
        ],
    ),
    Story(
        title="a record without offset is lost by its value",
        why="acks=0 and a lost answer tell no offset, and the value still names the record",
        ops=[ok(*A, None, partition=None), ok(*B, None), ok(*C, None), final(Rec(*C, 0))],
        finds=[
            row(
                "lost-write", partition=None, value=(1, 0), process=1, at_s=0.5,
                complete_ns="500000000", invoke_ns="0", polled="0", producer="1", sequence="0",
            ),
            row(
                "lost-write", value=(1, 1), process=1, at_s=1.5, complete_ns="1500000000",
                invoke_ns="1000000000", polled="0", producer="1", sequence="1",
            ),
        ],
    ),
    Story(
        title="beyond what the final read reached nothing is lost but unseen",
        why=_UNSEEN,
        ops=[ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*B, 1)), poll(9, 0, Rec(*A, 0))],
        ends=[end(reached=2), end(partition=1)],
        finds=[
            row(
                "dirty-read", offset=0, value=(1, 0), process=9, at_s=4, acked_offset="0",
                complete_ns="500000000", finally_read="0", invoke_ns="0", last_read_ns="4000000000",
                last_read_offset="0", last_reader="9", polled="1", producer="1", send_type="ok",
                sent_partition="0", sequence="0",
            ),
            row(
                "lost-write", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", last_read_ns="4000000000",
                last_read_offset="0", last_reader="9", polled="1", producer="1", sequence="0",
            ),
            row(
                "unseen", offset=2, value=(1, 2), process=1, at_s=2.5, acked_offset="2",
                complete_ns="2500000000", invoke_ns="2000000000", polled="0", producer="1",
                sequence="2",
            ),
        ],
    ),
    Story(
        title="a polled record beyond what the final read reached is seen",
        why=_UNSEEN,
        ops=[ok(*A, 5), poll(9, 0, Rec(*A, 5))],
        ends=[end(reached=0), end(partition=1)],
    ),
    Story(
        title="without a final read everything nobody polled is unseen",
        why=_UNSEEN,
        ops=[ok(*A, 0), ok(*B, None, partition=None)],
        ends=[],
        finds=[
            row(
                "unseen", partition=None, value=(1, 1), process=1, at_s=1.5,
                complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1",
                sequence="1",
            ),
            row(
                "unseen", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", polled="0", producer="1", sequence="0",
            ),
        ],
    ),
    Story(
        title="a record read from the wrong partition alone is lost and a phantom",
        why="a record belongs to one partition: there it is missed, elsewhere it has no business",
        ops=[ok(*A, 0), final(Rec(*A, 0, partition=1))],
        finds=[
            row(
                "duplicate", "moved", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", last_offset="0", last_read_offset="0",
                partitions="2", polled="0", producer="1", sequence="0",
            ),
            row(
                "lost-write", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", last_read_offset="0", polled="0",
                producer="1", sequence="0",
            ),
            row(
                "phantom", "partition", partition=1, offset=0, value=(1, 0), process=1,
                acked_offset="0", complete_ns="500000000", finally_read="1", invoke_ns="0",
                last_read_offset="0", polled="0", producer="1", send_type="ok", sent_partition="0",
                sequence="0",
            ),
        ],
    ),
    Story(
        title="a value at two offsets of the final log is a duplicate",
        why=_DUPLICATE,
        ops=[ok(*A, 0), ok(*B, 1), final(Rec(*A, 0), Rec(*B, 1), Rec(*A, 2))],
        finds=[
            row(
                "duplicate", "log", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", last_offset="2", last_read_offset="2",
                partitions="1", polled="0", producer="1", sequence="0",
            ),
            row(
                "nonmonotonic-send", "duplicate", offset=1, value=(1, 1), process=1, at_s=1.5,
                after_offset="2", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="a value that was polled elsewhere than it lies has moved",
        why="KIP-101: a copy that only a poll saw was truncated, and the retry got another place",
        ops=[info(*A), poll(9, 0, Rec(*A, 3)), final(Rec(*A, 7))],
        finds=[
            row(
                "duplicate", "moved", offset=3, value=(1, 0), process=1, at_s=0.5,
                complete_ns="500000000", invoke_ns="0", last_offset="7", last_read_ns="1000000000",
                last_read_offset="7", last_reader="9", partitions="1", polled="1", producer="1",
                sequence="0",
            )
        ],
    ),
    Story(
        title="one offset read twice is no duplicate",
        why="a duplicate is in the log; a delivery may be repeated (at least once)",
        ops=[ok(*A, 0), poll(9, 0, Rec(*A, 0)), poll(8, 0, Rec(*A, 0)), final(Rec(*A, 0))],
    ),
    Story(
        title="a copy that only a poll saw has moved however often the other was read",
        why="a final read that is given one offset twice has not found two copies",
        ops=[ok(*A, 0), poll(9, 0, Rec(*A, 3)), final(Rec(*A, 0), Rec(*A, 0))],
        finds=[_POLLED_ELSEWHERE],
    ),
    Story(
        title="an acknowledged value that was polled elsewhere than it lies has moved",
        why="KIP-101: it was read where a log was cut later, and lies where it was acknowledged",
        ops=[ok(*A, 0), poll(9, 0, Rec(*A, 3)), final(Rec(*A, 0))],
        finds=[_POLLED_ELSEWHERE],
    ),
    Story(
        title="copies in two partitions of the final log are duplicates",
        why="KIP-480: a retry goes to the partition of the first attempt",
        ops=[ok(*A, 0), final(Rec(*A, 0), Rec(*A, 0, partition=1))],
        finds=[
            row(
                "duplicate", "log", offset=0, value=(1, 0), process=1, at_s=0.5, acked_offset="0",
                complete_ns="500000000", invoke_ns="0", last_offset="0", last_read_offset="0",
                partitions="2", polled="0", producer="1", sequence="0",
            ),
            row(
                "phantom", "partition", offset=0, value=(1, 0), process=1, acked_offset="0",
                complete_ns="500000000", finally_read="2", invoke_ns="0", last_read_offset="0",
                polled="0", producer="1", send_type="ok", sent_partition="0", sequence="0",
            ),
        ],
    ),
    Story(
        title="a record whose copy lies in a lower partition is not lost",
        why="it lies where it was acknowledged, whatever lies elsewhere",
        ops=[ok(*A, 0, partition=1), final(Rec(*A, 0, 1), Rec(*A, 0, 0))],
        finds=[
            row(
                "duplicate", "log", partition=1, offset=0, value=(1, 0), process=1, at_s=0.5,
                acked_offset="0", complete_ns="500000000", invoke_ns="0", last_offset="0",
                last_read_offset="0", partitions="2", polled="0", producer="1", sequence="0",
            ),
            row(
                "phantom", "partition", offset=0, value=(1, 0), process=1, acked_offset="0",
                complete_ns="500000000", finally_read="2", invoke_ns="0", last_read_offset="0",
                polled="0", producer="1", send_type="ok", sent_partition="1", sequence="0",
            ),
        ],
    ),
    Story(
        title="a record in doubt or refused that lies in another partition lies there once",
        why="no answer told its partition, so the one that was chosen is no second place",
        ops=[
            info(*A, partition=0),
            fail(*B),
            final(Rec(*A, 0, partition=1), Rec(*B, 1, partition=1)),
        ],
        finds=[
            row(
                "G1a", partition=1, offset=1, value=(1, 1), process=1, at_s=1.5,
                complete_ns="1500000000", finally_read="1", invoke_ns="1000000000",
                last_read_offset="1", polled="0", producer="1", send_type="fail",
                sent_partition="0", sequence="1",
            )
        ],
    ),
    Story(
        title="a value that no send wrote is a phantom",
        why=_PHANTOM,
        ops=[ok(*A, 0), poll(9, 0, Rec(*A, 0), Rec(7, 7, 1)), final(Rec(*A, 0))],
        finds=[
            row(
                "dirty-read", offset=1, value=(7, 7), process=9, at_s=1, finally_read="0",
                last_read_ns="1000000000", last_read_offset="1", last_reader="9", polled="1",
                producer="7", sequence="7",
            ),
            row(
                "phantom", offset=1, value=(7, 7), process=9, at_s=1, finally_read="0",
                last_read_ns="1000000000", last_read_offset="1", last_reader="9", polled="1",
                producer="7", sequence="7",
            ),
        ],
    ),
    Story(
        title="a record that only the final read found can be a phantom",
        why=_PHANTOM,
        ops=[final(Rec(7, 7, 4))],
        finds=[
            row(
                "phantom", offset=4, value=(7, 7), finally_read="1", last_read_offset="4",
                polled="0", producer="7", sequence="7",
            )
        ],
    ),
    Story(
        title="a record of another run is corrupt and no phantom",
        why="its header names another run: it is known where it comes from, and not from here",
        ops=[poll(9, 0, Rec(7, 7, 1, problem="run"), Rec(7, 8, 2, problem="format"))],
        finds=[
            row(
                "corrupt-record", "run", offset=1, value=(7, 7), process=9, at_s=0, poll="0",
                position="0", read_by="consumer",
            ),
            row(
                "corrupt-record", "format", offset=2, process=9, at_s=0, poll="0", position="1",
                read_by="consumer",
            ),
        ],
    ),
    Story(
        title="a record with a wrong checksum is corrupt and not lost",
        why=_CORRUPT,
        ops=[ok(*A, 0), ok(*B, 1), final(Rec(*A, 0, problem="checksum"), Rec(*B, 1))],
        finds=[
            row(
                "corrupt-record", "checksum", offset=0, value=(1, 0), process=900, at_s=2, poll="0",
                position="0", read_by="final read",
            )
        ],
    ),
    Story(
        title="a failed send that was polled is an aborted read",
        why=_G1A,
        ops=[fail(*A), fail(*B), ok(*C, 1), poll(9, 0, Rec(*A, 0)), final(Rec(*C, 1))],
        finds=[
            row(
                "G1a", offset=0, value=(1, 0), process=1, at_s=0.5, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="3000000000", last_read_offset="0",
                last_reader="9", polled="1", producer="1", send_type="fail", sent_partition="0",
                sequence="0",
            ),
            row(
                "dirty-read", offset=0, value=(1, 0), process=9, at_s=3, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="3000000000", last_read_offset="0",
                last_reader="9", polled="1", producer="1", send_type="fail", sent_partition="0",
                sequence="0",
            ),
        ],
    ),
    Story(
        title="a failed send in the final log is an aborted read",
        why=_G1A,
        ops=[fail(*A), final(Rec(*A, 0))],
        finds=[
            row(
                "G1a", offset=0, value=(1, 0), process=1, at_s=0.5, complete_ns="500000000",
                finally_read="1", invoke_ns="0", last_read_offset="0", polled="0", producer="1",
                send_type="fail", sent_partition="0", sequence="0",
            )
        ],
    ),
    Story(
        title="a failed send that nobody saw is no offence",
        why=_G1A,
        ops=[fail(*A), ok(*B, 0), final(Rec(*B, 0))],
    ),
    Story(
        title="a polled value that is gone at the end is a dirty read",
        why=_DIRTY,
        ops=[ok(*A, 0), info(*B), poll(9, 3, Rec(*A, 0), Rec(*B, 1)), final(Rec(*A, 0))],
        finds=[
            row(
                "dirty-read", offset=1, value=(1, 1), process=9, at_s=2, complete_ns="1500000000",
                finally_read="0", invoke_ns="1000000000", last_read_ns="2000000000",
                last_read_offset="1", last_reader="9", polled="1", producer="1", send_type="info",
                sent_partition="0", sequence="1",
            )
        ],
    ),
    Story(
        title="sends of unknown outcome are no offence, seen or not",
        why=_INFO,
        ops=[
            info(*A),
            info(*B, partition=None),
            info(*C, partition=None),
            poll(9, 0, Rec(*A, 0)),
            final(Rec(*A, 0), Rec(*C, 1)),
        ],
    ),
    Story(
        title="an offset given to another record after a loss is inconsistent in acks",
        why="KIP-279: after a truncation the offset was given to another leader's record",
        ops=[ok(*A, 0), ok(*B, 1), ok(2, 0, 1), final(Rec(*A, 0), Rec(2, 0, 1))],
        finds=[
            row(
                "inconsistent-offsets", "acks", offset=1, value=(2, 0), process=2, at_s=2.5,
                other_producer="1", other_sequence="1", other_value=of(1, 1), producer="2",
                read_value=of(2, 0), sequence="0",
            ),
            row(
                "lost-write", offset=1, value=(1, 1), process=1, at_s=1.5, acked_offset="1",
                complete_ns="1500000000", invoke_ns="1000000000", polled="0", producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="two consumers shown different values at one offset are inconsistent reads",
        why=_SLOT,
        ops=[
            info(*A),
            info(*B),
            poll(8, 0, Rec(*A, 5)),
            poll(9, 0, Rec(*B, 5)),
            final(Rec(*B, 5)),
        ],
        finds=[
            row(
                "dirty-read", offset=5, value=(1, 0), process=8, at_s=2, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="2000000000", last_read_offset="5",
                last_reader="8", polled="1", producer="1", send_type="info", sent_partition="0",
                sequence="0",
            ),
            row(
                "inconsistent-offsets", "reads", offset=5, value=(1, 1), process=1, at_s=4,
                other_producer="1", other_sequence="0", other_value=of(1, 0), producer="1",
                read_value=of(1, 1), sequence="1",
            ),
            row(
                "nonmonotonic-send", "lost", offset=5, value=(1, 1), process=1, at_s=1.5,
                after_offset="5", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="a conflict at the middle of three places is found",
        why=_SLOT,
        ops=[
            info(*A),
            ok(*B, 700),
            poll(8, 0, Rec(*A, 5)),
            poll(8, 1, Rec(*A, 700)),
            poll(8, 2, Rec(*A, 1900)),
            final(Rec(*B, 700)),
        ],
        finds=[
            row(
                "dirty-read", offset=1900, value=(1, 0), process=8, at_s=4, complete_ns="500000000",
                finally_read="0", invoke_ns="0", last_read_ns="4000000000", last_read_offset="1900",
                last_reader="8", polled="3", producer="1", send_type="info", sent_partition="0",
                sequence="0",
            ),
            row(
                "duplicate", "moved", offset=5, value=(1, 0), process=1, at_s=0.5,
                complete_ns="500000000", invoke_ns="0", last_offset="1900",
                last_read_ns="4000000000", last_read_offset="1900", last_reader="8", partitions="1",
                polled="3", producer="1", sequence="0",
            ),
            row(
                "inconsistent-offsets", "reads", offset=700, value=(1, 1), process=1, at_s=1.5,
                other_producer="1", other_sequence="0", other_value=of(1, 0), producer="1",
                read_value=of(1, 1), sequence="1",
            ),
            row(
                "nonmonotonic-send", "lost", offset=700, value=(1, 1), process=1, at_s=1.5,
                after_offset="1900", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="a final read that gives one offset twice is inconsistent",
        why=_SLOT,
        ops=[ok(*A, 63), ok(*B, 63), final(Rec(*A, 63), Rec(*B, 63))],
        finds=[
            row(
                "inconsistent-offsets", "reads", offset=63, value=(1, 1), process=1, at_s=1.5,
                other_producer="1", other_sequence="0", other_value=of(1, 0), producer="1",
                read_value=of(1, 1), sequence="1",
            ),
            row(
                "nonmonotonic-send", "order", offset=63, value=(1, 1), process=1, at_s=1.5,
                after_offset="63", after_sequence="0", after_value=of(1, 0), producer="1",
                sequence="1",
            ),
        ],
    ),
    Story(
        title="offsets of two partitions do not conflict",
        why="an offset counts within its partition",
        ops=[ok(*A, 0), ok(*B, 0, partition=1), final(Rec(*A, 0), Rec(*B, 0, partition=1))],
    ),
)
# fmt: on
