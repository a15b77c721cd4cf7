"""The short forms of a report: console and Markdown."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit import report_fixture as fixture
from verifiers.report import write_report

FOLDERS: list[Callable[[Path], Path]] = [
    fixture.valid,
    fixture.invalid,
    fixture.unknown,
    fixture.empty,
]

BROKEN = "Broken and seen to be: broker_kill ×2, partition, gc_pause."


def crowded(folder: Path) -> Path:
    """A run in which there is more of everything than a summary has room for."""
    anomalies = {f"odd-{n}": fixture.lost_write(40, permitted=n % 2 == 0) for n in range(20)}
    verdict = fixture.verdict_document(
        "INVALID", anomalies=anomalies, reasons=[f"Reason {n}." for n in range(30)]
    )
    fixture.build(folder, verdict=verdict, reasons=["The disk is full."] * 3)
    events = [
        event
        for n in range(40)
        for event in fixture.fault_events(
            str(n), f"fault_{n}", [1], n, n + 0.5, details={f"seen_{n}": n}, observed=n % 3 == 0
        )
    ]
    fixture.write_lines(folder / "faults.jsonl", events)
    return folder


@pytest.mark.parametrize("folder", [*FOLDERS, crowded])
def test_the_console_summary_has_at_most_25_lines(
    folder: Callable[[Path], Path], tmp_path: Path
) -> None:
    lines = write_report(folder(tmp_path))

    assert 4 <= len(lines) <= 25
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("folder", [*FOLDERS, crowded])
def test_the_markdown_summary_has_at_most_15_lines(
    folder: Callable[[Path], Path], tmp_path: Path
) -> None:
    run = folder(tmp_path)

    write_report(run)

    assert len((run / "summary.md").read_text("utf-8").splitlines()) <= 15


def test_faults_alike_are_told_in_one_line_with_their_witnesses(tmp_path: Path) -> None:
    lines = write_report(fixture.valid(tmp_path))

    assert "  broker_kill ×2 on 1, 2: proven by process table, probe of the listener" in lines
    assert "  partition on 3: proven by packet counters, probe connections" in lines
    assert "  gc_pause on 1: proven by GC log" in lines


def test_a_failure_ends_with_the_command_that_reproduces_it(tmp_path: Path) -> None:
    lines = write_report(fixture.invalid(tmp_path))

    assert lines[0] == f"✗ INVALID  3 acknowledged records were lost. {BROKEN}"
    assert lines[-1] == "  again: kafka-chaos run mixed --seed 7 --duration 50s"


def test_the_client_of_a_run_stands_beside_its_kafka(tmp_path: Path) -> None:
    loaded = {"confluent-kafka": "2.13.2", "librdkafka": "2.13.1"}
    folder = fixture.build(
        tmp_path,
        verdict=fixture.verdict_document(),
        client="librdkafka:2.13.2",
        client_versions=loaded,
    )

    lines = write_report(folder)

    line = "mixed · Kafka 4.3.1 · librdkafka:2.13.2 · seed 7"
    assert lines[1] == f"  {line}"
    assert line in (folder / "summary.md").read_text()
    assert 'name="client" value="librdkafka:2.13.2"' in (folder / "junit.xml").read_text()
    page = (folder / "report.html").read_text()
    assert line in page
    assert "<td>librdkafka of the clients</td><td>2.13.1</td>" in page


def test_a_valid_run_says_what_it_held_against_how_much_damage(tmp_path: Path) -> None:
    lines = write_report(fixture.valid(tmp_path))

    expected = "✓ VALID  No anomaly among 62 500 acknowledged records under 4 proven faults."
    assert lines[0].replace("\u202f", " ") == f"{expected} {BROKEN}"


def test_permitted_losses_are_told_first_with_what_permits_them(tmp_path: Path) -> None:
    anomalies = {
        "nonmonotonic-send": fixture.lost_write(1, permitted=True) | {"severity": 7},
        "inconsistent-offsets": fixture.lost_write(9, permitted=True) | {"severity": 4},
        "lost-write": fixture.lost_write(9, permitted=True) | {"permits": "acks=1"},
    }
    folder = fixture.build(tmp_path, verdict=fixture.verdict_document(anomalies=anomalies))

    lines = write_report(folder)

    assert lines[0] == (
        "✓ VALID  9 acknowledged records were lost, as acks=1 permits. "
        f"Also inconsistent-offsets ×9, nonmonotonic-send ×1. {BROKEN}"
    )


def test_where_only_the_order_suffered_it_is_said_first_that_nothing_was_lost(
    tmp_path: Path,
) -> None:
    polls = fixture.lost_write(3, permitted=True) | {
        "permits": "subscribing in a group",
        "phrase": "polls went back in the log",
    }
    verdict = fixture.verdict_document(anomalies={"nonmonotonic-poll": polls})

    lines = write_report(fixture.build(tmp_path, verdict=verdict))

    assert lines[0].replace("\u202f", " ") == (
        "✓ VALID  None of 62 500 acknowledged records was lost under 4 proven faults; "
        f"3 polls went back in the log, as subscribing in a group permits. {BROKEN}"
    )


def test_damage_that_was_meant_to_lose_says_so(tmp_path: Path) -> None:
    anomalies = {"lost-write": fixture.lost_write(1, permitted=True)}
    verdict = fixture.verdict_document(anomalies=anomalies)

    lines = write_report(fixture.build(tmp_path, verdict=verdict, provokes=["lost-write"]))

    assert lines[0].startswith(
        "✓ VALID  1 acknowledged record was lost, as the contract permits: "
        "this damage was meant to lose, and did."
    )


def test_an_unknown_run_says_first_which_damage_nobody_saw(tmp_path: Path) -> None:
    lines = write_report(fixture.unknown(tmp_path))

    assert lines[0].endswith(
        "Broken and seen to be: broker_kill ×2, gc_pause; without proof: partition."
    )


def test_the_time_is_told_in_one_line_of_what_took_any(tmp_path: Path) -> None:
    timing = {
        "start": 8.1,
        "heal": 0.001,
        "faults": 43.0,
        "verify": 11.9,
        "verify: draw lanes": 3.0,
    }
    folder = fixture.build(tmp_path, verdict=fixture.verdict_document(timing_s=timing))

    (took,) = [line for line in write_report(folder) if line.startswith("  took")]

    expected = "  took 63.0 s: start 8.1 s, faults 43.0 s, verify 11.9 s"
    assert took.replace("\u202f", " ") == expected


def test_the_widest_time_without_an_acknowledgement_is_named(tmp_path: Path) -> None:
    text = "\n".join(write_report(fixture.valid(tmp_path))).replace("\u202f", " ")

    assert "widest time without an acknowledgement: 4.1 s, orders/0, from 18.010 s" in text
