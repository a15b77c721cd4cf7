"""Which processes are one thread: a thread whose op ends unknown goes on as another process."""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.core.grouping import by_key

MOST_PROCESSES = 2_000
"""Of a history with more, each process is taken for a thread."""


class Life(NamedTuple):
    """When a process lived: indices of its first invocation and its last completion.

    If its last op `ended` unknown, its thread could not go on under its number.
    """

    process: int
    first: int
    last: int
    ended: bool


def threads_in(ops: DataFrame) -> dict[int, int]:
    """Return how many threads each history had, by run, without those where none can tell."""
    lives = ops.groupBy("run", "process").agg(
        F.min("invoked").alias("first"),
        F.max("op").alias("last"),
        (F.max_by("type", "op") == "info").alias("ended"),
    )
    few = lives.withColumn("many", F.count("*").over(Window.partitionBy("run")))
    rows = few.where(F.col("many") <= MOST_PROCESSES).select("run", *Life._fields).collect()
    counts = {
        run: threads_of([Life(*life) for _, *life in of_run])
        for run, of_run in by_key(rows, itemgetter("run")).items()
    }
    return {run: count for run, count in counts.items() if count is not None}


def threads_of(lives: Sequence[Life]) -> int | None:
    """Return the number n of threads, if processes p, p + n, p + 2 n, … are each one thread.

    That is so if each process from n on has one n below it that ended before it began. The smallest
    such number is returned; None if no process replaced another.

    Source: a thread of Jepsen whose op ended unknown goes on as its process plus the number of
    threads.
    """
    by_process = {life.process: life for life in lives}
    if not by_process or min(by_process) < 0:
        return None
    highest = max(by_process)
    for count in sorted(highest - process for process in by_process if process < highest):
        if all(_follows(by_process, life, count) for life in lives if life.process >= count):
            return count
    return None


def _follows(by_process: dict[int, Life], life: Life, count: int) -> bool:
    before = by_process.get(life.process - count)
    return before is not None and before.ended and before.last < life.first
