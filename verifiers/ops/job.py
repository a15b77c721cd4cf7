"""The verification of op histories, from their paths to their verdicts."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.core.errors import UsageError
from verifiers.ops.checking import check_histories
from verifiers.ops.judgement import HistoryVerdict, OpOptions, judge_history
from verifiers.ops.reading import read_histories
from verifiers.spark import storage
from verifiers.spark.session import in_service, open_session, tuned

_LOG = logging.getLogger(__name__)
_ROW_BYTES = 25
"""A value takes at least so many bytes of a history, with its share of the line."""


def verify_histories(
    paths: Sequence[Path | str],
    *,
    options: OpOptions | None = None,
    master: str | None = None,
    say: Callable[[str], None] | None = None,
    exact: bool = False,
    plots: Path | None = None,
) -> tuple[HistoryVerdict, ...]:
    """Return the verdicts on some op histories, in the order of their paths, from one job.

    The verdict on a file that is no op history is UNKNOWN and names the line; the other files are
    judged all the same.

    Args:
        paths: the files, JSON lines (docs/op-history.md); texts are paths or URIs.
        options: those that permit further anomalies.
        master: a Spark master; None is all cores of this machine.
        say: receives progress, in sentences.
        exact: let every checker check every key, also those that the first look clears.
        plots: a folder to draw each history into; None draws nothing.

    Raises:
        UsageError: the folder for plots cannot be made.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    tell, chosen = say or _LOG.info, options or OpOptions()
    if plots is not None:
        prepare_folder(plots)
    begin_ns = time.monotonic_ns()
    spark = open_session(master)
    started_ns = time.monotonic_ns()
    with in_service(spark), tuned(spark, rows=sum(map(_size_of, paths)) // _ROW_BYTES):
        histories = read_histories(spark, paths)
        read_ns = time.monotonic_ns()
        try:
            checked = check_histories(histories, ww_deps=chosen.ww_deps, exact=exact)
            end_ns = time.monotonic_ns()
            lengths_ns = {
                "verify": end_ns - begin_ns,
                "verify: start Spark": started_ns - begin_ns,
                "verify: read": read_ns - started_ns,
                "verify: run checkers": end_ns - read_ns,
            }
            timing_s = {name: round(length / 1e9, 3) for name, length in lengths_ns.items()}
            described = enumerate(zip(paths, histories.described, strict=True))
            verdicts = tuple(
                judge_history(str(path), run, file, checked, chosen, timing_s)
                for run, (path, file) in described
            )
            if plots is not None:
                # Importing what draws plots takes time.
                from verifiers.ops.plots.drawing import draw_plots

                draw_plots(plots, histories, checked, verdicts, tell)
        finally:
            histories.close()
    ops = sum(verdict.to_json()["counts"]["ops"] for verdict in verdicts)
    tell(f"Checked {ops:,} ops of {len(paths):,} histories with {len(checked.checkers)} checkers.")
    return verdicts


def prepare_folder(folder: Path) -> None:
    """Make the folder that plots are written into.

    Raises:
        UsageError: it cannot be made, or cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UsageError(
            f"--plots: {folder} cannot be made ({error.strerror}): name another folder."
        ) from error
    if not writable:
        raise UsageError(f"--plots: {folder} cannot be written to: name another folder.")


def _size_of(path: Path | str) -> int:
    try:
        return storage.size_bytes(storage.name_of(path))
    except OSError:
        return 0
