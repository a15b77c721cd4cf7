"""Every checker meets every story, all of them in one job, and finds what the story says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.stories import STORIES
from tests.spark.story import Row, Story
from verifiers.checking.checker import checkers_of_runs
from verifiers.judging import job
from verifiers.judging.job import Report, verify_all
from verifiers.judging.loaded import LoadedRun, load_run


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The report on a story, and every row that was found in it."""

    report: Report
    rows: Sequence[Row]


@pytest.fixture(scope="module")
def judged(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judged]:
    """What came of all stories, by title; they were verified together."""
    folder = tmp_path_factory.mktemp("stories")
    paths = {folder / str(number): story for number, story in enumerate(STORIES)}
    for path, story in paths.items():
        story.write(path)

    def loaded(path: Path) -> LoadedRun:
        # A folder has what a timeline is made from; a story has what came of it.
        made = load_run(path)
        return replace(
            made,
            timeline=replace(made.timeline, rows={**made.timeline.rows, **paths[path].timeline}),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "load_run", loaded)
        reports = verify_all(list(paths), master="local[2]", say=lambda _: None)
    found = {}
    for report, (path, story) in zip(reports, paths.items(), strict=True):
        assert isinstance(report, Report), report
        rows = pq.read_table(path / "anomalies").to_pylist()
        found[story.title] = Judged(report=report, rows=[plain(row) for row in rows])
    return found


def plain(row: dict[str, Any]) -> Row:
    return {**row, "detail": dict(row["detail"])}


def lines(rows: Sequence[Row]) -> list[str]:
    """Return rows in an order of their own, a line each, so that two lists can be compared."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_no_two_stories_have_one_title() -> None:
    assert len({story.title for story in STORIES}) == len(STORIES)


def test_every_checker_finds_something_in_some_story() -> None:
    assert {row["anomaly"] for story in STORIES for row in story.finds} == set(checkers_of_runs())


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title.replace(" ", "-"))
def test_a_story_is_judged_as_it_says(story: Story, judged: Mapping[str, Judged]) -> None:
    outcome = judged[story.title]

    assert "crashed" not in outcome.report.checkers.values()
    assert lines(outcome.rows) == lines(story.finds), f"{story.title}: {story.why}"
    for begin in story.reasons:
        told = outcome.report.reasons
        assert any(reason.startswith(begin) for reason in told), f"{begin}: {told}"
