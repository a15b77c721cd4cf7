"""Histories written by hand, each with its story beside it, all verified in one job."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.verdict import Verdict
from verifiers.checking.checker import checkers_of_ops
from verifiers.ops.frames import FRAMES
from verifiers.ops.job import verify_histories
from verifiers.ops.judgement import HistoryVerdict, OpOptions

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.jsonl"))
MISSING = Path("nowhere.jsonl")


def expected_of(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.with_suffix(".expected.json").read_text())
    return told


def has_options(path: Path) -> bool:
    expected = expected_of(path)
    return bool(expected.get("subscribe") or expected.get("ww-deps"))


PLAIN = [path for path in HISTORIES if not has_options(path)]
WITH_OPTIONS = [path for path in HISTORIES if has_options(path)]


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession) -> Mapping[str, HistoryVerdict]:
    found = verify_histories([*PLAIN, MISSING], master="local[2]")
    assert [one.history for one in found] == [str(path) for path in [*PLAIN, MISSING]]
    options = OpOptions(subscribe=True, ww_deps=True)
    found += verify_histories(WITH_OPTIONS, options=options, master="local[2]")
    return {Path(one.history).stem: one for one in found}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_ends_as_its_story_says(
    path: Path, verdicts: Mapping[str, HistoryVerdict]
) -> None:
    expected, found = expected_of(path), verdicts[path.stem]

    counts = {name: finding.count for name, finding in found.anomalies.items()}
    assert counts == expected["anomalies"], expected["story"]
    if "problem" in expected:
        assert expected["problem"] in found.reasons[0]
        assert found.malformed
    assert found.verdict.name == expected["verdict"], found.reasons
    assert bool(found.reasons) == (found.verdict is not Verdict.VALID)


def test_every_checker_has_a_history_that_it_is_about() -> None:
    # What ok ops polled is the final read, so nothing that was read is missing there.
    planted = {name for path in HISTORIES for name in expected_of(path)["anomalies"]}

    assert planted >= set(checkers_of_ops(FRAMES)) - {"dirty-read"}


# Without writes that depend on each other, the gate holds both against a reference.
@pytest.mark.nightly
def test_a_first_look_changes_nothing_where_writes_depend_on_each_other(
    spark: SparkSession,
) -> None:
    options = OpOptions(ww_deps=True)

    looked, exactly = (
        verify_histories(HISTORIES, options=options, master="local[2]", exact=exact)
        for exact in (False, True)
    )

    for one, other in zip(looked, exactly, strict=True):
        assert {**one.to_json(), "timing_s": None} == {**other.to_json(), "timing_s": None}


def test_a_cycle_is_told_step_by_step(verdicts: Mapping[str, HistoryVerdict]) -> None:
    (cycle,) = verdicts["G1c"].to_json()["anomalies"]["G1c"]["examples"]

    assert sorted(cycle["cycle"][1:]) == [2, 3]
    assert {step["type"] for step in cycle["steps"]} == {"wr"}


def test_the_document_of_a_history(verdicts: Mapping[str, HistoryVerdict]) -> None:
    document = verdicts["lost-write"].to_json()

    assert json.loads(json.dumps(document)) == document
    assert document["verdict"] == "INVALID"
    assert document["error-types"] == ["int-poll-skip", "lost-write", "unseen"]
    assert document["bad-error-types"] == document["error-types"]
    assert document["reasons"][0] == "int-poll-skip: 1 found."
    assert document["counts"] == {
        "lines": 8, "ops": 4, "ok": 4, "fail": 0, "info": 0, "sends": 3, "acked": 3, "failed": 0,
        "indeterminate": 0, "reserved": 0, "read": 2, "final": 0,
    }  # fmt: skip
    assert document["anomalies"]["lost-write"] == {
        "count": 1,
        "permitted": False,
        "why": "never permitted",
        "examples": [
            {
                "key": "0", "value": 2, "op": 3, "index": 1, "max-read-index": 2, "max-read-op": 7,
                "writer": 3, "writer-type": "ok",
            }
        ],
    }  # fmt: skip
    (skip,) = document["anomalies"]["int-poll-skip"]["examples"]
    assert skip["skipped"] == [2]
    assert skip["values"] == [1, 3]
    assert skip["delta"] == 2


def test_ops_that_never_completed_are_counted_as_indeterminate(
    verdicts: Mapping[str, HistoryVerdict],
) -> None:
    counts = verdicts["never-completed"].to_json()["counts"]

    assert (counts["ops"], counts["info"], counts["sends"], counts["indeterminate"]) == (3, 1, 2, 1)


def test_a_file_that_is_missing_says_so_and_spoils_no_other(
    verdicts: Mapping[str, HistoryVerdict],
) -> None:
    missing = verdicts[MISSING.stem]

    assert missing.verdict is Verdict.UNKNOWN
    assert missing.malformed
    assert missing.reasons == ("nowhere.jsonl: cannot be read: No such file or directory.",)
