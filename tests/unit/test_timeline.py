"""When who led, how surely, and what follows from it: by hand-written lines and logs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from tests.metadata import batch, change, no_op, partition, topic, write_metadata
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.result import JudgedFault
from verifiers.timeline.clock import Clock
from verifiers.timeline.frames import asking_all, unbound
from verifiers.timeline.metrics import measured
from verifiers.timeline.partition_states import Timeline, read_timeline, write_states
from verifiers.timeline.windows import ceilings, demands, shortages

Line = Mapping[str, Any]
PLACE = ("orders", 0)
MS = 1_000_000
S = 1_000_000_000
ERA_MS = 1_700_000_000_000
"""What the brokers' clock shows when ours shows 0."""


STARTS = {PLACE: [(0, 0), (1, 55)]}
"""Where the leader epochs of the partition begin."""


def clock(at_ms: int, *, width_ms: int = 10, shift_ms: int = 0) -> Line:
    """Return a reading of the brokers' clock at a time of ours."""
    return {
        "sample": "clock",
        "asked_ns": at_ms * MS,
        "answered_ns": (at_ms + width_ms) * MS,
        "host_ns": (ERA_MS + at_ms + shift_ms) * MS + width_ms * MS // 2,
    }


def isr_count(at_ms: int, count: int, *, broker: int = 1) -> Line:
    return {
        "sample": "isr-count",
        "asked_ns": at_ms * MS,
        "answered_ns": (at_ms + 20) * MS,
        "broker": broker,
        "topic": PLACE[0],
        "partition": PLACE[1],
        "count": count,
    }


def watermark(at_ms: int, offset: int, *, epoch: int | None = 0) -> Line:
    return {
        "sample": "high-watermark",
        "asked_ns": at_ms * MS,
        "answered_ns": (at_ms + 20) * MS,
        "topic": PLACE[0],
        "partition": PLACE[1],
        "offset": offset,
        "leader_epoch": epoch,
    }


def folder(path: Path, *, samples: Sequence[Line] = (), lines: Sequence[Line] = ()) -> Path:
    """Write what a timeline is read from."""
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text("{}")
    for name, some in (("samples", samples), ("timeline", lines)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    return path


def kraft(path: Path, *samples: Line, end_ms: int = 60_000) -> Timeline:
    """Return the timeline of a partition whose ISR shrinks to 1 at 10 s, and is whole at 20 s."""
    at = ERA_MS
    content = (
        batch(0, at + 1000, [topic("orders"), partition(0, [1, 2, 3], leader=1)])
        + batch(2, at + 10_000, [change(0, isr=[1])])
        + batch(3, at + 20_000, [change(0, isr=[1, 2, 3])])
        + batch(4, at + 30_000, [change(0, leader=2)])
        + batch(5, at + end_ms, [no_op()])
    )
    write_metadata(path, content)
    return read_timeline(folder(path, samples=[clock(0), clock(end_ms), *samples]))


def state(
    at_ms: int, version: int, isr: Sequence[int], *, leader: int | None = 1, held_ms: int = 0
) -> Line:
    """Return a line of timeline.jsonl as ZooKeeper gives it."""
    return {
        "time_ns": at_ms * MS,
        "asked_ns": (at_ms - 10) * MS,
        "held_ns": held_ms * MS or None,
        "topic": PLACE[0],
        "partition": PLACE[1],
        "leader": leader,
        "isr": list(isr),
        "leader_epoch": 0 if leader == 1 else 1,
        "version": version,
    }


def test_a_reading_of_the_brokers_clock_lies_between_two_moments_of_ours() -> None:
    known = Clock.read([clock(0), clock(10_000)])

    span_ns = known.span_ns(ERA_MS + 4000)

    assert span_ns is not None
    early, late = span_ns
    assert early <= 4000 * MS <= late
    assert late - early < 30 * MS


def test_a_slow_answer_makes_a_clock_no_surer_than_it_is() -> None:
    known = Clock.read([clock(0, width_ms=2000)])

    span_ns = known.span_ns(ERA_MS)

    assert span_ns is not None
    early, late = span_ns
    assert late - early >= 2000 * MS


def test_the_best_of_several_answers_counts() -> None:
    known = Clock.read([clock(0, width_ms=2000), clock(3000), clock(6000, width_ms=2000)])

    span_ns = known.span_ns(ERA_MS + 3000)

    assert span_ns is not None
    early, late = span_ns
    assert late - early < 30 * MS


def test_a_clock_that_was_set_is_not_believed() -> None:
    known = Clock.read([clock(0), clock(10_000, shift_ms=500)])

    assert known.span_ns(ERA_MS + 5000) is None


def test_a_clock_that_nobody_read_says_nothing() -> None:
    assert Clock.read([]).latest_ns(ERA_MS) is None


def test_under_kraft_spells_come_from_the_metadata_log(tmp_path: Path) -> None:
    timeline = kraft(tmp_path)

    states = timeline.states[PLACE]
    assert timeline.source == "metadata-log"
    assert [(one.leader, one.isr, one.leader_epoch) for one in states] == [
        (1, (1, 2, 3), 0), (1, (1,), 0), (1, (1, 2, 3), 0), (2, (1, 2, 3), 1),
    ]  # fmt: skip
    assert all(one.after_ns <= one.from_ns < one.to_ns for one in states)
    assert [one.joins_next for one in states] == [True, True, True, False]
    assert abs(states[1].to_ns - 20 * S) < 30 * MS


def test_spells_are_written_down(tmp_path: Path) -> None:
    write_states(kraft(tmp_path), ["orders"], tmp_path)

    lines = [json.loads(line) for line in (tmp_path / "spells.jsonl").read_text().splitlines()]
    assert [(line["leader"], line["isr"], line["elr"]) for line in lines] == [
        (1, [1, 2, 3], []), (1, [1], []), (1, [1, 2, 3], []), (2, [1, 2, 3], []),
    ]  # fmt: skip
    write_states(kraft(tmp_path), ["others"], tmp_path)
    assert not (tmp_path / "spells.jsonl").exists()


def test_without_the_clock_a_metadata_log_has_no_place_in_time(tmp_path: Path) -> None:
    kraft(tmp_path)
    (tmp_path / "samples.jsonl").unlink()

    timeline = read_timeline(tmp_path)

    assert timeline.states == {}
    assert timeline.source == "polled"


def test_under_zookeeper_spells_lie_between_answers_of_one_version(tmp_path: Path) -> None:
    lines = [
        state(1000, 0, [1, 2, 3]),
        state(10_000, 1, [1], held_ms=9700),
        state(20_000, 3, [1, 2, 3], held_ms=19_700),
        state(60_000, 3, [1, 2, 3], held_ms=59_700),
    ]

    timeline = read_timeline(folder(tmp_path, lines=lines))

    assert timeline.source == "znodes"
    assert [(one.isr, one.from_ns // MS, one.to_ns // MS) for one in timeline.states[PLACE]] == [
        ((1, 2, 3), 1000, 9700), ((1,), 10_000, 19_700), ((1, 2, 3), 20_000, 59_700),
    ]  # fmt: skip
    assert [one.joins_next for one in timeline.states[PLACE]] == [True, False, False]


def test_lines_of_earlier_runs_have_no_spells(tmp_path: Path) -> None:
    line = {"time_ns": 1, "topic": "orders", "partition": 0, "leader": 1, "isr": [1]}

    assert read_timeline(folder(tmp_path, lines=[line, line])).states == {}


def test_a_shortage_begins_when_the_leader_itself_has_said_so(tmp_path: Path) -> None:
    (one,) = shortages(kraft(tmp_path, isr_count(12_000, 1)), 2)

    assert (one["topic"], one["partition"], one["leader"], one["isr"]) == ("orders", 0, 1, "1")
    assert one["from_ns"] == 12_020 * MS
    assert 19_900 * MS < one["to_ns"] <= 20_000 * MS


@pytest.mark.parametrize(
    "sample",
    [
        isr_count(12_000, 2),  # the leader has not heard of it
        isr_count(9990, 1),  # the state changed while it was asked
        isr_count(25_000, 1),  # the committed state says otherwise
        isr_count(12_000, 1, broker=2),  # this is not the leader
    ],
)
def test_what_leader_and_committed_state_do_not_both_say_is_no_shortage(
    tmp_path: Path, sample: Line
) -> None:
    assert shortages(kraft(tmp_path, sample), 2) == []


def test_a_second_answer_adds_no_second_shortage(tmp_path: Path) -> None:
    found = shortages(kraft(tmp_path, isr_count(12_000, 1), isr_count(13_000, 1)), 2)

    assert [one["from_ns"] for one in found] == [12_020 * MS]


def test_a_shortage_ends_where_a_version_was_missed(tmp_path: Path) -> None:
    lines = [
        state(10_000, 1, [1]),
        state(20_000, 3, [1], held_ms=19_700),
        state(60_000, 3, [1], held_ms=59_700),
    ]
    samples = [isr_count(12_000, 1)]

    (one,) = shortages(read_timeline(folder(tmp_path, samples=samples, lines=lines)), 2)

    assert one["to_ns"] == 19_700 * MS


def test_a_shortage_goes_on_through_states_that_follow_each_other(tmp_path: Path) -> None:
    lines = [
        state(10_000, 1, [1, 2]),
        state(20_000, 2, [1], held_ms=19_700),
        state(60_000, 2, [1], held_ms=59_700),
    ]
    samples = [isr_count(12_000, 2)]

    (one,) = shortages(read_timeline(folder(tmp_path, samples=samples, lines=lines)), 3)

    assert one["to_ns"] == 59_700 * MS


def test_a_shortage_ends_with_its_leader(tmp_path: Path) -> None:
    lines = [
        state(10_000, 1, [1, 2]),
        state(20_000, 2, [2], leader=2, held_ms=19_700),
        state(60_000, 2, [2], leader=2, held_ms=59_700),
    ]
    samples = [isr_count(12_000, 2)]

    (one,) = shortages(read_timeline(folder(tmp_path, samples=samples, lines=lines)), 3)

    assert one["to_ns"] == 19_700 * MS


def test_a_later_high_watermark_bounds_what_was_read_before(tmp_path: Path) -> None:
    found = ceilings(kraft(tmp_path, watermark(5000, 40), watermark(6000, 50)), STARTS)

    spans = {one["high_watermark"]: (one["from_ns"] // MS, one["to_ns"] // MS) for one in found}
    assert spans[50] == (5000, 6000)
    assert spans[40][1] == 5000


def test_the_lowest_later_high_watermark_counts(tmp_path: Path) -> None:
    found = ceilings(kraft(tmp_path, watermark(5000, 40), watermark(6000, 30)), STARTS)

    assert {one["high_watermark"] for one in found} == {30}
    assert {one["asked_ns"] for one in found} == {6000 * MS}


def test_a_deposed_leader_bounds_nothing_after_its_reign(tmp_path: Path) -> None:
    # It answers at 35 s with what it had; another one leads since 30 s.
    found = ceilings(kraft(tmp_path, watermark(35_000, 40)), STARTS)

    assert max(one["to_ns"] for one in found) <= 30_000 * MS


def test_an_epoch_that_nobody_knows_of_bounds_nothing(tmp_path: Path) -> None:
    assert ceilings(kraft(tmp_path, watermark(5000, 40, epoch=7)), STARTS) == []
    assert ceilings(kraft(tmp_path, watermark(5000, 40, epoch=None)), STARTS) == []


def test_an_epoch_binds_its_own_records_only(tmp_path: Path) -> None:
    timeline = kraft(tmp_path, watermark(5000, 40), watermark(35_000, 50, epoch=1))

    assert {one["epoch_start"] for one in ceilings(timeline, STARTS)} == {0, 55}
    # Whose first record nobody knows binds nothing.
    assert {one["epoch_start"] for one in ceilings(timeline, {PLACE: [(0, 0)]})} == {0}
    assert ceilings(timeline, {}) == []


@pytest.mark.parametrize(
    ("contract", "destroys", "binds"),
    [
        (Contract(), False, True),
        (Contract(), True, False),
        (Contract(unclean_election=True), False, False),
    ],
)
def test_where_logs_may_end_earlier_than_they_did_no_high_watermark_binds(
    tmp_path: Path, contract: Contract, destroys: bool, binds: bool
) -> None:
    fault = JudgedFault(
        id="1", name="any", target="", victims=(1,), injected_at_s=1, healed_at_s=2, proven=True,
        destroys_data=destroys,
    )  # fmt: skip
    run = RunInput(path=tmp_path, meta={}, contract=contract, faults=(fault,), ends=(), origin_ns=0)

    assert (unbound(run) is None) is binds


def test_only_producers_with_acks_all_are_held_to_it(tmp_path: Path) -> None:
    clients = tmp_path / "clients"
    clients.mkdir()
    (tmp_path / "run.json").write_text("{}")
    for process, acks in enumerate(["all", "1", "0", -1, None]):
        settings = {"process": process, "config": {"acks": acks} if acks is not None else {}}
        (clients / f"process-{process}.json").write_text(json.dumps(settings))

    assert asking_all(tmp_path) == [0, 3]


def fault(begin_s: int, end_s: int | None, *victims: int, fault_id: str = "1") -> list[Line]:
    lines: list[Line] = [
        {"id": fault_id, "event": "decided", "time_ns": begin_s * S, "victims": victims}
    ]
    if end_s is not None:
        lines.append({"id": fault_id, "event": "healed", "time_ns": end_s * S})
    return lines


META: Line = {
    "cluster": {"brokers": 3, "controllers": 0, "metadata": "kraft"},
    "contract": {"replication_factor": 3, "min_isr": 2},
    "topics": [{"name": "orders", "partitions": 1, "replication_factor": 3}],
}


@pytest.mark.parametrize(
    ("faults", "left"),
    [
        ([], [(0, 60)]),
        (fault(10, 20, 1), [(0, 60)]),
        (fault(10, 20, 1, 2), [(0, 10), (20, 60)]),
        (fault(10, None, 1, 2), [(0, 10)]),
        ([*fault(10, 30, 1), *fault(20, 40, 3, fault_id="2")], [(0, 20), (30, 60)]),
        (fault(70, 80, 1, 2), [(0, 60)]),
        (fault(10, 20), [(0, 60)]),
    ],
)
def test_partitions_must_be_writable_while_enough_is_left(
    faults: list[Line], left: list[tuple[int, int]]
) -> None:
    found = demands(faults, META, (0, 60 * S))

    assert [(begin // S, end // S) for begin, end in found] == left


def test_a_cluster_without_a_majority_of_controllers_owes_nothing() -> None:
    meta = {**META, "cluster": {"brokers": 3, "controllers": 3, "metadata": "kraft"}}

    assert demands(fault(10, 20, 101), meta, (0, 60 * S)) == [(0, 60 * S)]
    assert demands(fault(10, 20, 101, 102), meta, (0, 60 * S)) == [(0, 10 * S), (20 * S, 60 * S)]


@pytest.mark.parametrize(
    ("brokers", "hit", "owes"),
    [(5, (4, 5), True), (5, (1, 2), False), (2, (2,), True), (2, (1,), False)],
)
def test_of_the_brokers_at_most_three_elect_the_controller(
    brokers: int, hit: tuple[int, ...], owes: bool
) -> None:
    meta = {
        "cluster": {"brokers": brokers, "controllers": 0, "metadata": "kraft"},
        "contract": {"replication_factor": 3, "min_isr": 1},
    }

    found = demands(fault(10, 20, *hit), meta, (0, 60 * S))

    assert (found == [(0, 60 * S)]) is owes


def test_a_cluster_without_zookeeper_owes_nothing() -> None:
    meta = {**META, "cluster": {"brokers": 3, "controllers": 0, "metadata": "zookeeper"}}

    assert demands(fault(10, 20, 100), meta, (0, 60 * S)) == [(0, 10 * S), (20 * S, 60 * S)]


def test_times_of_a_fault_are_measured(tmp_path: Path) -> None:
    def seen(at_s: float, leader: int | None, *isr: int) -> Line:
        return {
            "time_ns": round(at_s * S), "topic": "orders", "partition": 0, "leader": leader,
            "isr": isr,
        }  # fmt: skip

    lines = [
        seen(1, 1, 1, 2, 3),
        seen(12, None, 1, 2, 3),
        seen(13.5, 2, 2, 3),
        seen(24, 2, 1, 2, 3),
    ]
    timeline = read_timeline(folder(tmp_path, lines=lines))

    told = measured(timeline, fault(10, 20, 1), META)

    assert told["faults"] == {"1": {"shrink_s": 3.5, "elect_s": 3.5, "recover_s": 4.0}}
    assert told["changes"] == 3


def test_the_replica_that_was_furthest_behind_is_told() -> None:
    def end(at_s: int, broker: int, log_end: int, *, topic: str = "orders") -> Line:
        return {
            "sample": "replica", "asked_ns": at_s * S, "answered_ns": at_s * S, "broker": broker,
            "topic": topic, "partition": 0, "log_end": log_end, "high_watermark": None,
        }  # fmt: skip

    samples = [
        end(1, 1, 100), end(1, 2, 99), end(1, 3, 100),
        end(6, 1, 500), end(6, 2, 100), end(6, 3, 499), end(6, 2, 9, topic="other"),
        end(11, 1, 600), end(11, 2, 580),
    ]  # fmt: skip
    timeline = Timeline(states={}, samples=samples, lines=[], log=None, clock=Clock())

    assert measured(timeline, [], META)["widest_lag"] == {
        "records": 400, "broker": 2, "topic": "orders", "partition": 0, "at_ns": 6 * S,
    }  # fmt: skip
    nothing = Timeline(states={}, samples=[], lines=[], log=None, clock=Clock())
    assert measured(nothing, [], META)["widest_lag"] is None


def test_a_fault_that_changes_nothing_takes_no_time(tmp_path: Path) -> None:
    lines = [{"time_ns": S, "topic": "orders", "partition": 0, "leader": 1, "isr": [1, 2, 3]}]
    timeline = read_timeline(folder(tmp_path, lines=lines))

    told = measured(timeline, fault(10, 20, 2), META)

    assert told["faults"] == {"1": {"shrink_s": None, "elect_s": None, "recover_s": 0.0}}
