"""The lock under which something is made for this machine, once for all processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken, WaitTimeout
from harness.core.wait import wait_until


@contextmanager
def build_lock(name: str, *, what: str, limit_s: float) -> Iterator[None]:
    """Let one process at a time make something; the others then find it made.

    Args:
        name: of the lock's file in the cache folder.
        what: what is being made, as a noun phrase.
        limit_s: the longest wait for the process that has the lock, seconds.

    Raises:
        EnvironmentBroken: another process has the lock all that time.
    """
    with (cache_folder() / f"build-{name}.lock").open("w") as file:

        def is_locked() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            wait_until(is_locked, timeout_s=limit_s, interval_s=0.2, what="its turn")
        except WaitTimeout as error:
            raise EnvironmentBroken(
                f"Another process has been making {what} for {limit_s:g} s: end it, then try again."
            ) from error
        yield
