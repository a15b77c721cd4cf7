"""The verification of run folders, from their paths to their verdicts."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from harness.core.errors import (
    EnvironmentBroken,
    HistoryUnreadable,
    KafkaChaosError,
    UsageError,
)
from harness.core.grouping import by_key
from harness.core.progress import Say
from verifiers.judging.loaded import LoadedRun, load_run
from verifiers.judging.verification import Context, Stopwatch, Verification
from verifiers.run_folder.gathering import gather
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.member import Member, most_members, span_of
from verifiers.run_folder.result import Report, write_verdict
from verifiers.spark import storage
from verifiers.spark.hadoop import reject_unknown
from verifiers.spark.session import FEW_ROWS, is_local, open_session

__all__ = ["Report", "verify", "verify_all", "write_verdict"]

_LOG = logging.getLogger(__name__)

_MOST_ROWS = 20_000_000
"""One job gathers short runs up to so many rows; further runs go into the next job."""


def verify(
    run_dir: Path,
    *,
    master: str | None = None,
    say: Say | None = None,
    exact: bool = False,
) -> Report:
    """Verify a run, write `anomalies/` and `lanes.json` into its folder, and return its verdict.

    May be called again on the same folder, on any machine that has it.

    Args:
        run_dir: the folder of a run; its raw history is sealed first if it is not.
        master: a Spark master; None is all cores of this machine.
        say: receives progress, in sentences.
        exact: compare every record, also in a long history whose digests agree
            (scanning/digests.py). The verdict is the same.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: what was recorded is damaged; the message names the file.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    (report,) = verify_all([run_dir], master=master, say=say, exact=exact)
    if isinstance(report, KafkaChaosError):
        raise report
    return report


def verify_all(
    run_dirs: Sequence[Path],
    *,
    master: str | None = None,
    say: Say | None = None,
    exact: bool = False,
) -> tuple[Report | KafkaChaosError, ...]:
    """Return the verdicts on several runs, in their order; arguments are those of `verify`.

    Short runs share one job (run_folder/gathering.py); each long run has a job of its own.

    Returns:
        For a folder that cannot be judged, the error; the other folders are judged all the same.

    Raises:
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    tell = say or _LOG.info
    found: dict[int, Report | KafkaChaosError] = {}
    ready: dict[int, LoadedRun] = {}
    for number, run_dir in enumerate(run_dirs):
        try:
            ready[number] = load_run(run_dir)
        except EnvironmentBroken:
            raise
        except KafkaChaosError as error:
            found[number] = error
    if ready:
        stopwatch = Stopwatch()
        with stopwatch("verify: start Spark"):
            spark = open_session(master)
            for number, loaded in ready.items():
                if (why := _unseen(spark, loaded)) is not None:
                    found[number] = why
        ready = {number: loaded for number, loaded in ready.items() if number not in found}
        for numbers in _jobs(spark, ready):
            runs = [ready[number] for number in numbers]
            judged = _judge(spark, runs, tell, Stopwatch(stopwatch), exact=exact)
            found |= dict(zip(numbers, judged, strict=True))
    return tuple(found[number] for number in range(len(run_dirs)))


def _unseen(spark: SparkSession, loaded: LoadedRun) -> UsageError | None:
    """Return why the tasks of a session cannot read a run; None if they can.

    Raises:
        EnvironmentBroken: Spark itself cannot.
    """
    home = LargeFiles.of(loaded.run.path).home
    reject_unknown(spark, home)
    if is_local(spark) or storage.opens_in_tasks(home) or not loaded.copied.replicas:
        return None
    return UsageError(
        f"The replicas of {home} cannot be read by the tasks of a cluster, which open hdfs, s3 and "
        "shared disks: copy the run there, or judge it without --master."
    )


def _jobs(spark: SparkSession, ready: Mapping[int, LoadedRun]) -> Iterator[list[int]]:
    """Yield the numbers of the runs that are verified together.

    The workers of a cluster leave what belongs to a run on its storage: so runs of several storages
    are not verified together there.
    """

    def root(number: int) -> str:
        home = LargeFiles.of(ready[number].run.path).home
        return "" if is_local(spark) else storage.root_of(home)

    for numbers in by_key(ready, root).values():
        yield from _jobs_among({number: ready[number] for number in numbers})


def _jobs_among(ready: Mapping[int, LoadedRun]) -> Iterator[list[int]]:
    short: list[int] = []
    rows = processes = 0
    for number, loaded in ready.items():
        if loaded.history.rows >= FEW_ROWS:
            yield [number]
            continue
        most = most_members(span_of(max(processes, loaded.history.processes)))
        if short and (rows + loaded.history.rows > _MOST_ROWS or len(short) >= most):
            yield short
            short, rows, processes = [], 0, 0
        short.append(number)
        rows += loaded.history.rows
        processes = max(processes, loaded.history.processes)
    if short:
        yield short


def _judge(
    spark: SparkSession, runs: Sequence[LoadedRun], tell: Say, stopwatch: Stopwatch, *, exact: bool
) -> Sequence[Report | KafkaChaosError]:
    """Return the verdicts on runs that are verified together, in their order."""
    with stopwatch("verify"), _scratch(spark, runs[0].run.path) as scratch:
        context = Context(spark=spark, scratch=scratch, tell=tell, stopwatch=stopwatch, exact=exact)
        judge = _judge_several if len(runs) > 1 else _judge_one
        try:
            judged = judge(runs, context)
        except HistoryUnreadable as error:
            judged = [error] * len(runs)
    return [
        replace(report, timing_s={**report.timing_s, **stopwatch})
        if isinstance(report, Report)
        else report
        for report in judged
    ]


@contextmanager
def _scratch(spark: SparkSession, run_dir: Path) -> Iterator[str]:
    """Give the name of a folder that all workers see, as long as it is needed."""
    if is_local(spark):
        with TemporaryDirectory(prefix=".verify-", dir=run_dir) as here:
            yield here
        return
    # The workers of a Spark cluster can read the folder of a run, so scratch files lie there too.
    folder = storage.unused(LargeFiles.of(run_dir).home, ".verify", "")
    storage.make_folder(folder)
    try:
        yield folder
    finally:
        storage.remove(folder)


def _judge_one(runs: Sequence[LoadedRun], context: Context) -> Sequence[Report | KafkaChaosError]:
    (ready,) = runs
    path = ready.run.path
    home = str(path) if is_local(context.spark) else LargeFiles.of(path).home
    return Verification(
        members={Member(run=ready.run): ready},
        files=ready.history.files,
        batches=storage.join(home, "replicas", "batches"),
        context=context,
    ).reports()


def _judge_several(
    runs: Sequence[LoadedRun], context: Context
) -> Sequence[Report | KafkaChaosError]:
    span = span_of(max(run.history.processes for run in runs))
    members = [Member(run=run.run, number=number, span=span) for number, run in enumerate(runs)]
    context.tell(f"Gathering {len(runs)} runs into one job.")
    with context.stopwatch("verify: gather"):
        histories = [(member, runs[member.number].history.files) for member in members]
        files, failures = gather(histories, storage.join(context.scratch, "history"))
    sound = [member for member in members if member.number not in failures]
    found: dict[int, Report | KafkaChaosError] = {**failures}
    if sound:
        reports = Verification(
            members={member: runs[member.number] for member in sound},
            files=files,
            batches=storage.join(context.scratch, "batches"),
            context=context,
        ).reports()
        found |= {member.number: report for member, report in zip(sound, reports, strict=True)}
    return [found[number] for number in range(len(runs))]
