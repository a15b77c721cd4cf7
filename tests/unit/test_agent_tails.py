"""Cutting tails: at batch boundaries, never below what was flushed, and nothing points beyond."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from fault_agent import AgentError, processes, program
from fault_agent.ends import ends
from fault_agent.leases import Leases
from fault_agent.tails import cut_tails


def v2(base: int, records: int, size: int = 100) -> bytes:
    """A batch of format v2, as far as anybody here looks at it."""
    body = struct.pack(">ibIhi", 5, 2, 0, 0, records - 1)
    return struct.pack(">qi", base, size - 12) + body.ljust(size - 12, b"\x07")


def old(offset: int, magic: int, size: int = 50) -> bytes:
    """A message of format v0 or v1, or a wrapper of compressed ones: it has the last offset."""
    body = struct.pack(">Ibb", 0, magic, 0)
    return struct.pack(">qi", offset, size - 12) + body.ljust(size - 12, b"\x07")


class Disk:
    """A log directory with one partition, orders-0."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "orders-0"
        self.log.mkdir(parents=True)
        self.recovery_point(0)
        (folder / ".kafka_cleanshutdown").touch()

    def recovery_point(self, offset: int) -> None:
        (self.folder / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")

    def segment(self, base: int, *batches: bytes) -> Path:
        path = self.log / f"{base:020}.log"
        path.write_bytes(b"".join(batches))
        for suffix in (".index", ".timeindex", ".txnindex"):
            path.with_suffix(suffix).write_bytes(b"x")
        return path

    def names(self) -> set[str]:
        return {path.name for path in self.log.iterdir()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "data")


def test_the_worst_legal_power_cut_ends_at_the_recovery_point(disk: Disk) -> None:
    path = disk.segment(0, v2(0, 5), v2(5, 5), v2(10, 2))
    disk.recovery_point(5)

    (cut,) = cut_tails([disk.folder])

    assert (cut.topic, cut.partition, cut.recovery_point) == ("orders", 0, 5)
    assert (cut.end_before, cut.end_after, cut.bytes_cut) == (12, 5, 200)
    assert path.read_bytes() == v2(0, 5)


def test_a_batch_is_cut_whole_or_not_at_all(disk: Disk) -> None:
    path = disk.segment(0, v2(0, 5), v2(5, 5), v2(10, 2))
    disk.recovery_point(6)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_after, cut.bytes_cut) == (10, 100)
    assert path.stat().st_size == 200


def test_later_segments_go_with_all_their_indexes(disk: Disk) -> None:
    disk.segment(0, v2(0, 5), v2(5, 5))
    disk.segment(10, v2(10, 5))
    disk.segment(15, v2(15, 5))
    disk.recovery_point(7)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_before, cut.end_after, cut.bytes_cut) == (20, 10, 200)
    assert disk.names() == {f"{0:020}.log"}


def test_a_segment_below_the_cut_keeps_its_indexes(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    path = disk.segment(5, v2(5, 5), v2(10, 5))
    disk.recovery_point(8)

    cut_tails([disk.folder])

    assert f"{0:020}.index" in disk.names()
    assert f"{5:020}.index" not in disk.names()
    assert path.read_bytes() == v2(5, 5)


def test_a_cut_at_a_segments_beginning_leaves_it_empty(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    path = disk.segment(5, v2(5, 5))
    disk.recovery_point(5)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_after, cut.bytes_cut) == (5, 100)
    assert path.read_bytes() == b""


def test_an_offset_of_ones_own_is_the_least_that_stays(disk: Disk) -> None:
    disk.segment(0, v2(0, 5), v2(5, 5), v2(10, 2))

    (cut,) = cut_tails([disk.folder], topic="orders", partition=0, offset=9)

    assert (cut.end_after, cut.bytes_cut) == (10, 100)


def test_below_the_recovery_point_lies_corruption(disk: Disk) -> None:
    path = disk.segment(0, v2(0, 5), v2(5, 5))
    disk.recovery_point(6)

    with pytest.raises(AgentError, match="below the recovery point 6"):
        cut_tails([disk.folder], topic="orders", partition=0, offset=5)

    assert path.stat().st_size == 200
    assert (disk.folder / ".kafka_cleanshutdown").exists()


def test_what_was_flushed_is_not_cut(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    disk.recovery_point(5)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_before, cut.end_after, cut.bytes_cut) == (5, 5, 0)
    assert f"{0:020}.index" in disk.names()


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_stepped_through_message_by_message(disk: Disk, magic: int) -> None:
    # 0, 1, then a wrapper of 2 to 6, then 7.
    path = disk.segment(0, old(0, magic), old(1, magic), old(6, magic, 90), old(7, magic))
    disk.recovery_point(3)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_before, cut.end_after, cut.bytes_cut) == (8, 7, 50)
    assert path.stat().st_size == 190


def test_a_compacted_log_does_not_end_below_its_recovery_point(disk: Disk) -> None:
    disk.segment(0, v2(0, 2), v2(10, 3), v2(13, 1))
    disk.recovery_point(8)

    (cut,) = cut_tails([disk.folder])

    assert cut.end_after == 13


def test_what_was_half_written_is_no_batch_and_goes(disk: Disk) -> None:
    path = disk.segment(0, v2(0, 5), v2(5, 5)[:60])
    disk.recovery_point(5)

    (cut,) = cut_tails([disk.folder])

    assert (cut.end_before, cut.end_after, cut.bytes_cut) == (5, 5, 60)
    assert path.read_bytes() == v2(0, 5)


def test_the_unwritten_rest_of_a_preallocated_segment_is_no_batch(disk: Disk) -> None:
    disk.segment(0, v2(0, 5), bytes(500))

    (cut,) = cut_tails([disk.folder])

    assert cut.end_before == 5


def test_what_is_no_log_of_kafkas_is_left_alone(disk: Disk) -> None:
    path = disk.segment(0, b"\xff" * 200)

    with pytest.raises(AgentError, match="holds no batch"):
        cut_tails([disk.folder])

    assert path.stat().st_size == 200


def test_checkpoints_and_snapshots_do_not_point_beyond_the_cut(disk: Disk) -> None:
    disk.segment(0, v2(0, 5), v2(5, 5), v2(10, 5))
    disk.recovery_point(4)
    for offset in (5, 10):
        (disk.log / f"{offset:020}.snapshot").touch()
    (disk.log / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 5\n2 10\n")
    marks = disk.folder / "replication-offset-checkpoint"
    marks.write_text("0\n3\norders 0 12\norders 1 90\nother 0 3\n")

    cut_tails([disk.folder])

    assert marks.read_text() == "0\n3\norders 0 5\norders 1 90\nother 0 3\n"
    assert (disk.log / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 5\n"
    assert {name for name in disk.names() if "snapshot" in name} == {f"{5:020}.snapshot"}
    assert not (disk.folder / ".kafka_cleanshutdown").exists()


def test_a_young_brokers_checkpoints_are_empty_files(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    names = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    for name in names:
        (disk.folder / name).write_text("")

    (cut,) = cut_tails([disk.folder])

    assert (cut.recovery_point, cut.end_after, cut.bytes_cut) == (0, 0, 100)
    assert [(disk.folder / name).read_text() for name in names] == ["", ""]


def test_a_checkpoint_that_is_none_stops_the_cut(disk: Disk) -> None:
    path = disk.segment(0, v2(0, 5))
    (disk.folder / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 x\n")

    with pytest.raises(AgentError, match="cannot be understood"):
        cut_tails([disk.folder])

    assert path.stat().st_size == 100


def test_only_the_wanted_logs_are_cut_and_the_metadata_never(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    for name in ("orders-1", "a-b-0", "__cluster_metadata-0", "orders-9.1f2e-delete"):
        folder = disk.folder / name
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(v2(0, 1))

    one = cut_tails([disk.folder], topic="orders", partition=1)
    everything = cut_tails([disk.folder])

    assert [(cut.topic, cut.partition) for cut in one] == [("orders", 1)]
    assert [(cut.topic, cut.partition, cut.bytes_cut) for cut in everything] == [
        ("a-b", 0, 100),
        ("orders", 0, 100),
        ("orders", 1, 0),
    ]
    assert (disk.folder / "__cluster_metadata-0" / f"{0:020}.log").stat().st_size == 100


# --- as a verb


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A container whose first process is 10, with a disk."""
    for module in (processes, program):
        monkeypatch.setattr(module, "PROC", tmp_path)
    _add_process(tmp_path, 10, 1, "supervisor")
    disk = Disk(tmp_path / "10" / "root" / "data")
    disk.segment(0, v2(0, 5), v2(5, 5))
    return disk


def _add_process(proc: Path, pid: int, parent: int, name: str) -> None:
    (proc / str(pid)).mkdir()
    zeros = " ".join(["0"] * 17)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {zeros} 1 0 0\n")
    (proc / str(pid) / "cmdline").write_text(f"{name}\0kafka.Kafka")


def _ask(verb: str, **arguments: Any) -> dict[str, Any]:
    given = {"container_pid": 10, "log_dirs": ["/data"]} | arguments
    return program.perform(verb, json.dumps(given))


def test_a_dead_brokers_tail_is_cut_and_the_sizes_say_so(container: Disk) -> None:
    assert container.folder.exists()
    before = _ask("log_sizes")["logs"]

    answer = _ask("cut_tail", topic="orders", partition=0, offset=5)

    assert answer["logs"] == [
        {"topic": "orders", "partition": 0, "recovery_point": 0,
         "end_before": 10, "end_after": 5, "bytes_cut": 100}
    ]  # fmt: skip
    assert before == [{"topic": "orders", "partition": 0, "bytes": 200}]
    assert _ask("log_sizes")["logs"] == [{"topic": "orders", "partition": 0, "bytes": 100}]


def test_a_living_broker_is_not_cut(container: Disk, tmp_path: Path) -> None:
    _add_process(tmp_path, 11, 10, "java")

    answer = _ask("cut_tail")

    assert "still runs" in answer["error"]
    assert (container.log / f"{0:020}.log").stat().st_size == 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"partition": 0}, "needs its topic"),
        ({"topic": "orders", "offset": 3}, "needs its partition"),
        ({"topic": "nobody"}, "no log of nobody"),
        ({"log_dirs": ["data"]}, "absolute"),
        ({"log_dirs": ["/elsewhere"]}, "no log directory"),
        ({"container_pid": 99}, "is gone"),
    ],
)
def test_a_cut_that_cannot_be_is_a_sentence(
    container: Disk, arguments: dict[str, Any], words: str
) -> None:
    assert words in _ask("cut_tail", **arguments)["error"]
    assert (container.log / f"{0:020}.log").stat().st_size == 200


def test_where_logs_end_is_told_of_all_brokers_at_once(container: Disk, tmp_path: Path) -> None:
    _add_process(tmp_path, 11, 10, "java")  # it may run, and be frozen
    (container.folder / "replication-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    brokers = [
        {"node_id": 1, "container_pid": 10, "log_dirs": ["/data"]},
        {"node_id": 2, "container_pid": 99, "log_dirs": ["/data"]},
    ]

    answer = program.perform("log_ends", json.dumps({"topics": ["orders"], "brokers": brokers}))
    others = program.perform("log_ends", json.dumps({"topics": ["other"], "brokers": brokers}))

    assert answer["logs"] == [
        {"node_id": 1, "topic": "orders", "partition": 0, "log_end": 10, "high_watermark": 7}
    ]
    assert others["logs"] == []


@pytest.mark.parametrize("entries", [0, 1, 3, 5, 50])
def test_the_end_is_found_by_the_index_and_beyond_it(disk: Disk, entries: int) -> None:
    """The index has some of the batches, zeros follow, and a truncation leaves stale entries."""
    disk.segment(0, v2(0, 5))
    path = disk.segment(5, *(v2(5 + n, 1) for n in range(20)), v2(25, 9)[:-1])
    known = b"".join(struct.pack(">ii", n, 100 * n) for n in range(1, entries + 1))
    path.with_suffix(".index").write_bytes(known + bytes(8 * 1000))

    (end,) = ends([disk.folder], {"orders"})

    assert (end.log_end, end.high_watermark) == (25, None)


def test_a_log_that_was_just_rolled_ends_where_its_segment_begins(disk: Disk) -> None:
    disk.segment(0, v2(0, 5))
    disk.segment(5).with_suffix(".index").unlink()

    assert [end.log_end for end in ends([disk.folder], {"orders"})] == [5]


def test_a_log_that_cannot_be_understood_is_left_out(disk: Disk) -> None:
    disk.segment(0, old(0, magic=9))

    assert list(ends([disk.folder], {"orders"})) == []


def test_what_was_cut_is_told_again_to_whoever_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (processes, program):
        monkeypatch.setattr(module, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (supervisor) S 1 {'0 ' * 17}70 0 0\n")
    leases = Leases(tmp_path / "run")
    monkeypatch.setattr(program, "Leases", lambda: leases)
    disk = Disk(tmp_path / "7" / "root" / "data")
    disk.segment(0, v2(0, 5), v2(5, 5))
    given = {"container_pid": 7, "log_dirs": ["/data"], "lease": {"id": "1", "limit_s": 9}}

    first = program.perform("cut_tail", json.dumps(given | {"request": "a"}))
    again = program.perform("cut_tail", json.dumps(given | {"request": "a"}))
    later = program.perform("cut_tail", json.dumps(given | {"request": "b"}))

    assert first["logs"][0]["bytes_cut"] == 200
    assert again == first
    assert later["logs"][0]["bytes_cut"] == 0
