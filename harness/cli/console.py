"""What a person sees while a run goes on: Rich on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from harness.core.progress import Progress

_MEANING = {
    "start": "getting the cluster ready",
    "steady": "waiting for steady load",
    "faults": "injecting faults",
    "heal": "healing",
    "recover": "waiting for full in-sync replicas",
    "final": "reading every partition from beginning to end",
    "stop": "keeping what the brokers wrote",
    "verify": "verifying with Spark",
}
_COUNTS_EVERY_S = 10.0
_WIDE = 200
_STYLES = {"FORBIDDEN": "red", "INVALID": "red", "UNKNOWN": "yellow", "VALID": "green"}
"""The colour of a cell of a table, by the first of these words that it holds."""

err = Console(stderr=True, highlight=False, soft_wrap=True)
"""Everything for people goes to stderr; stdout is for the one document that was asked for."""


def say(sentence: str) -> None:
    """Print one sentence."""
    err.print(escape(sentence))


@contextmanager
def live_progress() -> Iterator[Progress]:
    """Yield a `Progress` that shows a run as it goes on.

    On a terminal the last line shows phase and counts in place; elsewhere (CI, a pipe, NO_COLOR
    terminals aside) phases are lines, and counts come every ten seconds.
    """
    if err.is_terminal and not os.environ.get("CI"):
        with Live(console=err, refresh_per_second=8, transient=True) as live:
            yield _Shown(live).progress()
    else:
        yield _Shown().progress()


class _Shown:
    """The progress of a run: on the last line of a terminal, or else line by line."""

    def __init__(self, live: Live | None = None) -> None:
        self._live = live
        self._begin = time.monotonic()
        self._phase = "start"
        self._counted = ""
        self._told_s = 0.0

    def progress(self) -> Progress:
        return Progress(phase=self._enter, say=self._say, counts=self._count)

    def _enter(self, phase: str) -> None:
        self._phase = _MEANING.get(phase, phase)
        if self._live is None:
            self._say(f"— {self._phase}")
        else:
            self._live.update(Spinner("dots", text=self._phase + self._counted))

    def _say(self, sentence: str) -> None:
        err.print(f"[dim]{time.monotonic() - self._begin:7.1f} s[/]  {escape(sentence)}")

    def _count(self, counts: dict[str, int]) -> None:
        now_s = time.monotonic() - self._begin
        self._counted = f" · {_counts(counts)}" if counts else ""
        if self._live is not None:
            self._live.update(Spinner("dots", text=self._phase + self._counted))
        elif counts and now_s - self._told_s >= _COUNTS_EVERY_S:
            self._told_s = now_s
            self._say(_counts(counts))


def _counts(counts: dict[str, int]) -> str:
    words = (("ok", "acknowledged"), ("info", "unknown"), ("fail", "refused"), ("polled", "polled"))
    return " · ".join(
        f"{counts[key]:,} {word}".replace(",", "\N{THIN SPACE}")
        for key, word in words
        if counts.get(key) or key == "ok"
    )


def print_lines(lines: Sequence[str]) -> None:
    """Print the lines of a summary."""
    for line in lines:
        err.print(escape(line))


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, to_stdout: bool = False
) -> None:
    """Print a table; off a terminal it is as wide as it needs to be.

    Args:
        heads: of the columns.
        rows: a text a column.
        to_stdout: where the table is what was asked for, and not news beside it.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=not err.is_terminal)
    for row in rows:
        table.add_row(*map(_coloured, row))
    if err.is_terminal and not to_stdout:
        err.print(table)
    else:
        Console(stderr=not to_stdout, highlight=False, width=_WIDE).print(table)


def _coloured(text: str) -> str:
    for word, style in _STYLES.items():
        if word in text:
            return f"[{style}]{escape(text)}[/]"
    return escape(text)
