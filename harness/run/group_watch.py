"""The witness of a consumer group: what its coordinator says of its members, again and again.

It is asked by a process of its own. librdkafka aborts a process whose question about a group runs
out of time (librdkafka issue 4605, docs/findings.md), or asks in vain for minutes after all brokers
were gone, and here brokers die all the time: then another process goes on asking.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster.admin import CLIENT_CONFIG
from harness.core.access import Access
from harness.core.wait import pause
from harness.run.watcher import Watcher

log = logging.getLogger(__name__)

_EVERY_S = 0.3
_LIMIT_S = 3.0
_AGAIN_S = 0.5
_IN_VAIN_S = 10.0
"""A client that asks in vain for so long may do so when everybody answers again: another asks."""
_SILENT_S = 30.0
"""One that asks in vain says so every few seconds: who says nothing for so long hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """What the coordinator of a group said of it.

    Attributes:
        asked_ns: when it was asked.
        answered_ns: when it answered.
        state: of the group, as Kafka names it.
        members: the partitions of each member, by its client id.
    """

    asked_ns: int
    answered_ns: int
    state: str
    members: Mapping[str, Sequence[int]]


class GroupWatch:
    """Asks for a group in a process of its own, which is begun anew when it dies, or hangs.

    Attributes:
        view: the last answer; None as long as there is none.
        deaths: how often the process had to be begun anew.
    """

    def __init__(self, access: Access, group: str) -> None:
        self.view: GroupView | None = None
        self.deaths = 0
        self._settings = json.dumps({**access.to_json(), "group": group, "in_vain_s": _IN_VAIN_S})
        self._process: subprocess.Popen[bytes] | None = None
        self._heard_s = 0.0
        self._watcher = Watcher("watch of the consumer group", self._ask_on, every_s=_AGAIN_S)
        self._watcher.start()

    @property
    def pid(self) -> int | None:
        """The process that asks; None before there is one."""
        return None if self._process is None else self._process.pid

    @property
    def failure(self) -> str | None:
        """What went wrong first, as a sentence; None if nothing did."""
        return self._watcher.failure

    def close(self) -> None:
        """End it."""
        self._watcher.stopping.set()
        if self._process is not None:
            self._process.kill()
        self._watcher.stop(limit_s=5)

    def _ask_on(self) -> None:
        """Let one process ask until it dies or is ended."""
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [sys.executable, "-m", "harness.run.group_watch", self._settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._heard_s = time.monotonic()
        with self._process:
            if self._watcher.stopping.is_set():
                self._process.kill()
            threading.Thread(
                target=self._end_if_silent, args=(self._process,), name="silence", daemon=True
            ).start()
            assert self._process.stdout is not None  # noqa: S101 (follows from PIPE above)
            self.listen(self._process.stdout)
        self.deaths += not self._watcher.stopping.is_set()

    def _end_if_silent(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and not pause(1.0, self._watcher.stopping):
            if time.monotonic() - self._heard_s > _SILENT_S:
                process.kill()

    def listen(self, lines: Iterable[bytes]) -> None:
        """Take each answer as the newest view; a line that is none is passed over."""
        for line in lines:
            self._heard_s = time.monotonic()
            if not line.strip():
                # It asked, and nobody answered.
                continue
            try:
                self.view = GroupView(**json.loads(line))
            except (ValueError, TypeError):
                # What a process leaves that is killed while it writes, or librdkafka's last words.
                log.warning("the watch of the group said %r", line)


def _ask(admin: AdminClient, group: str) -> Mapping[str, Any] | None:
    asked_ns = time.monotonic_ns()
    try:
        future = admin.describe_consumer_groups([group], request_timeout=_LIMIT_S)[group]
        described = future.result(timeout=_LIMIT_S + 1)
    except (KafkaException, TimeoutError):
        return None
    members: dict[str, list[int]] = {}
    for member in described.members:
        assigned = member.assignment.topic_partitions if member.assignment else []
        # A client that was thrown out may be there twice for a moment, under two member ids.
        members.setdefault(member.client_id, []).extend(owned.partition for owned in assigned)
    return {
        "asked_ns": asked_ns,
        "answered_ns": time.monotonic_ns(),
        "state": described.state.name,
        "members": {name: sorted(partitions) for name, partitions in members.items()},
    }


def main(settings: Mapping[str, Any]) -> NoReturn:
    """Say what the coordinator says, one JSON line an answer, until stdin ends."""
    admin = AdminClient({**CLIENT_CONFIG, **Access.read(settings).config()})
    over = threading.Event()

    def await_end() -> None:
        while os.read(0, 4096):
            pass
        over.set()

    threading.Thread(target=await_end, daemon=True).start()
    answered_s = time.monotonic()
    while not over.is_set() and time.monotonic() - answered_s < settings["in_vain_s"]:
        answer = _ask(admin, settings["group"])
        if answer is not None:
            answered_s = time.monotonic()
        sys.stdout.write(("" if answer is None else json.dumps(answer)) + "\n")
        sys.stdout.flush()
        pause(_EVERY_S, over)
    # librdkafka's clean-up may wait for brokers that a fault has frozen.
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
