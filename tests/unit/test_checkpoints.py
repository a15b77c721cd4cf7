"""What brokers note of their logs: checkpoints, and truncations in their own words."""

from pathlib import Path

import pytest

from harness.core.run_dir import RunDir
from verifiers.replicas.checkpoints import epochs_in, offsets_in
from verifiers.replicas.cuts import cuts_of, read_cuts

NEW = (
    "[2026-11-21 14:08:18,021] INFO [UnifiedLog partition=orders-0, dir=/var/lib/kafka/data] "
    "Truncating to offset 6581 (org.apache.kafka.storage.internals.log.UnifiedLog)\n"
)
NEW_IDLE = (
    "[2026-11-21 14:07:49,814] INFO [UnifiedLog partition=orders-0, dir=/var/lib/kafka/data] "
    "Truncating to 0 has no effect as the largest offset in the log is -1 (…)\n"
)
ONE = "[2019-11-19 13:09:05,115] INFO [Log partition=a-b-12, dir=/d] Truncating to offset 7 (…)\n"
OLD = "[2026-11-21 14:08:18,021] INFO Truncating log orders-0 to offset 12. (kafka.log.Log)\n"
OLD_IDLE = (
    "[2026-11-21 14:08:18,021] INFO Truncating orders-0 to 12 has no effect as the largest offset "
    "in the log is 9. (kafka.log.Log)\n"
)
RECOVERED = (
    "[2026-11-21 14:08:18,021] WARN [LogLoader partition=orders-1, dir=/data] Corruption found in "
    "segment 0, truncating to offset 33 (…)\n"
)
FETCHER = (
    "[2026-11-21 14:08:18,020] INFO [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] "
    "Truncating partition orders-0 with TruncationState(offset=6581, completed=true) due to "
    "leader epoch and offset EpochEndOffset(…)\n"
)


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        (NEW, [("orders", 0, 6581)]),
        (NEW_IDLE, []),
        (ONE, [("a-b", 12, 7)]),
        (OLD, [("orders", 0, 12)]),
        (OLD + OLD_IDLE, []),
        (OLD + NEW_IDLE + OLD, [("orders", 0, 12), ("orders", 0, 12)]),
        (OLD.replace("offset 12", "offset 0"), []),
        (RECOVERED, [("orders", 1, 33)]),
        (FETCHER, []),
        ("", []),
    ],
)
def test_truncations_are_read_in_the_words_of_every_generation(
    tmp_path: Path, text: str, cuts: list[tuple[str, int, int]]
) -> None:
    (tmp_path / "server.log").write_text(text)

    found = read_cuts(tmp_path / "server.log", 3)

    assert [(cut.topic, cut.partition, cut.to) for cut in found] == cuts
    assert all(cut.broker == 3 for cut in found)


RESET = (
    "[2026-11-21 14:08:18,482] INFO [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] Current "
    "offset 5998 for partition {place} is out of range, which typically implies a leader change. "
    "Reset fetch offset to {to} (kafka.server.ReplicaFetcherThread)\n"
)
UNANSWERED = (
    "[2026-11-21 14:08:18,001] WARN [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] Based on "
    "follower's leader epoch, leader replied with an unknown offset in {place}. {kept} will be "
    "used for truncation. (kafka.server.ReplicaFetcherThread)\n"
)
OLD_RESET = (
    "[2026-11-21 14:08:18,022] ERROR [ReplicaFetcherThread-0-1], Current offset 99 for partition "
    "[orders,0] out of range; reset offset to 12 (kafka.server.ReplicaFetcherThread)\n"
)


@pytest.mark.parametrize(
    ("text", "resets"),
    [
        (NEW + RESET.format(place="orders-0", to=6581), [True]),
        (OLD + OLD_RESET, [True]),
        (ONE + RESET.format(place="a-b-12", to=7), [True]),
        (NEW, [False]),
        (NEW + RESET.format(place="orders-0", to=6580), [False]),
        (NEW + RESET.format(place="orders-1", to=6581), [False]),
        (RESET.format(place="orders-0", to=6581) + NEW, [False]),
        *(
            (
                UNANSWERED.format(place=place, kept=kept)
                + NEW
                + RESET.format(place="orders-0", to=6581),
                [is_reset],
            )
            for place, kept, is_reset in (
                ("orders-0", "The initial fetch offset 5998", False),
                ("orders-0", "High watermark 5998", False),
                ("orders-0", "The initial fetch offset 5997", True),
                ("orders-1", "The initial fetch offset 5998", True),
            )
        ),
        (NEW + NEW + RECOVERED + RESET.format(place="orders-0", to=6581), [False, True, False]),
    ],
)
def test_a_cut_to_the_leaders_end_is_told_from_one_by_epochs(
    tmp_path: Path, text: str, resets: list[bool]
) -> None:
    (tmp_path / "server.log").write_text(text)

    found = read_cuts(tmp_path / "server.log", 3)

    assert [cut.is_reset for cut in found] == resets


def test_a_truncation_has_the_time_that_the_broker_gave_it(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(NEW)

    assert read_cuts(tmp_path / "server.log", 1)[0].at_utc == "2026-11-21 14:08:18.021"


def test_a_log_that_is_not_there_tells_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "cluster" / "broker-1").mkdir(parents=True)

    assert cuts_of(RunDir(tmp_path)) == []


def test_a_log_is_of_the_broker_that_the_manifest_or_the_name_of_its_folder_says(
    tmp_path: Path,
) -> None:
    for service in ("kafka-a", "kafka-b2", "tools"):
        (tmp_path / "cluster" / service).mkdir(parents=True)
        (tmp_path / "cluster" / service / "server.log").write_text(NEW)
    manifest = tmp_path / "cluster" / "replicas.json"
    manifest.write_text('{"brokers": {"7": {"service": "kafka-a"}}}')

    assert [cut.broker for cut in cuts_of(RunDir(tmp_path))] == [7, 2]


def test_epochs_come_in_the_order_of_the_file() -> None:
    assert epochs_in("0\n2\n0 0\n3 6581\n") == ((0, 0), (3, 6581))


def test_offsets_are_found_by_topic_and_partition() -> None:
    text = "0\n2\norders 0 12\norders 1 7\n"

    assert offsets_in(text) == {("orders", 0): 12, ("orders", 1): 7}


@pytest.mark.parametrize(
    "text", ["", "0\n", "0\n2\n0 0\n", "0\n1\nx y\n", "garbage", "0\n1\n1 2 3 4\n"]
)
def test_a_damaged_checkpoint_says_nothing(text: str) -> None:
    assert epochs_in(text) == ()
    assert offsets_in(text) == {}
