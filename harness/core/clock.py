"""The clock that a history's times were read from, by name."""

import platform
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def clock_name() -> str:
    """Return what names this machine's monotonic clock since it was started.

    Two processes may compare their times if, and only if, their clocks have one name: the kernel's
    id of this start of the machine, or the machine's name where the kernel has no such id.

    Source: proc(5), /proc/sys/kernel/random/boot_id; clock_gettime(2), CLOCK_MONOTONIC.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()
