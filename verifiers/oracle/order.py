"""Chapters on duplicates, and on the order of sends and polls."""

from verifiers.oracle import reasons
from verifiers.oracle.circumstances import (
    EARLY_IDEMPOTENCE,
    MAY_LOSE,
    MAY_REORDER,
    MAY_REPEAT,
    UNCLEAN,
)
from verifiers.oracle.row import Reason, Row, chapter, forbidden, permitted

_RETRYING = "retrying without idempotence"
_KNOWN_OF_0_11 = Reason(
    "The contract forbids it, though brokers of 0.11 remember the last batch of an idempotent "
    "producer only, and Java's allowed itself one request in flight.",
    "KAFKA-5494, five since 1.0",
)
_LATER_PASS = Reason(
    "Without idempotence and with more than one request in flight, a retry lets later requests "
    "pass.",
    "Kafka documentation, max.in.flight.requests.per.connection",
)
_REBALANCED = Reason(
    "Under `subscribe` the group may move a partition between two polls, back to its committed "
    "offset or past what another member read.",
    "jepsen.tests.kafka",
)
_RESTARTED = Reason(
    "After an unclean election the log may end below a consumer's position, which then starts over "
    "where auto.offset.reset says.",
    "KIP-320",
)
_IN_ORDER = Reason(
    "A consumer is given a partition in the order of its offsets, none left out.",
    "Kafka documentation, guarantees",
)
_IN_ONE_POLL = Reason(
    "A consumer is given a partition in the order of its offsets, none left out, and within one "
    "poll nothing excuses it.",
    "Kafka documentation, guarantees; jepsen.tests.kafka",
)
_LOST_IN_ONE_POLL = Reason(
    "One of the two records was lost with a log that was cut off: a consumer goes back to where "
    "that was cut, and the log of today may have records where it had markers of transactions.",
    "as lost-write",
)

_MOVED: tuple[Row, ...] = (
    permitted(_REBALANCED, "subscribe", by="subscribing in a group"),
    permitted(_RESTARTED, given=UNCLEAN, by="unclean election"),
    reasons.copies_destroyed(),
    reasons.shown_by_one(),
    forbidden(_IN_ORDER),
)

_IN_A_POLL: tuple[Row, ...] = (
    permitted(_LOST_IN_ONE_POLL, "lost", given=MAY_LOSE, by="the loss itself"),
    reasons.shown_by_one("lost"),
    forbidden(_LOST_IN_ONE_POLL, "lost"),
    forbidden(_IN_ONE_POLL),
)

_REVERSED: tuple[Row, ...] = (
    permitted(
        f"{reasons.WRITTEN_AGAIN.sentence.removesuffix('.')}, and its last copy counts "
        "as its place.",
        "duplicate",
        source="KIP-98",
        given=MAY_REPEAT,
        by=_RETRYING,
    ),
    permitted(
        "One of the two records was lost, as the contract permits, and the offset it "
        "was acknowledged at belongs to a log that was cut off.",
        "lost",
        source="as lost-write",
        given=MAY_LOSE,
        by="the loss itself",
    ),
    permitted(_LATER_PASS, given=MAY_REORDER, by=_RETRYING),
    forbidden(
        "One of the two records was lost, though the contract forbids that, and the offset it was "
        "acknowledged at belongs to a log that was cut off.",
        "lost",
        source="as lost-write",
    ),
    forbidden(_KNOWN_OF_0_11, given=EARLY_IDEMPOTENCE),
    forbidden(
        "A producer that is idempotent, never retries or has one request in flight "
        "writes in the order it sends.",
        source="KIP-98, KAFKA-5494",
    ),
)

ORDER = (
    chapter(
        "duplicate",
        "One record lies at more than one offset.",
        permitted(reasons.WRITTEN_AGAIN, given=MAY_REPEAT, by=_RETRYING),
        reasons.unclean_election("moved"),
        reasons.copies_destroyed("moved"),
        reasons.shown_by_one("moved"),
        forbidden(_KNOWN_OF_0_11, given=EARLY_IDEMPOTENCE),
        forbidden(
            "A producer that is idempotent, or never retries, writes a record once.",
            source="KIP-98",
        ),
        kinds=("log", "moved"),
    ),
    chapter(
        "nonmonotonic-send",
        "Two sends of one producer lie in a partition in the other order.",
        *_REVERSED,
        kinds=("order", "duplicate", "lost"),
    ),
    chapter(
        "int-nonmonotonic-send",
        "Two sends of one transaction lie in a partition in the other order.",
        *_REVERSED,
        kinds=("order", "duplicate", "lost"),
    ),
    chapter(
        "int-send-skip",
        "In an op history, two sends of one op to a key have another op's between them.",
        permitted(
            "Transactions do not isolate what they write from each other.",
            source="KIP-98; jepsen.tests.kafka",
            by="transactions",
        ),
    ),
    chapter(
        "nonmonotonic-poll",
        "A poll began at or below the place that its process had read up to.",
        *_MOVED,
        kinds=("assign", "subscribe"),
    ),
    chapter(
        "poll-skip",
        "A poll began beyond a record that its process was never given.",
        *_MOVED,
        kinds=("assign", "subscribe"),
    ),
    chapter(
        "int-nonmonotonic-poll",
        "Neighbouring records of one poll go back.",
        *_IN_A_POLL,
        kinds=("lost",),
    ),
    chapter(
        "int-poll-skip",
        "Neighbouring records of one poll leave one out.",
        *_IN_A_POLL,
        kinds=("lost",),
    ),
)
