"""Kafka's own VerifiableConsumer as a member of a group: its output, turned into a history.

The Java consumer's automatic commit is another one than librdkafka's: within a poll it commits the
position that the polls before have reached, so what a single-threaded loop has in hand is never
committed. This client runs Kafka's VerifiableConsumer with `--verbose --enable-autocommit`
by a command that it is told, and takes each record that it prints as processed: to print is all
that it does with one.

There are no polls in its history: the tool prints values as text, which ours are not. Orders:

    {"do": "held", "order": …}    answered when its output is no longer read, or has ended:
                                  {"reply": order, "processed": n, "in_poll": bool}, which tells
                                  whether a poll had been printed in part only
    {"do": "go", "order": …}      answered likewise when the output has been read to its end
"""

import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from harness.history.recorder import Recorder
from workloads.control import Control, main
from workloads.settings import ClientSettings

COMMITS = "auto-polled"
"""How it commits, as the checkers know it."""

_TURN_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings(ClientSettings):
    """What the client is told.

    Attributes:
        command: what to run; its output is one JSON object a line.
        group: the group that it joins.
        stall_after: after how many records nothing more of its output is read: its pipe fills up,
            and it stands still in the middle of a poll's records, until told to go on.
    """

    command: list[str]
    group: str
    stall_after: int | None = None


class Output:
    """What the tool prints, read by a thread of its own until it is to stand still."""

    def __init__(self, lines: IO[bytes], *, stall_after: int | None) -> None:
        self.entries: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self.stalled = threading.Event()
        self.ended = threading.Event()
        self._go = threading.Event()
        self._stall_after = stall_after
        threading.Thread(target=self._read, args=(lines,), name="output", daemon=True).start()

    def go(self) -> None:
        """Read on to the end."""
        self._go.set()

    def _read(self, lines: IO[bytes]) -> None:
        records = 0
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                # A killed process ends in the middle of a line; what it says else is for people.
                continue
            if not isinstance(entry, dict):
                continue
            self.entries.put(entry)
            records += entry.get("name") == "record_data"
            if records == self._stall_after and not self._go.is_set():
                self.stalled.set()
                self._go.wait()
        self.ended.set()


def run(settings: ToolSettings, control: Control) -> None:
    """Run the tool and record what it does, until told to stop or until it has ended."""
    recorder = settings.begin_polls("consumer")
    recorder.event("subscribe", topic=settings.topic, detail=f"{COMMITS} {settings.group}")
    recorder.flush()
    tool = subprocess.Popen(  # noqa: S603 (the harness wrote the command)
        settings.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert tool.stdout is not None  # noqa: S101 (follows from PIPE)
    output = Output(tool.stdout, stall_after=settings.stall_after)
    _Translation(control, output, recorder, settings.topic).obey()
    tool.kill()
    recorder.close()


class _Translation:
    """The tool's output under way, and the rows that it becomes."""

    def __init__(self, control: Control, output: Output, recorder: Recorder, topic: str) -> None:
        self._control = control
        self._output = output
        self._recorder = recorder
        self._topic = topic
        self._waiting: list[Mapping[str, Any]] = []
        self._processed = 0
        self._in_poll = False
        self._rebalances = 0

    def obey(self) -> None:
        """Record and answer until told to stop."""
        while not self._control.stop.is_set():
            ended = self._output.ended.is_set()
            stalled = self._output.stalled.is_set()
            drained = self._drain()
            self._recorder.flush()
            for order in self._control.taken_orders():
                if order["do"] == "go":
                    self._output.go()
                self._waiting.append(order)
            if drained:
                self._answer(ended=ended, stalled=stalled)
            self._control.report(
                self._recorder, processed=self._processed, rebalances=self._rebalances
            )

    def _take(self, entry: Mapping[str, Any]) -> None:
        """Record one line."""
        name = entry.get("name")
        if name in ("record_data", "records_consumed"):
            # The sum comes after the records of a poll, and before the next poll.
            self._in_poll = name == "record_data"
        if name == "record_data":
            self._event("processed", entry["partition"], offset=entry["offset"])
            self._processed += 1
        elif name in ("partitions_assigned", "partitions_revoked"):
            what = str(name).removeprefix("partitions_")
            for place in entry["partitions"]:
                self._event("rebalance", place["partition"], detail=what)
            self._rebalances += 1
        elif name == "offsets_committed" and not entry["success"]:
            self._recorder.event("error", detail=f"commit: {entry.get('error')}")

    def _event(
        self, f: str, partition: int, *, offset: int | None = None, detail: str = ""
    ) -> None:
        self._recorder.event(
            f, topic=self._topic, partition=partition, offset=offset, detail=detail or None
        )

    def _drain(self) -> bool:
        """Record what has been read; return whether that was all there was."""
        try:
            self._take(self._output.entries.get(timeout=_TURN_S))
            while True:
                self._take(self._output.entries.get_nowait())
        except queue.Empty:
            return True

    def _answer(self, *, ended: bool, stalled: bool) -> None:
        for order in list(self._waiting):
            if ended or (stalled and order["do"] == "held"):
                self._waiting.remove(order)
                self._control.answer(
                    {
                        "reply": order["order"],
                        "processed": self._processed,
                        "in_poll": self._in_poll,
                    }
                )


if __name__ == "__main__":
    main(run, ToolSettings)
