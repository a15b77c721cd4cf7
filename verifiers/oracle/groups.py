"""Chapters on what consumer groups process and commit."""

from verifiers.frames.consumption import AT_MOST_ONCE, EXACTLY_ONCE, MAY_SKIP
from verifiers.oracle import reasons
from verifiers.oracle.circumstances import MAY_LOSE
from verifiers.oracle.row import Reason, chapter, forbidden, permitted, undecided
from verifiers.run_folder.group import WHY_BEHIND

_SEMANTICS = "Kafka documentation, message delivery semantics"
_COMMIT_STAYS = Reason(
    "A commit is acknowledged when the whole ISR of the offsets topic has it, so the next "
    "coordinator knows of it too.",
    "Kafka documentation, offsets.commit.required.acks",
)
_READ_WHAT_WAS_CUT = Reason(
    "The group had read this far in a log that was cut off and went on from there: it passed over "
    "what was written in its place.",
    "as lost-write",
)

GROUPS = (
    chapter(
        "consume-skip",
        "A group committed past a record that no member processed.",
        permitted(
            "A group that commits an offset before the record has been processed is promised at "
            "most once: what a member had in hand when it died is passed over.",
            AT_MOST_ONCE,
            source=_SEMANTICS,
            by="committing before processing",
        ),
        permitted(
            "librdkafka's automatic commit takes a record as consumed when it is handed over, "
            "unless it is told otherwise: what a member had in hand when it died is passed over "
            "if a commit came in between.",
            "auto-delivered",
            source="librdkafka, enable.auto.offset.store and auto.commit.interval.ms in "
            "CONFIGURATION.md; " + _SEMANTICS,
            by="automatic commits of what was handed over",
        ),
        reasons.unclean_election(),
        permitted(_READ_WHAT_WAS_CUT, "lost", given=MAY_LOSE, by="the loss itself"),
        reasons.shown_by_one("lost"),
        forbidden(_READ_WHAT_WAS_CUT, "lost"),
        forbidden(
            "What is committed only after it has been processed is processed at least once.",
            source=_SEMANTICS,
        ),
        kinds=(*MAY_SKIP, "after-processing", "auto-stored", "auto-polled", EXACTLY_ONCE, "lost"),
    ),
    chapter(
        "consume-repeat",
        "A group processed a record more than once.",
        permitted(
            "What a member had processed and not yet committed when its partition moved on is "
            "processed again.",
            "uncommitted",
            source=_SEMANTICS,
            by="at-least-once processing",
        ),
        reasons.unclean_election(),
        reasons.copies_destroyed(),
        forbidden(
            "Who commits before processing processes only what an acknowledged commit covers, and "
            "a coordinator refuses the commits of members whose group has moved on without them.",
            AT_MOST_ONCE,
            source=_SEMANTICS + "; ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID among the protocol's "
            "errors",
        ),
        reasons.LAST_KNOWN_COMMIT,
        *reasons.PARTLY_DESTROYED,
        forbidden(_COMMIT_STAYS),
        kinds=("uncommitted", "committed", "partly-destroyed", AT_MOST_ONCE, EXACTLY_ONCE),
    ),
    chapter(
        "lost-commit",
        "A group was told of an earlier offset than one whose commit was acknowledged.",
        reasons.unclean_election(),
        reasons.copies_destroyed(),
        reasons.LAST_KNOWN_COMMIT,
        *reasons.PARTLY_DESTROYED,
        forbidden(_COMMIT_STAYS),
        kinds=("in-sync", "partly-destroyed"),
    ),
    chapter(
        "group-stuck",
        "After the last healing a consumer group did not commit to the end of a partition.",
        undecided(
            "No member was left that said how far it is: whether the group could have gone on "
            "nobody knows.",
            "nobody",
            source="KIP-62: partitions belong to those who poll",
        ),
        undecided(
            "Clients that are none of this run were members too, and may have been given the "
            "partitions.",
            "strangers",
            source="Kafka documentation, group.id",
        ),
        undecided(
            "An ISR was not full, or the group's coordinator did not answer, so the group had no "
            "chance.",
            "unwell",
            source="Kafka documentation, replication design",
        ),
        undecided(
            "The group still committed when the time for it was over: let producers send less, or "
            "let more members process.",
            "slow",
            source="the limit in harness/run/scenario_run.py",
        ),
        undecided(
            "Nobody knows how far the group got.", "unasked", source="members.jsonl of the run"
        ),
        forbidden(
            "Who is gone is noticed after its session, and a rebalance waits for no member longer "
            "than max.poll.interval.ms: then live members have all partitions, and read on.",
            source="KIP-62, KIP-848; broken in KAFKA-12890",
        ),
        kinds=WHY_BEHIND,
    ),
)
