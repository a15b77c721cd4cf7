"""Consumer groups whose members come and go: what their way to commit permits, and nothing else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from harness.campaigns.conduct import RunResult
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from verifiers.judging.job import verify

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

Places = set[tuple[int, int]]


def skipped(run_dir: Path) -> Places:
    """Return what lies below a committed offset and was never processed: sets, no Spark."""
    events = ds.dataset(run_dir / "history" / "event").to_table().to_pylist()
    final = ds.dataset(run_dir / "history" / "final").to_table().to_pylist()
    known: dict[int, int] = {}
    for row in events:
        if row["f"] in ("committed", "offset-fetch") and row["offset"] is not None:
            known[row["partition"]] = max(row["offset"], known.get(row["partition"], 0))
    done = {(row["partition"], row["offset"]) for row in events if row["f"] == "processed"}
    there = {(row["partition"], row["offset"]) for row in final}
    return {place for place in there - done if place[1] < known.get(place[0], 0)}


def promise(run_dir: Path, commits: str) -> None:
    """Let the members of a recorded run have promised another way to commit than they had."""
    for file in (run_dir / "history" / "event").glob("*.parquet"):
        table = pq.read_table(file)
        place = table.schema.get_field_index("detail")
        told = pc.replace_substring_regex(table["detail"], r"^before-processing ", f"{commits} ")
        joins = pc.is_in(table["f"], pa.array(["subscribe", "audit"]))
        detail = pc.if_else(joins, told, table["detail"])
        pq.write_table(table.set_column(place, table.schema.field(place), detail), file)


def died_in_hand(run_dir: Path) -> int:
    """Return how many records members had in hand, unprocessed, when they died."""
    members = RunDir.open(run_dir).lines("members.jsonl")
    return sum(line["hand"]["unprocessed"] for line in members if line.get("hand"))


def test_a_group_that_commits_first_loses_what_was_in_hand_and_no_other_may(
    run_scenario: Callable[..., RunResult], tmp_path: Path
) -> None:
    # Whether a member dies with records in hand is for the group to decide: while a broker is away
    # a member may be given nothing that it could hold. The first move of the first seed lays a
    # death in the middle of a poll, before the first fault.
    for seed in (35, 36, 37):
        outcome = run_scenario(
            "mixed",
            seed=seed,
            workload_name="consumer_group",
            workload={"commits": "before-processing", "assignor": "cooperative-sticky"},
            faults=("broker_kill",),
            duration_s=30,
        )
        path = outcome.run_dir.path
        verdict = json.loads((path / "verdict.json").read_text())
        assert outcome.verdict is Verdict.VALID, json.dumps(verdict)[:4000]
        if died_in_hand(path):
            break

    lost = skipped(path)
    assert len(lost) >= died_in_hand(path) > 0
    assert verdict["anomalies"]["consume-skip"]["count"] == len(lost)
    assert "consume-repeat" not in verdict["anomalies"]
    assert min(verdict["group"]["seen"].values()) > 0
    assert verdict["group"]["caught_up"]

    # The same history, had it promised to process everything at least once.
    copy = tmp_path / "run"
    shutil.copytree(path, copy)
    promise(copy, "after-processing")
    report = verify(copy)

    assert report.verdict is Verdict.INVALID
    assert report.anomalies["consume-skip"].kinds == {"after-processing": len(lost)}
