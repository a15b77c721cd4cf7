"""The tie between a client process and the harness that started it.

The harness holds the client's stdin: the line `stop` asks it to end in order, the end of stdin
means that the harness is gone. The client says on stdout first which library it has loaded,
`{"library": {"confluent-kafka": …, "librdkafka": …}}`, then one JSON line an interval, and
`{"done": true}` last; stderr is its log.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from harness.core.errors import KafkaChaosError
from harness.core.niceness import give_way
from harness.core.wait import pause
from harness.history.recorder import Recorder
from workloads.settings import ClientSettings, read_settings

S = TypeVar("S", bound=ClientSettings)


class Control:
    """What the harness wants of this client, and what it is told in return.

    Attributes:
        stop: set when the client is to end.
        orphaned: set too when the harness is gone: nobody waits, so the end must be short.
        orders: what the harness wants beyond `stop`: JSON objects with `do`, and `order` for their
            number.
    """

    def __init__(self, interval_s: float = 1.0) -> None:
        """Begin with nothing wanted, and a line of progress every `interval_s` seconds."""
        self.stop = threading.Event()
        self.orphaned = threading.Event()
        self._interval_s = interval_s
        self.orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._next_ns = 0

    def listen(self) -> None:
        """Obey stdin from now on; a terminal's Ctrl-C is left to the harness."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A harness that does not read must not be able to stop us: lines are dropped instead.
        os.set_blocking(1, False)
        threading.Thread(target=self._obey, name="stdin", daemon=True).start()

    def report(self, recorder: Recorder, *, force: bool = False, **more: int) -> None:
        """Say how far the client is, if it is time to.

        Args:
            recorder: of its history.
            force: say it now.
            more: whatever else this kind of client counts.
        """
        now = time.monotonic_ns()
        if now < self._next_ns and not force:
            return
        self._next_ns = now + int(self._interval_s * 1e9)
        _say({"t_ns": now, **recorder.progress(), **more})

    def taken_orders(self) -> Iterator[dict[str, Any]]:
        """Take the orders that have come."""
        while not self.orders.empty():
            yield self.orders.get()

    def answer(self, reply: Mapping[str, object]) -> None:
        """Answer an order; unlike progress, an answer is not dropped while somebody may read."""
        line = memoryview(json.dumps(reply).encode() + b"\n")
        while line and not self.orphaned.is_set():
            try:
                line = line[os.write(1, line) :]
            except BlockingIOError:
                pause(0.01)

    def _obey(self) -> None:
        # Bytes from the descriptor: a buffered sys.stdin holds a lock that a dying process needs.
        pending = b""
        while chunk := os.read(0, 4096):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line.strip() == b"stop":
                    self.stop.set()
                elif (order := _order_in(line)) is not None:
                    self.orders.put(order)
                elif line.strip():
                    sys.stderr.write(f"not understood: {line[:200]!r}\n")
        self.orphaned.set()
        self.stop.set()


def _order_in(line: bytes) -> dict[str, Any] | None:
    try:
        order = json.loads(line)
    except ValueError:
        return None
    return order if isinstance(order, dict) and "do" in order and "order" in order else None


def main(run: Callable[[S, Control], None], kind: type[S], *, niceness: int = 0) -> NoReturn:
    """Run a client from the command line: `python -m MODULE SETTINGS_FILE`; never returns.

    A setting that is missing or wrong, and a history that cannot be written, end it with their
    exit codes.

    `niceness` is the client's own, beside brokers on the same machine.

    The process ends without waiting for anything: librdkafka's clean-up may wait for brokers that
    a fault has frozen, and all that matters is already on disk.
    """
    code = 0
    try:
        settings = read_settings(kind, json.loads(Path(sys.argv[1]).read_text()))
        control = Control(settings.interval_s)
        give_way(niceness)
        calm_collector()
        control.listen()
        if library := loaded_library():
            _say({"library": library})
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


def loaded_library() -> dict[str, str]:
    """Return the versions of confluent-kafka and librdkafka that this process has loaded.

    Empty in a client that has not: one that runs another program.
    """
    module = sys.modules.get("confluent_kafka")
    if module is None:
        return {}
    if stood_in_for := getattr(module, "stood_in_for", None):
        return dict(stood_in_for)
    versions = {"confluent-kafka": module.version(), "librdkafka": module.libversion()}
    # Most are a text and a number; the package's own became the text alone.
    return {name: v if isinstance(v, str) else str(v[0]) for name, v in versions.items()}


def calm_collector() -> None:
    """Let Python look for cycles rarely: clients make none, and hold many messages for a while."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _say(line: Mapping[str, object]) -> None:
    try:
        os.write(1, json.dumps(line).encode() + b"\n")
    except OSError:
        # Nobody reads: the pipe is full or closed. What matters is in the history.
        return
