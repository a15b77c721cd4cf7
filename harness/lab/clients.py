"""The producers and consumers of a script, and how it waits."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.core.errors import ClusterBroken, PreconditionUnmet, WaitTimeout
from harness.core.wait import wait_until
from harness.core.workload import ClientSpec, Role
from harness.run.client_process import ClientProcess
from harness.run.context import RunContext
from workloads.send_poll import FIRST_PRODUCER

WAIT_S = 60.0
"""How long a script waits for a precondition unless it says otherwise, seconds."""
POLL_S = 0.05
"""How often a condition is evaluated, seconds."""
_MOST = 100


def patient(seconds: int) -> dict[str, int]:
    """Return the settings of a producer that sends nothing again for so long.

    A leader waits for its followers for `request.timeout.ms`; librdkafka for the leader, for
    `socket.timeout.ms`, which has to be the longer one for the leader's answer to arrive.
    """
    return {"request.timeout.ms": 1000 * seconds, "socket.timeout.ms": 2000 * seconds}


def await_precondition(
    condition: Callable[[], object],
    *,
    what: str,
    timeout_s: float = WAIT_S,
    interval_s: float = POLL_S,
    stop: threading.Event | None = None,
) -> float:
    """Wait for a precondition of a script; return how long that took, seconds.

    Raises:
        PreconditionUnmet: it was not met in time, so this run shows nothing about the claim.
    """
    begin = time.monotonic()
    try:
        wait_until(condition, timeout_s=timeout_s, interval_s=interval_s, what=what, stop=stop)
    except WaitTimeout as error:
        raise PreconditionUnmet(str(error)) from error
    return time.monotonic() - begin


def start_client(
    context: RunContext, first: int, module: str, settings: Mapping[str, Any]
) -> ClientProcess:
    """Start a client under the next process number of its kind, the lowest of which is `first`."""
    taken = [client.spec.process for client in context.clients]
    process = max([p + 1 for p in taken if first <= p < first + _MOST], default=first)
    role: Role = "producer" if first == FIRST_PRODUCER else "consumer"
    spec = ClientSpec(process=process, role=role, module=module, settings=settings)
    (client,) = context.start_clients([spec])
    return client


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The outcome of the records that a script sent at once.

    Attributes:
        name: as in the script.
        acked: how many were acknowledged.
        failed: how many were certainly not written.
        unknown: how many have an indeterminate outcome.
        errors: how often the producer met each error.
        first_offset: the lowest offset acknowledged; None if no acknowledgement had an offset.
        end_offset: the highest offset acknowledged + 1; None as above.
    """

    name: str
    acked: int
    failed: int
    unknown: int
    errors: dict[str, int] = field(default_factory=dict)
    first_offset: int | None = None
    end_offset: int | None = None


class PendingBatch:
    """A batch whose records do not all have an outcome yet."""

    def __init__(
        self,
        name: str,
        client: ClientProcess,
        order: int,
        note: Callable[[dict[str, Any]], None],
        *,
        begun_ns: int | None = None,
    ) -> None:
        self.name = name
        self._client = client
        self._order = order
        self._note = note
        self._begun_ns = time.monotonic_ns() if begun_ns is None else begun_ns

    @property
    def is_settled(self) -> bool:
        """Whether every record has an outcome, be it that it is indeterminate."""
        return self._client.reply(self._order) is not None

    def settle(self, *, timeout_s: float = WAIT_S) -> Batch:
        """Wait until every record has its outcome, and return the batch.

        Raises:
            WaitTimeout: they have not.
        """

        def answered() -> dict[str, Any] | None:
            if failure := self._client.failure():
                raise ClusterBroken(failure)
            return self._client.reply(self._order)

        answer = wait_until(
            answered, timeout_s=timeout_s, interval_s=POLL_S, what=f"the batch {self.name!r}"
        )
        begun = {"begun_ns": self._begun_ns}
        self._note({"event": "batch", "name": self.name, **begun, **answer})
        acked = [(first, count) for _, first, count in answer["ok"] if first is not None]
        return Batch(
            name=self.name,
            acked=sum(count for *_, count in answer["ok"]),
            failed=sum(count for _, count in answer["fail"]),
            unknown=sum(count for _, count in answer["info"]),
            errors=answer["errors"],
            first_offset=min((first for first, _ in acked), default=None),
            end_offset=max((first + count for first, count in acked), default=None),
        )


class LabProducer:
    """A producer of a script, in a process of its own."""

    def __init__(
        self,
        client: ClientProcess,
        note: Callable[[dict[str, Any]], None],
        before: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._note = note
        self._before = before
        self._flow, self._flows_since_ns = "flow", 0

    @property
    def acked(self) -> int:
        """How many records were acknowledged, as of about a second ago."""
        return int(self._client.counts.get("ok", 0))

    def begin(self, name: str, count: int, *, partition: int | None = None) -> PendingBatch:
        """Send records to the producer's own partition, or to another; return at once."""
        self._before(f"send {count} records, {name!r}")
        elsewhere = {} if partition is None else {"partition": partition}
        order = self._client.order({"do": "send", "count": count, **elsewhere})
        return PendingBatch(name, self._client, order, self._note)

    def send(self, name: str, count: int, *, timeout_s: float = WAIT_S) -> Batch:
        """Send records and wait for their outcome."""
        return self.begin(name, count).settle(timeout_s=timeout_s)

    def flow(self, name: str, rate_per_s: float) -> "LabProducer":
        """Send records at a rate until `halt`; return this producer."""
        self._before(f"send {rate_per_s:g} records a second, {name!r}")
        self._flow, self._flows_since_ns = name, time.monotonic_ns()
        self._client.order({"do": "flow", "rate_per_s": rate_per_s})
        return self

    def halt(self) -> PendingBatch:
        """End the flow; records that were sent still get their outcome."""
        order = self._client.order({"do": "halt"})
        return PendingBatch(
            self._flow, self._client, order, self._note, begun_ns=self._flows_since_ns
        )


class LabConsumer:
    """A consumer of a script that reads one partition from its beginning."""

    def __init__(self, client: ClientProcess) -> None:
        self._client = client

    @property
    def polled(self) -> int:
        """How many records its polls have returned, as of about a second ago."""
        return int(self._client.counts.get("polled", 0))

    def await_polled(self, count: int) -> None:
        """Wait until its polls have returned `count` records.

        Raises:
            WaitTimeout: they have not.
        """
        wait_until(lambda: self.polled >= count, timeout_s=WAIT_S, what=f"{count} records polled")
