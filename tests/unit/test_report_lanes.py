"""What the report shows of copies, pauses, groups and brokers' logs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit import report_fixture as fixture
from verifiers.report import log_pictures, record_reading
from verifiers.report.interval_lanes import group_lane, pauses_lane, script_lane
from verifiers.report.model import LogSample, RunRecord, ScriptStep
from verifiers.report.quantity_lanes import lag_lane
from verifiers.report.svg import TimeAxis

AXIS = TimeAxis(from_s=0.0, to_s=56.0)
LOG = {"leo": 100, "log_start": 0, "high_watermark": 90, "epochs": [[0, 0], [3, 60]]}


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return record_reading.read_record(fixture.valid(tmp_path))


def test_copies_are_read_by_partition_and_broker(record: RunRecord) -> None:
    assert list(record.logs) == [("orders", 0)]
    copies = record.logs["orders", 0]
    assert [sample.log_end for sample in copies[3]] == [0, 200, 120, 600]
    assert copies[1][3] == LogSample(at_s=30.01, log_end=600, high_watermark=580)


def test_a_cut_of_a_log_is_told_with_its_records(record: RunRecord) -> None:
    drawn = log_pictures.log_lane(("orders", 0), record.logs["orders", 0], AXIS).markup(AXIS)

    assert drawn.count("mark cut") == 1
    assert "−80" in drawn
    assert "broker 3: its log went back from 200 to 120" in drawn


def test_pauses_are_those_of_the_nodes_by_the_machines_clock(record: RunRecord) -> None:
    assert [pause.node for pause in record.pauses] == [1, 2, 3]
    assert [pause.to_s for pause in record.pauses] == pytest.approx([13.5, 14.5, 15.5])
    assert record.pauses[2].to_s - record.pauses[2].from_s == pytest.approx(0.1205)
    assert "longest 120" in pauses_lane(record.pauses, AXIS).markup(AXIS)


def test_a_group_is_drawn_by_its_states_and_its_members(record: RunRecord) -> None:
    assert [(state.from_s, state.to_s, state.state) for state in record.group] == [
        (1.0, 20.0, "STABLE"), (20.0, 25.0, "PREPARING_REBALANCING"),
        (25.0, float("inf"), "STABLE"),
    ]  # fmt: skip
    drawn = group_lane(record.group, AXIS).markup(AXIS)
    assert "preparing rebalancing" in drawn
    assert "member-0: 0, 1" in drawn
    assert "member-1: 1" in drawn


def test_a_consumer_lags_by_what_lies_between_it_and_the_high_watermarks(
    record: RunRecord,
) -> None:
    (lag,) = record.lags

    # At 10 s it has read 51 of 100 and all of the other; at 30 s it lacks what came after 25 s.
    assert lag.reader == "client 100"
    assert lag.records == ((10.0, 49), (20.0, 0), (30.0, 30))
    assert "client 100" in lag_lane(record.lags, AXIS).markup(AXIS)


def test_of_very_many_records_the_lag_is_not_worked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verifiers.report.lag_reading._MOST_ROWS", 199)

    assert record_reading.read_record(fixture.valid(tmp_path)).lags == ()


def test_around_a_fault_the_brokers_logs_are_told(record: RunRecord) -> None:
    told = record.logged

    # The partition of broker 3, from 17.2 to 23.9 s: neither noise nor internal topics.
    lines = [(round(line.at_s, 3), line.node, line.times, line.text) for line in told["2"]]
    assert [line[:3] for line in lines] == [(17.5, 3, 1), (24.2, 3, 2)]
    assert lines[0][3].startswith("INFO [Partition orders-0 broker=3] Shrinking ISR")
    assert set(told) == {"2"}


def test_without_the_brokers_clock_no_line_is_placed(record: RunRecord) -> None:
    (record.folder / "samples.jsonl").unlink()

    assert not record_reading.read_record(record.folder).logged


def test_the_script_of_a_claim_stands_on_the_time_axis(tmp_path: Path) -> None:
    folder = fixture.valid(tmp_path)
    batch = {"name": "doomed", "ok": [[0, 0, 90], [90, 90, 5]], "fail": [[95, 3]], "info": []}
    fixture.write_lines(
        folder / "lab.jsonl",
        [
            {"event": "batch", "begun_ns": fixture.ns(3), "time_ns": fixture.ns(4), **batch},
            {"event": "wait", "what": "A to lead", "met": False, "begun_ns": fixture.ns(5),
             "time_ns": fixture.ns(9)},
            {"event": "fact", "name": "seconds", "value": 4.2, "time_ns": fixture.ns(9)},
            {"event": "left", "brokers": [2], "time_ns": fixture.ns(9)},
        ],
    )  # fmt: skip

    script = record_reading.read_record(folder).script

    assert [(step.kind, step.from_s, step.to_s, step.title) for step in script] == [
        ("batch", 3.0, 4.0, "batch doomed: 95 records acknowledged, 0 unknown, 3 refused"),
        ("wait", 5.0, 9.0, "waited for A to lead, in vain"),
        ("fact", 9.0, 9.0, "seconds: 4.2"),
    ]
    assert "A to lead" in script_lane(script, AXIS).markup(AXIS)


def test_words_of_a_script_that_stand_before_their_step_have_room_there() -> None:
    axis = TimeAxis(from_s=0.0, to_s=10.0)
    late = [
        ScriptStep(
            kind="wait", words="the ISR to be exactly {A, C}", from_s=at_s, to_s=9.9, title=""
        )
        for at_s in (9.6, 9.7)
    ]

    drawn = script_lane(tuple(late), axis).markup(axis)

    rows = re.findall(r'class="lab pre[^"]*" x="[^"]*" y="([^"]*)"', drawn)
    assert len(rows) == len(set(rows)) == 2


def picture(*differ: dict[str, Any], **stretch: Any) -> str:
    logs = {"1": {"orders-0": {**LOG, "leader": True}}, "2": {"orders-0": LOG, "orders-1": LOG}}
    lost = {"topic": "orders", "partition": 0, "first": 100, "last": 119, "count": 20, **stretch}
    document = {"brokers": logs, "located": {"stretches": [lost] if stretch else []}}
    return "".join(log_pictures.on_disk(document, differ))


def test_a_lost_stretch_is_marked_on_every_replica_as_there_or_not() -> None:
    drawn = picture(held_by="2", lacking="1")

    assert drawn.count("<svg") == 1
    assert drawn.count("lost gone") == drawn.count("lost held") == 1
    assert "broker 2: offsets 60 to 99, epoch 3" in drawn
    assert drawn.count('class="hw"') == 2


def test_stretches_that_differ_without_a_gap_between_are_one_frame() -> None:
    place = {"topic": "orders", "partition": 1, "brokers": [1, 2]}
    ranges = [(0, 0), (1, 3), (4, 9), (20, 21)]

    drawn = picture(*({**place, "first": first, "last": last} for first, last in ranges))

    assert drawn.count('class="differs"') == 2
    assert "offsets 0 to 9 differ" in drawn


def test_where_all_is_well_there_is_no_picture() -> None:
    assert picture() == ""
