"""The tie between a client process and the harness that started it.

The harness holds the client's stdin: the line `stop` asks it to end in order, the end of stdin
means that the harness is gone. The client answers on stdout with one JSON line an interval, and
with `{"done": true}` last; stderr is its log.
"""

import gc
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from harness.core.errors import KafkaChaosError, UsageError
from harness.core.wait import pause

Settings = Mapping[str, Any]
"""What a client is told: JSON, checked by `setting` where it is taken out."""


class Control:
    """What the harness wants of this client, and what it is told in return.

    The optional setting `interval_s` of every client says how often: 1 s if it is not given.

    Attributes:
        stop: set when the client is to end.
        orphaned: set too when the harness is gone: nobody waits, so the end must be short.
        interval_s: seconds between two lines of progress; history is flushed twice as often.
        orders: what the harness wants beyond `stop`: JSON objects with `do`, and `order` for their
            number.
    """

    def __init__(self, interval_s: float = 1.0) -> None:
        """Begin with nothing wanted.

        Args:
            interval_s: seconds between two lines of progress.
        """
        self.stop = threading.Event()
        self.orphaned = threading.Event()
        self.interval_s = interval_s
        self.orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._next_ns = 0

    def listen(self) -> None:
        """Obey stdin from now on; a terminal's Ctrl-C is left to the harness."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A harness that does not read must not be able to stop us: lines are dropped instead.
        os.set_blocking(1, False)
        threading.Thread(target=self._obey, name="stdin", daemon=True).start()

    def progress(
        self,
        *,
        counts: Mapping[str, int],
        pending: int = 0,
        polled: int = 0,
        partitions_seen: Mapping[str, int],
        more: Mapping[str, int] | None = None,
        force: bool = False,
    ) -> None:
        """Say how far the client is, if it is time to.

        Args:
            counts: completed sends so far, by type.
            pending: sends under way.
            polled: records polled so far.
            partitions_seen: records acknowledged or polled so far, by "topic-partition".
            more: whatever else this kind of client counts.
            force: say it now.
        """
        now = time.monotonic_ns()
        if now < self._next_ns and not force:
            return
        self._next_ns = now + int(self.interval_s * 1e9)
        totals = {kind: counts.get(kind, 0) for kind in ("ok", "fail", "info")}
        line = {"t_ns": now, **totals, "pending": pending, "polled": polled, **(more or {})}
        _say({**line, "partitions_seen": dict(partitions_seen)})

    def answer(self, reply: Mapping[str, object]) -> None:
        """Answer an order; unlike progress, an answer is not dropped while somebody may read."""
        line = memoryview(json.dumps(reply).encode() + b"\n")
        while line and not self.orphaned.is_set():
            try:
                line = line[os.write(1, line) :]
            except BlockingIOError:
                pause(0.01)

    def _take_order(self, line: bytes) -> None:
        order = _decode_order(line)
        if order is None:
            sys.stderr.write(f"not understood: {line[:200]!r}\n")
        else:
            self.orders.put(order)

    def _obey(self) -> None:
        # Bytes from the descriptor: a buffered sys.stdin holds a lock that a dying process needs.
        pending = b""
        while chunk := os.read(0, 4096):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line.strip() == b"stop":
                    self.stop.set()
                elif line.strip():
                    self._take_order(line)
        self.orphaned.set()
        self.stop.set()


def _decode_order(line: bytes) -> dict[str, Any] | None:
    try:
        order = json.loads(line)
    except json.JSONDecodeError:
        return None
    return order if isinstance(order, dict) and "do" in order and "order" in order else None


def main(run: Callable[[Settings, Control], None]) -> NoReturn:
    """Run a client from the command line: `python -m MODULE SETTINGS_FILE`; never returns.

    The process ends without waiting for anything: librdkafka's clean-up may wait for brokers that
    a fault has frozen, and all that matters is already on disk.
    """
    code = 0
    try:
        settings = json.loads(Path(sys.argv[1]).read_text())
        interval_s = number({"interval_s": 1.0, **settings}, "interval_s")
        control = Control(interval_s)
        calm_collector()
        control.listen()
        run(settings, control)
        _say({"done": True})
    except KafkaChaosError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - the last frame of a process: say it, and end
        traceback.print_exc()
        code = KafkaChaosError.exit_code
    sys.stderr.flush()
    os._exit(code)


def calm_collector() -> None:
    """Let Python look for cycles rarely: clients make none, and hold many messages for a while."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def setting(settings: Settings, name: str, kind: type[Any]) -> Any:  # noqa: ANN401 - JSON value
    """Return one setting.

    Raises:
        UsageError: it is missing, or of another kind.
    """
    value = settings.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(
            f"The client's setting {name!r} is {value!r} and should be a {kind.__name__}: "
            "correct the settings file."
        )
    return value


def number(settings: Settings, name: str) -> float:
    """Return one setting that is a number.

    Raises:
        UsageError: it is missing, or no number.
    """
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"The client's setting {name!r} is {value!r} and should be a number: "
            "correct the settings file."
        )
    return float(value)


def by_partition(topic: str, counts: Counter[int]) -> dict[str, int]:
    """Return counts by partition under the names that progress lines use."""
    return {f"{topic}-{partition}": count for partition, count in sorted(counts.items())}


def _say(line: Mapping[str, object]) -> None:
    try:
        os.write(1, json.dumps(line).encode() + b"\n")
    except OSError:
        # Nobody reads: the pipe is full or closed. What matters is in the history.
        return
