"""Replicas that differ, and those that may."""

from typing import Any

from tests.batches import GZIP, marker, old, transactional, v2
from tests.spark.disks import Disk, Disks, alike, whole
from tests.spark.ops import Rec, final, ok, txn
from tests.spark.stories.disks import OTHER, TEN, but, ten
from tests.spark.stories.values import cause_of_loss
from tests.spark.story import Row, Story, of, row

SIX, FOUR = v2(0, TEN[:6]), v2(6, TEN[6:])

_EQUAL = "replicas in the ISR hold the same records below the high watermark (replication design)"


def old_disks(magic: int) -> Disks:
    other = old(0, [*TEN[:7], *OTHER[:3]], magic=magic)
    return but(
        Disk(content=old(0, TEN, magic=magic), epochs=None), {3: Disk(content=other, epochs=None)}
    )


def other_epoch(codec: int) -> Disks:
    ours = v2(0, TEN[:5]) + v2(5, TEN[5:], epoch=1, codec=codec)
    theirs = v2(0, TEN[:5]) + v2(5, OTHER[:5], epoch=0, codec=codec)
    return but(Disk(content=ours, epochs=[(0, 0), (1, 5)]), {2: Disk(content=theirs)})


def parted(kind: str) -> Row:
    """Return what is found on the disks of `other_epoch`."""
    return row(
        "replica-divergence", kind, offset=5, last_offset="9", value=(1, 5), process=1, broker="1",
        epoch="1", holds="1:5 1:6 1:7 1:8 1:9", other_broker="2", other_epoch="0",
        other_holds="2:0 2:1 2:2 2:3 2:4", other_value=of(2, 0),
    )  # fmt: skip


def led_on_in_its_epoch() -> Disks:
    """Return a leader that wrote other records under its old epoch before it got the next one."""
    ours = v2(0, TEN[:5]) + v2(5, TEN[5:], epoch=1)
    theirs = v2(0, OTHER[:5]) + v2(5, OTHER[5:], epoch=0)
    return but(Disk(content=ours, epochs=[(0, 0), (1, 5)]), {2: Disk(content=theirs)})


def ended_otherwise(kind: str, *causes: dict[str, Any]) -> Story:
    """Return the story of a committed record that every disk holds, before a marker that aborts."""
    told: dict[str, Any] = {"lost_by": "damage"} if kind != "aborted" else {}
    known = [f"{name} {cause[name]}" for cause in causes for name in sorted(cause)]
    after = ", ".join(known) or "nothing"
    aborted = transactional(0, TEN[:1], producer=7) + marker(1, producer=7, commit=False)
    return Story(
        title=f"a committed record that a marker aborts is {kind}, after {after}",
        why="KIP-98: what was acknowledged as committed has a marker that commits it",
        ops=[ok(1, 0, 0, txn=0), txn("ok", 1, 0), final()],
        disks=alike(Disk(content=aborted)),
        ends=ten(2),
        timeline={"loss_causes": [cause_of_loss(**cause) for cause in causes]},
        finds=[
            row(
                "lost-write", kind, offset=0, value=(1, 0), process=1, at_s=0.5,
                acked_offset="0", complete_ns="500000000", invoke_ns="0", polled="0",
                producer="1", sequence="0", held_by="1,2,3", lacking="", cut_epoch="0",
                marker="abort", marker_at="1", **told,
            )
        ],
    )  # fmt: skip


def lost_at(kind: str, offset: int, at_s: float, **told: str) -> Row:
    """Return the loss of what producer 2 first sent, which was acknowledged at this offset."""
    facts: dict[str, Any] = {
        "invoke_ns": f"{(at_s - 0.5) * 1e9:.0f}", "complete_ns": f"{at_s * 1e9:.0f}",
        "acked_offset": str(offset), "polled": "0", "producer": "2", "sequence": "0", **told,
    }  # fmt: skip
    return row("lost-write", kind, offset=offset, value=(2, 0), process=2, at_s=at_s, **facts)


def two_acked_at(offset: int, at_s: float) -> Row:
    """Return that producer 2's first record and one of producer 1 have the same offset."""
    return row(
        "inconsistent-offsets", "acks", offset=offset, value=(2, 0), process=2, at_s=at_s,
        producer="2", sequence="0", read_value=of(1, offset), other_producer="1",
        other_sequence=str(offset), other_value=of(1, offset),
    )  # fmt: skip


def lost_to_another(kind: str, what: str, *causes: dict[str, Any], offset: int = 5) -> Story:
    """Return the story of a lost record; up to offset 9 another one lies in its place."""
    is_replaced = offset < 10
    told = {"held_by": "", "lacking": "1,2,3", "cut_epoch": "0"}
    if is_replaced:
        told["replaced_on"] = "1,2,3"
    if kind != "unexplained":
        told["lost_by"] = "damage"
    return Story(
        title=f"a loss at {offset} after {what} is {kind}",
        why="KIP-279: who is let into an ISR with other records loses its leader's when it leads",
        ops=[
            *(ok(1, n, n) for n in range(10)),
            ok(2, 0, offset),
            final(*(Rec(1, n, n) for n in range(10))),
        ],
        disks=alike(Disk(content=v2(0, TEN))),
        ends=ten(max(10, offset + 1)),
        timeline={"loss_causes": [cause_of_loss(**cause) for cause in causes]},
        finds=[
            lost_at(kind, offset, 10.5, **told),
            *([two_acked_at(offset, 10.5)] if is_replaced else []),
        ],
    )


def lost_behind_another(kind: str, *causes: dict[str, Any]) -> Story:
    """Return the story of a lost record that every disk holds, behind another at its offset."""
    told = {"held_by": "1,2,3", "lacking": "", "replaced_on": "1,2,3"}
    if causes:
        told["lost_by"] = "damage"
    content = old(0, TEN[:5]) + old(4, OTHER[:3], codec=GZIP)
    return Story(
        title=f"a record behind another one at its offset is {kind}",
        why="KIP-101: before 0.11 a follower copies a set that begins below the end of its log",
        ops=[
            *(ok(1, n, n) for n in range(5)),
            *(ok(2, n, 4 + n) for n in range(3)),
            final(*(Rec(1, n, n) for n in range(5)), Rec(2, 1, 5), Rec(2, 2, 6)),
        ],
        disks=alike(Disk(content=content, epochs=None)),
        ends=ten(7),
        timeline={"loss_causes": [cause_of_loss(**cause) for cause in causes]},
        finds=[lost_at(kind, 4, 5.5, **told), two_acked_at(4, 5.5)],
    )


# fmt: off
STORIES = (
    Story(
        title="equal replicas have nothing to tell",
        why=_EQUAL,
        disks=alike(Disk(content=v2(0, TEN[:4]) + v2(4, TEN[4:]))),
        ends=ten(),
    ),
    Story(
        title="a record that every disk holds is not lost but unread",
        why="replicas that all have it have not lost it: the final read is wrong",
        ops=[*(ok(90, n, n) for n in range(4)), final(*(Rec(90, n, n) for n in range(3)))],
        disks=alike(whole(4)),
        ends=ten(4),
        finds=[
            row(
                "lost-write", "unread", offset=3, value=(90, 3), process=90, at_s=3.5,
                acked_offset="3", complete_ns="3500000000", invoke_ns="3000000000", polled="0",
                producer="90", sequence="3", held_by="1,2,3", lacking="",
                cut_epoch="0",
            )
        ],
    ),
    ended_otherwise("aborted"),
    ended_otherwise("aborted", {"cut_to": 1}),
    ended_otherwise("aborted", {"cut_to": 2, "cut_end": 9, "takes_a_copy": True}),
    ended_otherwise("aborted", {"cut_to": 0, "cut_end": 1, "takes_a_copy": True}),
    ended_otherwise("partly-destroyed", {"cut_to": 1, "cut_end": 2, "takes_a_copy": True}),
    ended_otherwise("partly-destroyed", {"is_of_coordinator": True, "takes_a_copy": True}),
    ended_otherwise("destroyed", {"is_of_coordinator": True, "destroys": True}),
    lost_to_another(
        "divergent", "a leader whose log went on above it", {"cut_to": 8, "is_lead": True}
    ),
    lost_to_another(
        "unexplained", "a leader whose log went on above it, with nothing in its place",
        {"cut_to": 18, "is_lead": True}, offset=12,
    ),
    lost_to_another("unexplained", "a cut above it", {"cut_to": 8}),
    lost_to_another(
        "explained", "a cut below it, and a leader whose log went on above it",
        {"cut_to": 8, "is_lead": True, "words": "a leader"}, {"cut_to": 5, "at_ns": 9},
    ),
    lost_to_another(
        "last-known", "a last known leader whose log went on above it",
        {"cut_to": 8, "is_lead": True, "is_last_known": True},
    ),
    lost_behind_another("explained", {"cut_to": 4}),
    lost_behind_another("unexplained"),
    Story(title="empty logs are equal", why=_EQUAL, disks=alike(whole(0)), ends=ten(0)),
    *(
        Story(
            title=f"other records in an in-sync replica are a divergence ({name})",
            why=_EQUAL,
            disks=other_epoch(codec),
            ends=ten(),
            finds=[parted("in-sync")],
        )
        for name, codec in (("plain", 0), ("gzip", GZIP))
    ),
    Story(
        title="other records under another epoch are a divergence, whatever a fault destroyed",
        why="KIP-279: a follower that asks where its epoch ends cuts its log there",
        disks=other_epoch(0),
        timeline={"loss_causes": [cause_of_loss(cut_to=0, cut_end=12, takes_a_copy=True)]},
        ends=ten(),
        finds=[parted("in-sync")],
    ),
    *(
        Story(
            title=f"other records below {to}, to which a follower was reset, are {kind}",
            why="KIP-320: a follower that asks beyond its leader's end asks for no epoch",
            disks=other_epoch(0),
            timeline={
                "loss_causes": [
                    cause_of_loss(cut_to=0, cut_end=12, takes_a_copy=True),
                    cause_of_loss(cut_to=to, is_reset=True),
                ]
            },
            ends=ten(),
            finds=[parted(kind)],
        )
        for to, kind in ((5, "in-sync"), (6, "partly-destroyed"))
    ),
    *(
        Story(
            title=f"other records under one epoch where a fault cut a log {place} are {kind}",
            why="what a leader lost with its power is no business of a follower's epochs",
            disks=led_on_in_its_epoch(),
            timeline={"loss_causes": [cause_of_loss(**cut, takes_a_copy=True)]},
            ends=ten(),
            finds=[
                row(
                    "epoch-disorder", "ambiguous", offset=0, value=(1, 0), broker="1", epoch="0",
                    holds="1:0 1:1 1:2 1:3 1:4", last_offset="4", other_broker="2",
                    other_epoch="0", other_holds="2:0 2:1 2:2 2:3 2:4",
                ),
                row(
                    "replica-divergence", first, offset=0, last_offset="4", value=(1, 0),
                    process=1, broker="1", epoch="0", holds="1:0 1:1 1:2 1:3 1:4",
                    other_broker="2", other_epoch="0", other_holds="2:0 2:1 2:2 2:3 2:4",
                    other_value=of(2, 0),
                ),
                row(
                    "replica-divergence", kind, offset=5, last_offset="9", value=(1, 5),
                    process=1, broker="1", epoch="1", holds="1:5 1:6 1:7 1:8 1:9",
                    other_broker="2", other_epoch="0", other_holds="2:5 2:6 2:7 2:8 2:9",
                    other_value=of(2, 5),
                ),
            ],
        )
        for place, first, kind, cut in (
            ("everywhere", "partly-destroyed", "partly-destroyed", {"cut_to": 0, "cut_end": 12}),
            ("there", "in-sync", "partly-destroyed", {"cut_to": 9, "cut_end": 12}),
            ("below", "partly-destroyed", "in-sync", {"cut_to": 0, "cut_end": 5}),
            ("above", "in-sync", "in-sync", {"cut_to": 10, "cut_end": 12}),
            ("elsewhere", "in-sync", "in-sync", {"cut_to": 0, "cut_end": 12, "partition": 1}),
        )
    ),
    *(
        Story(
            title=f"old formats diverge message by message (magic {magic})",
            why=_EQUAL,
            disks=old_disks(magic),
            ends=ten(),
            finds=[
                row(
                    "replica-divergence", "in-sync", offset=7 + n, last_offset=str(7 + n),
                    value=(1, 7 + n), process=1, broker="1", holds=f"1:{7 + n}", other_broker="3",
                    other_holds=f"2:{n}", other_value=of(2, n),
                )
                for n in range(3)
            ],
        )
        for magic in (0, 1)
    ),
    Story(
        title="batches cut at other places are told as they overlap",
        why=_EQUAL,
        disks=but(Disk(content=SIX + FOUR), {2: Disk(content=v2(0, TEN[:3]) + v2(3, OTHER[:7]))}),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "ambiguous", offset=0, value=(1, 0), broker="1", epoch="0",
                holds="1:0 1:1 1:2", last_offset="2", other_broker="2", other_epoch="0",
                other_holds="1:0 1:1 1:2",
            ),
            row(
                "epoch-disorder", "ambiguous", offset=3, value=(1, 3), broker="1", epoch="0",
                holds="1:3 1:4 1:5", last_offset="5", other_broker="2", other_epoch="0",
                other_holds="2:0 2:1 2:2",
            ),
            row(
                "epoch-disorder", "ambiguous", offset=6, value=(1, 6), broker="1", epoch="0",
                holds="1:6 1:7 1:8 1:9", last_offset="9", other_broker="2", other_epoch="0",
                other_holds="2:3 2:4 2:5 2:6",
            ),
            row(
                "replica-divergence", "in-sync", offset=0, value=(1, 0), process=1, broker="1",
                epoch="0", holds="1:0 1:1 1:2", last_offset="2", other_broker="2", other_epoch="0",
                other_holds="1:0 1:1 1:2", other_value=of(1, 0),
            ),
            row(
                "replica-divergence", "in-sync", offset=3, value=(1, 3), process=1, broker="1",
                epoch="0", holds="1:3 1:4 1:5", last_offset="5", other_broker="2", other_epoch="0",
                other_holds="2:0 2:1 2:2", other_value=of(2, 0),
            ),
            row(
                "replica-divergence", "in-sync", offset=6, value=(1, 6), process=1, broker="1",
                epoch="0", holds="1:6 1:7 1:8 1:9", last_offset="9", other_broker="2",
                other_epoch="0", other_holds="2:3 2:4 2:5 2:6", other_value=of(2, 3),
            ),
        ],
    ),
    Story(
        title="an in-sync replica that lacks the end diverges",
        why=_EQUAL,
        disks=but(Disk(content=SIX + FOUR), {3: Disk(content=SIX)}),
        ends=ten(),
        finds=[
            row(
                "replica-divergence", "in-sync", offset=6, value=(1, 6), process=1, broker="1",
                epoch="0", holds="1:6 1:7 1:8 1:9", last_offset="9", other_broker="3",
                other_holds="nothing",
            )
        ],
    ),
    Story(
        title="a replica outside the ISR may lag",
        why="who lags is removed from the ISR (replica.lag.time.max.ms)",
        disks=but(Disk(content=SIX + FOUR), {3: Disk(content=(SIX + FOUR)[:-5])}),
        isr=(1, 2),
        ends=ten(),
    ),
    Story(
        title="a replica outside the ISR that holds others is named",
        why="it will be truncated when it comes back (KIP-101), and the kind says so",
        disks=but(Disk(content=v2(0, TEN)), {3: Disk(content=v2(0, OTHER))}),
        isr=(1, 2),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "ambiguous", offset=0, value=(1, 0), broker="1", epoch="0",
                holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more", last_offset="9",
                other_broker="3", other_epoch="0",
                other_holds="2:0 2:1 2:2 2:3 2:4 2:5 2:6 2:7 and 2 more",
            ),
            row(
                "replica-divergence", "out-of-sync", offset=0, value=(1, 0), process=1, broker="1",
                epoch="0", holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more", last_offset="9",
                other_broker="3", other_epoch="0",
                other_holds="2:0 2:1 2:2 2:3 2:4 2:5 2:6 2:7 and 2 more", other_value=of(2, 0),
            ),
        ],
    ),
    Story(
        title="what lies above the high watermark is not compared",
        why="KIP-101: above the high watermark replicas may differ until a leader decides",
        disks=but(Disk(content=SIX + FOUR), {2: Disk(content=SIX + v2(6, OTHER[:4]))}),
        ends=ten(6),
    ),
    Story(
        title="a log that begins later is compared from there",
        why="retention deletes old segments on each broker by itself (KIP-107)",
        disks=but(Disk(content=SIX + FOUR), {3: Disk(content=FOUR, epochs=[(0, 6)], first=6)}),
        ends=ten(),
    ),
)
# fmt: on
