"""The queue of runs that are judged while the next run goes on.

During a run this machine mostly waits, so that verifying another run meanwhile costs no time. It is
done by a process that gives way: what is measured in the run must not be disturbed.
"""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from typing import Generic, TypeVar

from harness.campaigns.conduct import RunResult, judge
from harness.core.errors import EnvironmentBroken, KafkaChaosError, SparkEnded
from harness.core.niceness import give_way
from harness.core.run_dir import RunDir

_NICENESS = 5
"""A third of the share of any other process: at 19, a seventieth, two busy strangers on two cores
let it stand still, and the runs behind it waited for minutes."""

_TRIES = 2
"""So many processes begin to judge a run before it is left without a verdict."""

T = TypeVar("T")
R = TypeVar("R")

Interpret = Callable[[RunResult, float], R]
"""Says what a judged run that took so many seconds, verification included, means."""


def _process() -> Executor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_prepare_process)


@dataclass(slots=True)
class _Waiting(Generic[T, R]):
    """A run that is to be judged.

    Attributes:
        item: returned with the result.
        submit: has an executor judge it.
        future: of the result.
        tries: how often it was begun.
    """

    item: T
    submit: Callable[[Executor], "Future[R]"]
    future: "Future[R]"
    tries: int = 1


@dataclass(slots=True)
class JudgingQueue(Generic[T, R]):
    """Judges runs one after the other, in the order in which they were made.

    Attributes:
        master: the Spark master; None is this machine.
        start: starts the process that judges, and another one if it has ended.
    """

    master: str | None = None
    start: Callable[[], Executor] = _process
    _pool: Executor = field(init=False)
    _waiting: deque[_Waiting[T, R]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Start the process."""
        self._pool = self.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        item: T,
        run_dir: RunDir,
        interpret: Interpret[R],
        *,
        seconds: float,
        told: Callable[[R], None] = lambda _: None,
    ) -> None:
        """Have a run judged.

        Args:
            item: returned with the result.
            run_dir: the folder of the run.
            interpret: makes the result; it is sent to the other process.
            seconds: how long the run took.
            told: called with the result in another thread, as soon as there is one.
        """

        def tell(judged: "Future[R]") -> None:
            if not judged.cancelled() and judged.exception() is None:
                told(judged.result())

        def submit(pool: Executor) -> "Future[R]":
            future = pool.submit(_judge, run_dir, interpret, seconds, self.master)
            future.add_done_callback(tell)
            return future

        try:
            future = submit(self._pool)
        except BrokenProcessPool:
            self._start_again()
            future = submit(self._pool)
        self._waiting.append(_Waiting(item=item, submit=submit, future=future))

    def finished(self, *, leave: int) -> Iterator[tuple[T, R | KafkaChaosError]]:
        """Yield what has been judged since, in the order of the runs, or why it could not be.

        A run whose judging the process did not outlive is judged once more, by another process.

        Args:
            leave: how many runs may be left to be judged later; others are waited for.
        """
        while len(self._waiting) > leave or (self._waiting and self._waiting[0].future.done()):
            first = self._waiting[0]
            result: R | KafkaChaosError
            try:
                result = first.future.result()
            except BrokenProcessPool:
                if first.tries < _TRIES:
                    self._start_again()
                    first.tries += 1
                    continue
                result = EnvironmentBroken(
                    f"The process that verifies runs ended {_TRIES} times while it verified this "
                    "one, for want of memory perhaps: `kafka-chaos verify` judges it."
                )
            except KafkaChaosError as error:
                result = error
            self._waiting.popleft()
            yield first.item, result

    def _start_again(self) -> None:
        """Start another process for what the last one, which has ended, has not judged."""
        self._pool.shutdown(wait=False)
        self._pool = self.start()
        for each in self._waiting:
            if isinstance(each.future.exception(), BrokenProcessPool):
                each.future = each.submit(self._pool)

    def close(self) -> None:
        """End the process; what is left is not judged."""
        self._pool.shutdown(cancel_futures=True)


def _judge(run_dir: RunDir, interpret: Interpret[R], seconds: float, master: str | None) -> R:
    begin = time.monotonic()
    try:
        result = judge(run_dir, master=master)
    except SparkEnded as error:
        sys.stderr.write(f"{run_dir.name}: {error}\n")
        sys.stderr.flush()
        # This process can verify nothing any more; the queue starts another one.
        os._exit(1)
    return interpret(result, seconds + time.monotonic() - begin)


def _prepare_process() -> None:
    """Give way to all other processes, leave Ctrl-C to the parent, and end when the parent does."""
    os.setsid()
    give_way(_NICENESS)
    # The parent waits for the run that is being judged.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        # Spark's JVM ends when its standard input does.
        os._exit(1)
