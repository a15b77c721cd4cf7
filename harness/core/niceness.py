"""How much of a busy processor a process leaves to others."""

import contextlib
import os
from pathlib import Path


def give_way(niceness: int) -> None:
    """Let this process, and what it starts from now on, have less of a busy processor.

    Linux shares a processor among sessions before it shares it among processes (sched(7), "The
    autogroup feature"), and all containers together count as one of them: a process that leads a
    session lowers that too, or niceness would count among its own threads alone.

    Args:
        niceness: of a process, 0 to 19: at 5 a third of the share of others, at 10 a tenth.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        # There is no such file where the kernel has no autogroups, or no Linux at all.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(niceness))
