"""A run from its beginning to its report: run it, verify what was recorded, judge it."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import HistoryUnreadable, KafkaChaosError
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from verifiers.judging.job import Report, verify_all, write_verdict
from verifiers.report import write_report
from verifiers.run_folder.remote import publish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that was judged: its folder, its report, and the lines that sum it up."""

    run_dir: RunDir
    report: Report
    summary: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.report.verdict


def conduct(runner: Runner, *, master: str | None = None) -> RunResult:
    """Run a scenario, verify what was recorded, and write its report.

    Raises:
        UsageError: there is no such version of Kafka, or of the client; nothing was started, no
            folder made.
        KafkaChaosError: the run could not be made; what was recorded until then lies in its
            folder, sealed, and can be verified.
    """
    return judge(runner.execute(), master=master, progress=runner.progress)


def judge(
    run_dir: RunDir,
    *,
    master: str | None = None,
    progress: Progress | None = None,
    exact: bool = False,
) -> RunResult:
    """Verify a run folder and write its verdict and report; arguments as for `judge_all`.

    Raises:
        HistoryUnreadable: the history is damaged.
    """
    (result,) = judge_all([run_dir], master=master, progress=progress, exact=exact)
    if isinstance(result, KafkaChaosError):
        raise result
    return result


def judge_all(
    run_dirs: Sequence[RunDir],
    *,
    master: str | None = None,
    progress: Progress | None = None,
    exact: bool = False,
) -> tuple[RunResult | KafkaChaosError, ...]:
    """Verify run folders together; write the verdict and the report of each.

    Args:
        run_dirs: the folders; of runs on another storage, those of the files fetched from there
            (`verifiers.run_folder.remote`). What comes of them is stored there too.
        master: a Spark master; None is this machine.
        progress: is told what is being done.
        exact: look at every record, however long a history is.

    Returns:
        What came of each; for a folder that cannot be judged, why.
    """
    progress = progress or Progress()
    progress.phase("verify")
    begin_ns = time.monotonic_ns()
    # Verified without its history, a pruned run would lose the verdict that it has.
    pruned = {run_dir: error for run_dir in run_dirs if (error := _why_pruned(run_dir))}
    paths = [run_dir.path for run_dir in run_dirs if run_dir not in pruned]
    reports = iter(verify_all(paths, master=master, say=progress.say, exact=exact) if paths else ())
    log.info("verified in %.1f s", (time.monotonic_ns() - begin_ns) / 1e9)
    results: list[RunResult | KafkaChaosError] = []
    for run_dir in run_dirs:
        report = pruned[run_dir] if run_dir in pruned else next(reports)
        if isinstance(report, KafkaChaosError):
            results.append(report)
            continue
        write_verdict(run_dir.path, report)
        summary = write_report(run_dir.path, report=report)
        publish(run_dir.path)
        results.append(RunResult(run_dir=run_dir, report=report, summary=summary))
    return tuple(results)


def _why_pruned(run_dir: RunDir) -> HistoryUnreadable | None:
    """Return why a run has no history any more; None if it was not pruned, or nobody can say."""
    try:
        reason = run_dir.why_pruned()
    except HistoryUnreadable:
        return None
    return HistoryUnreadable(reason) if reason else None
