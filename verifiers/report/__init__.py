"""The report of a run: a page, a JUnit file and two summaries, from its folder alone."""

from pathlib import Path

from harness.core.run_dir import write_atomically
from verifiers.report.junit import write_junit
from verifiers.report.page import render
from verifiers.report.record_reading import read_record
from verifiers.report.summary import console_lines, markdown

__all__ = ["console_summary", "write_report"]


def write_report(run_dir: Path) -> Path:
    """Write report.html, junit.xml and summary.md into a run folder; return the page's path.

    Raises:
        UsageError: the folder holds no run that can be read.
    """
    record = read_record(run_dir)
    page = run_dir / "report.html"
    write_atomically(page, render(record))
    write_junit(record, run_dir / "junit.xml")
    write_atomically(run_dir / "summary.md", markdown(record))
    return page


def console_summary(run_dir: Path) -> list[str]:
    """Return the summary of a run in at most 25 lines of plain text.

    Raises:
        UsageError: the folder holds no run that can be read.
    """
    return console_lines(read_record(run_dir))
