"""The page and the files of a report, on synthetic run folders."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.core.errors import UsageError
from tests.unit import report_fixture as fixture
from verifiers.report import write_report

FOLDERS: dict[str, Callable[[Path], Path]] = {
    "valid": fixture.valid,
    "invalid": fixture.invalid,
    "unknown": fixture.unknown,
    "empty": fixture.empty,
}
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\x00\u202e'\"&"


def page_of(folder: Path) -> str:
    write_report(folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def tree_of(page: str) -> ElementTree.Element:
    """Parse the page as XML, strictly; styles and scripts are other languages."""
    bare = re.sub(r"<(style|script)\b[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return ElementTree.fromstring(bare.removeprefix("<!DOCTYPE html>"))  # noqa: S314 - our own page


def words_of(page: str) -> str:
    return " ".join("".join(tree_of(page).itertext()).split())


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_page_is_well_formed(kind: str, tmp_path: Path) -> None:
    page = page_of(FOLDERS[kind](tmp_path))

    assert tree_of(page).tag == "html"


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_page_fetches_nothing(kind: str, tmp_path: Path) -> None:
    page = page_of(FOLDERS[kind](tmp_path))

    assert not re.search(r"https?://|\bsrc=|@import|url\((?!#)", page)
    assert all(a.startswith("#") for a in re.findall(r'href="([^"]*)"', page))


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_link_and_pattern_within_the_page_leads_somewhere(kind: str, tmp_path: Path) -> None:
    page = page_of(FOLDERS[kind](tmp_path))

    ids = re.findall(r'\bid="([^"]+)"', page)
    wanted = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)

    assert len(ids) == len(set(ids))
    assert set(wanted) <= set(ids)


def test_the_verdict_and_its_sentence_come_first(tmp_path: Path) -> None:
    words = words_of(page_of(fixture.invalid(tmp_path)))

    head = words[words.index("✗ INVALID") :]

    assert head.startswith("✗ INVALID 3 acknowledged records were lost.")
    assert "acks=all · min.insync.replicas=2 · replication 3" in head[:250]
    assert "62 500 acknowledged · 41 unknown · 12 refused" in head.replace("\u202f", " ")[:400]


def test_a_lost_record_is_told_with_its_producer_its_place_and_the_faults_of_that_time(
    tmp_path: Path,
) -> None:
    words = words_of(page_of(fixture.invalid(tmp_path))).replace("\u202f", " ")

    assert "orders/0 offset 62 400 · producer 17 sequence 8 100 · at 18.300 s" in words
    assert "Active then: partition 3 · no leader, ISR 1 2 3." in words
    assert "complete 18.300 s, " in words


def test_a_mark_on_the_time_axis_leads_to_the_card_of_its_anomaly(tmp_path: Path) -> None:
    tree = tree_of(page_of(fixture.invalid(tmp_path)))

    links = [a for a in tree.iter("a") if a.get("href") == "#anomaly-lost-write"]

    assert ["".join(link.itertext()) for link in links] == ["3"]


def test_what_the_contract_permits_is_folded(tmp_path: Path) -> None:
    tree = tree_of(page_of(fixture.invalid(tmp_path)))

    folded = next(d for d in tree.iter("details") if d.get("id") == "permitted")

    assert folded.get("open") is None
    assert "idempotence is off." in "".join(folded.itertext())


def test_a_fault_without_proof_is_hatched_and_a_proven_one_is_solid(tmp_path: Path) -> None:
    tree = tree_of(page_of(fixture.unknown(tmp_path)))

    classes = [p.get("class", "") for p in tree.iter("path")]
    kinds = [kind for kind in classes if "fault" in kind.split()]

    assert sorted(kinds) == ["fault proven"] * 3 + ["fault unproven"]


def test_an_unknown_verdict_says_what_would_have_made_it_known(tmp_path: Path) -> None:
    words = words_of(page_of(fixture.unknown(tmp_path)))

    assert "What would have made it known" in words
    assert (
        "Fault 2, partition 3: no witness saw its effect (0 packets were dropped, "
        "probes: 1-3 answered; was the topic idle?)." in words
    )


def test_absent_parts_are_said_to_be_absent(tmp_path: Path) -> None:
    words = words_of(page_of(fixture.empty(tmp_path)))

    for part in ("verdict.json", "lanes.json", "faults.jsonl", "timeline.jsonl"):
        assert f"{part}: " in words


def test_every_change_of_leader_is_drawn_in_the_colour_of_its_broker(tmp_path: Path) -> None:
    tree = tree_of(page_of(fixture.valid(tmp_path)))

    lane = next(s for s in tree.iter("svg") if s.get("aria-label", "").endswith("orders/0"))
    runs = {p.get("class"): p.get("d", "").count("M") for p in lane.iter("path")}

    assert (runs["b1"], runs["b2"], runs["b3"]) == (1, 2, 1)


def test_a_partition_whose_leader_never_changed_is_drawn_from_end_to_end(tmp_path: Path) -> None:
    tree = tree_of(page_of(fixture.valid(tmp_path)))

    lane = next(s for s in tree.iter("svg") if s.get("aria-label", "").endswith("orders/2"))
    leader = next(p for p in lane.iter("path") if p.get("class") == "b3")

    assert leader.get("d") == "M176 0h1012v15h-1012z"


def test_the_partitions_that_were_hit_hardest_come_first(tmp_path: Path) -> None:
    page = page_of(fixture.invalid(tmp_path))

    found = re.findall(r"leader and in-sync replicas of (orders/\d)", page)

    assert found == ["orders/0", "orders/1", "orders/4", "orders/2", "orders/3", "orders/5"]


def test_hostile_text_neither_escapes_into_markup_nor_breaks_the_files(tmp_path: Path) -> None:
    verdict = fixture.verdict_document("INVALID", reasons=[HOSTILE])
    example = fixture.lost_write(1)["examples"][0] | {
        "topic": HOSTILE,
        "detail": {HOSTILE: HOSTILE},
    }
    verdict["anomalies"] = {
        HOSTILE: {"count": 1, "permitted": False, "why": HOSTILE, "examples": [example]}
    }
    verdict["checkers"] = {HOSTILE: HOSTILE}
    names = {key: HOSTILE for key in ("run", "scenario", "seed", "kafka", "command", "state")}
    folder = fixture.build(tmp_path, verdict=verdict, **names, versions={HOSTILE: HOSTILE})
    events = fixture.fault_events(HOSTILE, HOSTILE, [1], 6, 9, details={HOSTILE: HOSTILE})
    fixture.write_lines(folder / "faults.jsonl", events)
    change = fixture.changes()[0] | {"topic": HOSTILE}
    fixture.write_lines(folder / "timeline.jsonl", [change])
    fixture.write_json(folder / "plan.json", {"steps": [{"fault": HOSTILE}]})
    fixture.write_json(folder / "cluster" / "broker-1" / "effective.json", {HOSTILE: HOSTILE})

    page = page_of(folder)

    assert tree_of(page).tag == "html"
    assert not list(tree_of(page).iter("img"))
    assert page.count("</script>") == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", page)
    ElementTree.parse(folder / "junit.xml")  # noqa: S314 - our own file
    assert not re.search("[\x00-\x09\x0b-\x1f]", (folder / "summary.md").read_text("utf-8"))


def test_the_page_of_an_hour_with_many_faults_stays_below_two_megabytes(tmp_path: Path) -> None:
    folder = fixture.invalid(tmp_path)
    fixture.write_json(folder / "lanes.json", fixture.lanes_document(3600, 2000))
    faults, changes = [], []
    for n in range(180):
        start = 10.0 + 19.5 * n
        faults += fixture.fault_events(
            str(n),
            ("broker_kill", "partition")[n % 2],
            [1 + n % 3],
            start,
            start + 9,
            details=fixture.PROCESS,
        )
        for partition in range(48):
            for later, leader in ((0.2, None), (1.4, 1 + (n + partition) % 3), (14.0, 1 + n % 3)):
                changes.append(
                    {
                        "time_ns": fixture.ns(start + later),
                        "topic": "orders",
                        "partition": partition,
                        "leader": leader,
                        "isr": [1, 2, 3] if later > 9 else [1 + n % 3],
                    }
                )
    fixture.write_lines(folder / "faults.jsonl", faults)
    fixture.write_lines(folder / "timeline.jsonl", changes)

    page = page_of(folder)

    assert len(page.encode()) < 2_000_000
    assert tree_of(page).tag == "html"


@pytest.mark.parametrize(
    ("kind", "tests", "failures", "errors", "skipped"),
    [
        ("valid", 12, 0, 0, 0),
        ("invalid", 12, 2, 0, 0),
        ("unknown", 12, 0, 2, 0),
        ("empty", 1, 0, 1, 0),
    ],
)
def test_junit_counts_checkers_faults_and_the_verdict(
    kind: str, tests: int, failures: int, errors: int, skipped: int, tmp_path: Path
) -> None:
    folder = FOLDERS[kind](tmp_path)

    write_report(folder)

    suite = ElementTree.parse(folder / "junit.xml").getroot().find("testsuite")  # noqa: S314
    assert suite is not None
    counted = [int(suite.get(key, "-1")) for key in ("tests", "failures", "errors", "skipped")]
    assert counted == [tests, failures, errors, skipped]
    assert {p.get("name") for p in suite.iter("property")} >= {
        "seed",
        "kafka",
        "contract",
        "command",
    }


def test_a_checker_that_crashed_is_an_error_and_one_that_does_not_apply_is_skipped(
    tmp_path: Path,
) -> None:
    checkers = {"lost-write": "ran", "G1a": "crashed", "poll-skip": "not applicable"}
    folder = fixture.build(tmp_path, verdict=fixture.verdict_document("UNKNOWN", checkers=checkers))

    write_report(folder)

    cases = ElementTree.parse(folder / "junit.xml").getroot().iter("testcase")  # noqa: S314
    outcome = {c.get("name"): [child.tag for child in c] for c in cases}
    assert outcome["lost-write"] == []
    assert outcome["G1a"] == ["error"]
    assert outcome["poll-skip"] == ["skipped"]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run\.json"):
        write_report(tmp_path)


def test_a_burst_is_cut_off_and_says_its_rate_rather_than_flatten_the_lane(
    tmp_path: Path,
) -> None:
    folder = fixture.valid(tmp_path)
    lanes = fixture.lanes_document()
    burst = next(row for row in lanes["rows"] if row[0] >= 7.4)
    burst[1] = 1240
    fixture.write_json(folder / "lanes.json", lanes)

    tree = tree_of(page_of(folder))

    lane = next(s for s in tree.iter("svg") if s.get("aria-label") == "completed sends per second")
    texts = ["".join(text.itertext()).replace("\u202f", " ") for text in lane.iter("text")]
    assert "1 000/s" in texts
    assert any(text.endswith("/s, cut off") for text in texts)
    assert [p.get("d", "").count("M") for p in lane.iter("path") if p.get("class") == "over"] == [1]


def test_the_worst_anomaly_is_told_and_shown_first(tmp_path: Path) -> None:
    severities = {"nonmonotonic-send": 7, "odd": 9, "inconsistent-offsets": 4, "lost-write": 1}
    anomalies = {
        name: fixture.lost_write(2, permitted=True) | {"severity": severity}
        for name, severity in severities.items()
    }
    anomalies["dirty-read"] = fixture.lost_write(2) | {"severity": 2}
    verdict = fixture.verdict_document("INVALID", anomalies=anomalies)

    page = page_of(fixture.build(tmp_path, verdict=verdict))

    expected = ["dirty-read", "lost-write", "inconsistent-offsets", "nonmonotonic-send", "odd"]
    assert re.findall(r'id="anomaly-([^"]+)"', page) == expected
    assert re.findall(r'aria-label="when (\S+) occurred"', page) == expected


def test_a_line_spans_all_occurrences_and_not_only_the_examples(tmp_path: Path) -> None:
    lost = fixture.lost_write(4000) | {"first_ns": fixture.ns(18.3), "last_ns": fixture.ns(23.0)}
    verdict = fixture.verdict_document("INVALID", anomalies={"lost-write": lost})

    tree = tree_of(page_of(fixture.build(tmp_path, verdict=verdict)))

    (line,) = [p for p in tree.iter("path") if p.get("class") == "extent forbidden"]
    said = "".join(line.itertext()).replace("\u202f", " ")
    assert said == "lost-write: from 18.300 s to 23.000 s"


def test_a_damaged_verdict_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    folder = fixture.valid(tmp_path)
    (folder / "verdict.json").write_text('{"verdict": ', encoding="utf-8")

    with pytest.raises(UsageError, match=r"verdict\.json cannot be read"):
        write_report(folder)


def test_a_journal_that_was_cut_off_loses_only_its_last_line(tmp_path: Path) -> None:
    folder = fixture.valid(tmp_path)
    with (folder / "faults.jsonl").open("a", encoding="utf-8") as journal:
        journal.write('{"id": "5", "event": "deci')

    words = words_of(page_of(folder))

    assert "4 of 4 faults proven" in words
    assert "faults.jsonl: 1 unreadable line was passed over." in words


def test_a_fault_that_failed_is_told_with_its_error(tmp_path: Path) -> None:
    folder = fixture.unknown(tmp_path)
    decided = fixture.fault_events("9", "broker_kill", [], 30, 31, details={})[0]
    failed = {"id": "9", "event": "failed", "time_ns": fixture.ns(30), "error": "Nobody to hit."}
    fixture.write_lines(folder / "faults.jsonl", [decided, failed])

    words = words_of(page_of(folder))

    assert "Fault 9, broker_kill: it failed: Nobody to hit." in words
