"""The backlog: runs of claims that are judged behind the run that is under way.

A cluster mostly waits, and what a verifier computes in the meantime costs no time. It is a process
of its own, of the lowest priority: what is measured under way must not feel it.
"""

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process

from harness.campaigns.claim_result import Trial, failed_trial, judge_trial
from harness.core.errors import EnvironmentBroken, KafkaChaosError
from harness.core.run_dir import RunDir
from harness.lab.claim_run import ClaimRun

log = logging.getLogger(__name__)

_NICEST = 19


@dataclass(slots=True)
class Backlog:
    """Judges runs one after the other, in the order in which they were made.

    Attributes:
        master: Spark master.
    """

    master: str | None = None
    _pool: ProcessPoolExecutor = field(
        default_factory=lambda: ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_stand_back
        )
    )
    _waiting: deque[tuple[ClaimRun, float, "Future[Trial]"]] = field(default_factory=deque)

    def add(self, cell: ClaimRun, run_dir: RunDir, *, seconds: float) -> None:
        """Have a run judged.

        Args:
            cell: which claim, on which version.
            run_dir: its folder.
            seconds: how long the run took.
        """
        judged = self._pool.submit(
            judge_trial, run_dir.path, cell.name, seconds=seconds, master=self.master
        )
        self._waiting.append((cell, seconds, judged))

    def finished(self, *, wait: bool = False) -> Iterator[Trial]:
        """Yield what has been judged since, in the order of the runs.

        Args:
            wait: whether to wait for all that is left.
        """
        while self._waiting and (wait or self._waiting[0][2].done()):
            cell, seconds, judged = self._waiting.popleft()
            try:
                yield judged.result()
            except KafkaChaosError as error:
                log.warning("%s on %s could not be judged: %s", cell.name, cell.kafka, error)
                yield failed_trial(cell, error, seconds=seconds, was_run=True)
            except BrokenProcessPool as error:
                raise EnvironmentBroken(
                    "The process that verifies runs was ended from outside, for want of memory "
                    "perhaps: go on with --resume."
                ) from error

    def close(self) -> None:
        """End the process; what is left is not judged."""
        self._pool.shutdown(cancel_futures=True)


def _stand_back() -> None:
    """Prepare the process: it gives way to all others, and goes when its parent is gone."""
    os.nice(_NICEST)
    # Who interrupts means the matrix, which then waits for what is under way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        # Spark's JVM ends when its standard input does.
        os._exit(1)
