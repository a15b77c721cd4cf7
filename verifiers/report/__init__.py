"""The report of a run: a page, a JUnit file and two summaries, from its folder alone."""

from pathlib import Path

from harness.core.run_dir import write_atomically
from verifiers.report.junit import write_junit
from verifiers.report.page import render
from verifiers.report.record_reading import read_record
from verifiers.report.summary import console_lines, markdown
from verifiers.run_folder.result import Report

__all__ = ["write_report"]


def write_report(run_dir: Path, *, report: Report | None = None) -> list[str]:
    """Write report.html, junit.xml and summary.md into a run folder.

    Args:
        run_dir: the folder of a run.
        report: what verdict.json says; None: it is read, if it is there.

    Returns:
        A summary of at most 25 lines of plain text.

    Raises:
        UsageError: the folder holds no run, or its verdict cannot be read.
        HistoryUnreadable: its run.json cannot be read.
    """
    record = read_record(run_dir, report=report)
    write_atomically(run_dir / "report.html", render(record))
    write_junit(record, run_dir / "junit.xml")
    write_atomically(run_dir / "summary.md", markdown(record))
    return console_lines(record)
