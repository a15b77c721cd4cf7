"""The queue of runs that are judged while the next run goes on.

During a run this machine mostly waits, so that verifying another run meanwhile costs no time. It is
done by a process that gives way: what is measured in the run must not be disturbed.
"""

import os
import signal
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
from harness.core.errors import EnvironmentBroken, KafkaChaosError
from harness.core.niceness import give_way
from harness.core.run_dir import RunDir

_NICENESS = 5
"""A third of the share of any other process: at 19, a seventieth, two busy strangers on two cores
let it stand still, and the runs behind it waited for minutes."""

T = TypeVar("T")
R = TypeVar("R")

Interpret = Callable[[RunResult, float], R]
"""Says what a judged run that took so many seconds, verification included, means."""


@dataclass(slots=True)
class JudgingQueue(Generic[T, R]):
    """Judges runs one after the other, in the order in which they were made.

    Attributes:
        master: the Spark master; None is this machine.
    """

    master: str | None = None
    _pool: Executor = field(
        default_factory=lambda: ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_prepare_process
        )
    )
    _waiting: deque[tuple[T, "Future[R]"]] = field(default_factory=deque)

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
        future = self._pool.submit(_judge, run_dir, interpret, seconds, self.master)

        def tell(judged: "Future[R]") -> None:
            if not judged.cancelled() and judged.exception() is None:
                told(judged.result())

        future.add_done_callback(tell)
        self._waiting.append((item, future))

    def finished(self, *, leave: int) -> Iterator[tuple[T, R | KafkaChaosError]]:
        """Yield what has been judged since, in the order of the runs, or why it could not be.

        Args:
            leave: how many runs may be left to be judged later; others are waited for.

        Raises:
            EnvironmentBroken: the process is no more.
        """
        while len(self._waiting) > leave or (self._waiting and self._waiting[0][1].done()):
            item, future = self._waiting.popleft()
            try:
                yield item, future.result()
            except KafkaChaosError as error:
                yield item, error
            except BrokenProcessPool as error:
                raise EnvironmentBroken(
                    "The process that verifies runs was ended from outside, for want of memory "
                    "perhaps: go on with --resume."
                ) from error

    def close(self) -> None:
        """End the process; what is left is not judged."""
        self._pool.shutdown(cancel_futures=True)


def _judge(run_dir: RunDir, interpret: Interpret[R], seconds: float, master: str | None) -> R:
    begin = time.monotonic()
    result = judge(run_dir, master=master)
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
