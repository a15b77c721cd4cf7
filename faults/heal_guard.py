"""The guard of a fault that a command has injected: `python -m faults.heal_guard`.

The first line of its standard input says what heals, as JSON: `command`, `variables` of its
environment, and `limit_s`, the length of the lease. The next line dismisses it. If that does not
come within the lease, or whoever held the pipe is gone, the guard heals, and tries until it could.
"""

import json
import os
import select
import subprocess
import sys

from harness.core.wait import pause

_AGAIN_S = 5.0
_TRIES = 60


def main() -> None:
    """Wait to be dismissed, and heal if nobody does that."""
    order = json.loads(_line())
    ready, _, _ = select.select([sys.stdin], [], [], order["limit_s"])
    if ready and _line():
        return
    for _ in range(_TRIES):
        done = subprocess.run(  # noqa: S603 (the user's own)
            order["command"], env={**os.environ, **order["variables"]}, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode == 0:
            return
        pause(_AGAIN_S)


def _line() -> bytes:
    """Return the next line of standard input, and take nothing behind it; empty at its end."""
    read = bytearray()
    while not read.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        read += byte
    return bytes(read)


if __name__ == "__main__":
    main()
