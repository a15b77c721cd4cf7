"""What lies on the disks of three brokers: epochs, holes, changed bits, what cannot be compared."""

from collections.abc import Mapping
from typing import Any

from tests.batches import GZIP, old, v2, value_of
from tests.spark.disks import Disk, Disks, alike
from tests.spark.ops import end
from tests.spark.story import Story, of, row

TEN = [value_of(1, n) for n in range(10)]
OTHER = [value_of(2, n) for n in range(10)]
ONE, TWO, THREE = v2(0, TEN[:4]), v2(4, TEN[4:7]), v2(7, TEN[7:])

_EPOCHS = "KIP-101, KIP-279: epochs grow along a log, and the checkpoint says where each begins"
_NAMES = "KIP-101: leader epoch and offset name one batch"
_GAP = "a follower appends what it fetched without a hole, and once"
_CRC = "the CRC-32C of a v2 batch, the CRC-32 of older formats"


def hurt(content: bytes, at: int) -> bytes:
    """Return the bytes with one bit of one of them changed."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def but(disk: Disk, others: Mapping[int, Disk]) -> Disks:
    """Return the same replica on every broker, except on some."""
    return {**alike(disk), **{(broker, 0): other for broker, other in others.items()}}


def segment(broker: int, first: int = 0) -> str:
    return f"cluster/broker-{broker}/data/orders-0/{first:020}.log"


def ten(high: int = 10) -> list[dict[str, Any]]:
    """Return the end of a partition whose high watermark is ten."""
    return [end(high=high)]


def old_hole(magic: int) -> Disks:
    begin = old(0, TEN[:4], magic=magic)
    hole = Disk(content=begin + old(7, TEN[7:], magic=magic), epochs=None)
    return but(Disk(content=begin + old(4, TEN[4:], magic=magic), epochs=None), {2: hole})


def one_bit(magic: int) -> Disks:
    content = v2(0, TEN) if magic == 2 else old(0, TEN, magic=magic)
    return but(
        Disk(content=content, epochs=None),
        {2: Disk(content=hurt(content, len(content) - 1), epochs=None)},
    )


# fmt: off
EPOCHS = (
    Story(
        title="epochs grow, and one may begin at the end of the log",
        why=_EPOCHS,
        disks=alike(
            Disk(
                content=v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2),
                epochs=[(1, 0), (2, 5), (4, 10)],
            )
        ),
        ends=ten(),
    ),
    Story(
        title="an epoch that decreases along a log is found, and fits no checkpoint",
        why=_EPOCHS,
        disks=alike(
            Disk(
                content=v2(0, TEN[:5], epoch=2) + v2(5, TEN[5:], epoch=1),
                epochs=[(1, 0), (2, 5)],
            )
        ),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "checkpoint", offset=0, broker="1", checkpoint_since="5",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="4",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=0, broker="2", checkpoint_since="5",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="4",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=0, broker="3", checkpoint_since="5",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="4",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="1", checkpoint_since="0",
                checkpoint_until="5", epoch="1", last_offset="9",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="2", checkpoint_since="0",
                checkpoint_until="5", epoch="1", last_offset="9",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="3", checkpoint_since="0",
                checkpoint_until="5", epoch="1", last_offset="9",
            ),
            row(
                "epoch-disorder", "decreases", offset=5, broker="1", epoch="1", epoch_before="2",
                last_offset="9",
            ),
            row(
                "epoch-disorder", "decreases", offset=5, broker="2", epoch="1", epoch_before="2",
                last_offset="9",
            ),
            row(
                "epoch-disorder", "decreases", offset=5, broker="3", epoch="1", epoch_before="2",
                last_offset="9",
            ),
        ],
    ),
    Story(
        title="an epoch that begins elsewhere than its checkpoint says is found",
        why=_EPOCHS,
        disks=alike(
            Disk(
                content=v2(0, TEN[:5], epoch=1) + v2(5, TEN[5:], epoch=2),
                epochs=[(1, 0), (2, 7)],
            )
        ),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="1", checkpoint_since="7",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="9",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="2", checkpoint_since="7",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="9",
            ),
            row(
                "epoch-disorder", "checkpoint", offset=5, broker="3", checkpoint_since="7",
                checkpoint_until=of(8388607, 1099511627775), epoch="2", last_offset="9",
            ),
        ],
    ),
    Story(
        title="an epoch that its checkpoint does not know is found",
        why=_EPOCHS,
        disks=alike(Disk(content=v2(0, TEN, epoch=1), epochs=[(0, 0)])),
        ends=ten(),
        finds=[
            row("epoch-disorder", "checkpoint", offset=0, broker="1", epoch="1", last_offset="9"),
            row("epoch-disorder", "checkpoint", offset=0, broker="2", epoch="1", last_offset="9"),
            row("epoch-disorder", "checkpoint", offset=0, broker="3", epoch="1", last_offset="9"),
        ],
    ),
    Story(
        title="without a checkpoint there is nothing to hold epochs to",
        why="the checkpoint is of 0.11 and later (KIP-101)",
        disks=alike(Disk(content=v2(0, TEN, epoch=1), epochs=None)),
        ends=ten(),
    ),
    Story(
        title="one epoch and offset name one batch",
        why=_NAMES,
        disks=but(Disk(content=v2(0, TEN)), {2: Disk(content=v2(0, OTHER))}),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "ambiguous", offset=0, value=(1, 0), broker="1", epoch="0",
                holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more", last_offset="9",
                other_broker="2", other_epoch="0",
                other_holds="2:0 2:1 2:2 2:3 2:4 2:5 2:6 2:7 and 2 more",
            ),
            row(
                "replica-divergence", "in-sync", offset=0, value=(1, 0), process=1, broker="1",
                epoch="0", holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more", last_offset="9",
                other_broker="2", other_epoch="0",
                other_holds="2:0 2:1 2:2 2:3 2:4 2:5 2:6 2:7 and 2 more", other_value=of(2, 0),
            ),
        ],
    ),
    Story(
        title="one batch has one epoch",
        why=_NAMES,
        disks=but(
            Disk(content=v2(0, TEN)), {2: Disk(content=v2(0, TEN, epoch=3), epochs=[(3, 0)])}
        ),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "renamed", offset=0, value=(1, 0), broker="1", epoch="0",
                holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more", last_offset="9",
                other_broker="2", other_epoch="3",
                other_holds="1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7 and 2 more",
            )
        ],
    ),
)

FLAWS = (
    Story(
        title="batches that follow each other in two segments have no gap",
        why=_GAP,
        disks=alike(Disk(content=ONE + TWO, more=[(7, THREE)])),
        ends=ten(),
    ),
    Story(
        title="offsets that another replica holds are a gap",
        why=_GAP,
        disks=but(Disk(content=ONE + TWO + THREE), {2: Disk(content=ONE + THREE)}),
        ends=ten(),
        finds=[
            row(
                "replica-divergence", "in-sync", offset=4, value=(1, 4), process=1, broker="1",
                epoch="0", holds="1:4 1:5 1:6", last_offset="6", other_broker="2",
                other_holds="nothing",
            ),
            row(
                "replica-gap", "gap", offset=7, broker="2", expected="4", held_by="1,3",
                last_offset="9", missing="3", missing_from="4", position="249", segment=segment(2),
            ),
        ],
    ),
    Story(
        title="a gap between two segments is one",
        why=_GAP,
        disks=but(
            Disk(content=ONE + TWO, more=[(7, THREE)]),
            {3: Disk(content=ONE, more=[(7, THREE)])},
        ),
        ends=ten(),
        finds=[
            row(
                "replica-divergence", "in-sync", offset=4, value=(1, 4), process=1, broker="1",
                epoch="0", holds="1:4 1:5 1:6", last_offset="6", other_broker="3",
                other_holds="nothing",
            ),
            row(
                "replica-gap", "gap", offset=7, broker="3", expected="4", held_by="1,2",
                last_offset="9", missing="3", missing_from="4", position="0", segment=segment(3, 7),
            ),
        ],
    ),
    Story(
        title="offsets that nobody holds are no gap",
        why="compaction removes batches whole",
        disks=alike(Disk(content=ONE + THREE)),
        ends=ten(),
    ),
    Story(
        # Broker 2's log ends before the gap of broker 3; what begins behind a gap is not in it.
        title="only who holds a part of the gap is named",
        why=_GAP,
        disks=but(
            Disk(content=ONE + TWO + THREE), {2: Disk(content=ONE), 3: Disk(content=ONE + THREE)}
        ),
        isr=(1, 3),
        ends=ten(),
        finds=[
            row(
                "replica-divergence", "in-sync", offset=4, value=(1, 4), process=1, broker="1",
                epoch="0", holds="1:4 1:5 1:6", last_offset="6", other_broker="3",
                other_holds="nothing",
            ),
            row(
                "replica-gap", "gap", offset=7, broker="3", expected="4", held_by="1",
                last_offset="9", missing="3", missing_from="4", position="249", segment=segment(3),
            ),
        ],
    ),
    Story(
        title="offsets that lie twice overlap",
        why=_GAP,
        disks=but(Disk(content=ONE + TWO + THREE), {2: Disk(content=ONE + TWO + v2(5, TEN[5:]))}),
        ends=ten(),
        finds=[
            row(
                "epoch-disorder", "ambiguous", offset=7, value=(1, 7), broker="1", epoch="0",
                holds="1:7 1:8 1:9", last_offset="9", other_broker="2", other_epoch="0",
                other_holds="1:7 1:8 1:9",
            ),
            row(
                "replica-divergence", "in-sync", offset=5, broker="1", holds="nothing",
                last_offset="6", other_broker="2", other_epoch="0", other_holds="1:5 1:6",
                other_value=of(1, 5),
            ),
            row(
                "replica-divergence", "in-sync", offset=7, value=(1, 7), process=1, broker="1",
                epoch="0", holds="1:7 1:8 1:9", last_offset="9", other_broker="2", other_epoch="0",
                other_holds="1:7 1:8 1:9", other_value=of(1, 7),
            ),
            row(
                "replica-gap", "overlap", offset=5, broker="2", expected="7", last_offset="9",
                position="451", segment=segment(2),
            ),
        ],
    ),
    Story(
        title="a batch that lies behind a later one goes backwards",
        why=_GAP,
        disks=but(Disk(content=ONE + TWO + THREE), {2: Disk(content=ONE + THREE + TWO)}),
        ends=ten(),
        finds=[
            row(
                "replica-gap", "backwards", offset=4, broker="2", expected="10", last_offset="6",
                position="451", segment=segment(2),
            ),
            row(
                "replica-gap", "gap", offset=7, broker="2", expected="4", held_by="1,3",
                last_offset="9", missing="3", missing_from="4", position="249", segment=segment(2),
            ),
        ],
    ),
    *(
        Story(
            title=f"old messages have gaps too (magic {magic})",
            why=_GAP,
            disks=old_hole(magic),
            ends=ten(),
            finds=[
                *(
                    row(
                        "replica-divergence", "in-sync", offset=n, last_offset=str(n), value=(1, n),
                        process=1, broker="1", holds=f"1:{n}", other_broker="2",
                        other_holds="nothing",
                    )
                    for n in (4, 5, 6)
                ),
                row(
                    "replica-gap", "gap", offset=7, broker="2", expected="4", held_by="1,3",
                    last_offset="7", missing="3", missing_from="4", position=position,
                    segment=segment(2),
                ),
            ],
        )
        for magic, position in ((0, "264"), (1, "296"))
    ),
    Story(
        title="the start of a log is no gap",
        why="retention deletes old segments on each broker by itself (KIP-107)",
        disks=but(
            Disk(content=ONE + TWO + THREE), {3: Disk(content=THREE, first=7, epochs=[(0, 7)])}
        ),
        ends=ten(),
    ),
    Story(
        title="whole batches are not corrupt",
        why=_CRC,
        disks=alike(Disk(content=ONE + v2(4, TEN[4:], codec=GZIP))),
        ends=ten(),
    ),
    *(
        Story(
            title=f"a changed bit on a disk is found (magic {magic})",
            why=_CRC,
            disks=one_bit(magic),
            ends=ten(),
            finds=[
                row(
                    "corrupt-record", "disk", offset=offset, last_offset="9", broker="2",
                    problem="checksum", segment=segment(2), position=position, size=size,
                )
            ],
        )
        for magic, offset, position, size in (
            # Before v2 a message has a checksum of its own, then the whole batch has one.
            (0, 9, "594", "66"),
            (1, 9, "666", "74"),
            (2, 0, "0", "531"),
        )
    ),
    Story(
        title="a changed bit outside the ISR is told apart",
        why="a follower that comes back fetches anew what it lacks, not what it holds",
        disks=but(Disk(content=ONE + TWO + THREE), {3: Disk(content=ONE + hurt(TWO, 90))}),
        isr=(1, 2),
        ends=ten(),
        finds=[
            row(
                "corrupt-record", "disk-out-of-sync", offset=4, broker="3", last_offset="6",
                position="249", problem="checksum", segment=segment(3), size="202",
            )
        ],
    ),
    Story(
        title="a changed bit above the high watermark is nobody's",
        why="nothing above the high watermark was promised to anybody",
        disks=but(Disk(content=ONE + TWO + THREE), {2: Disk(content=ONE + TWO + hurt(THREE, 90))}),
        ends=ten(7),
    ),
    Story(
        title="garbage in place of a batch is corrupt",
        why=_CRC,
        disks=but(
            Disk(content=ONE + TWO + THREE),
            {2: Disk(content=ONE + b"\xff" * len(TWO) + THREE)},
        ),
        ends=ten(),
        finds=[
            row(
                "corrupt-record", "disk", offset=4, broker="2", position="249", problem="magic",
                segment=segment(2), size="404",
            ),
            row(
                "replica-divergence", "in-sync", offset=4, value=(1, 4), process=1, broker="1",
                epoch="0", holds="1:4 1:5 1:6", last_offset="6", other_broker="2",
                other_holds="nothing",
            ),
            row(
                "replica-divergence", "in-sync", offset=7, value=(1, 7), process=1, broker="1",
                epoch="0", holds="1:7 1:8 1:9", last_offset="9", other_broker="2",
                other_holds="nothing",
            ),
        ],
    ),
    Story(
        title="half a batch at the end of a log that lags is not corrupt",
        why="recovery truncates what a crash left half written",
        disks=but(Disk(content=ONE + TWO + THREE), {3: Disk(content=ONE + TWO[:-5])}),
        isr=(1, 2),
        ends=ten(),
    ),
    Story(
        title="half a batch at the end of a log in the ISR is corrupt",
        why="who is in the ISR holds all below the high watermark",
        disks=but(Disk(content=ONE + TWO + THREE), {3: Disk(content=ONE + TWO[:-5])}),
        ends=ten(),
        finds=[
            row(
                "corrupt-record", "disk", offset=4, broker="3", position="249", problem="truncated",
                segment=segment(3), size="197",
            ),
            row(
                "replica-divergence", "in-sync", offset=4, value=(1, 4), process=1, broker="1",
                epoch="0", holds="1:4 1:5 1:6", last_offset="6", other_broker="3",
                other_holds="nothing",
            ),
            row(
                "replica-divergence", "in-sync", offset=7, value=(1, 7), process=1, broker="1",
                epoch="0", holds="1:7 1:8 1:9", last_offset="9", other_broker="3",
                other_holds="nothing",
            ),
        ],
    ),
)

REASONS = (
    Story(
        title="half a batch behind the high watermark leaves an in-sync replica unknown",
        why="what cannot be read to its end cannot be compared",
        disks=but(
            Disk(content=v2(0, TEN)), {2: Disk(content=v2(0, TEN) + v2(10, TEN)[:-9])}
        ),
        ends=ten(),
        reasons=["The log of orders-0 on broker 2 cannot be read to its end"],
    ),
    Story(
        title="a replica that was not copied is a reason",
        why="silence is never VALID",
        disks={at: disk for at, disk in alike(Disk(content=v2(0, TEN))).items() if at != (2, 0)},
        ends=ten(),
        reasons=["Not all replicas could be compared: orders-0 has 2 of its 3 replicas on disk."],
    ),
    Story(
        title="logs that all end below what was read are a reason",
        why="the high watermark that the final read was told is no higher than a log",
        disks=alike(Disk(content=v2(0, TEN[:5]))),
        ends=ten(),
        reasons=["The log of orders-0 that was copied from broker 1 ends at 5, below the high"],
    ),
)

STORIES = (*EPOCHS, *FLAWS, *REASONS)
# fmt: on
