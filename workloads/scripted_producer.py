"""The scripted producer: sends what it is ordered to, batch by batch, and records all of it.

Settings are those of `workloads.producer`, but for `partitions`, `keyed` and `rate_per_s`: it
writes to one `partition` unless an order names another. Orders come on stdin, one JSON object a
line, each with its number as `order`:

    {"do": "send", "count": n, "order": …}           answered when every record has its outcome
    {"do": "send", "count": n, "partition": p, …}    the same to another partition
    {"do": "flow", "rate_per_s": r, "order": …}      goes on until halted; answered at once
    {"do": "halt", "order": …}                       answered with the outcome of all that flowed

The answer to a batch, one line on stdout:

    {"reply": order, "ok": [[first value, first offset or null, n], …], "fail": [[first, n], …],
     "info": [[first, n], …], "errors": {name: n}}
"""

import queue
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, Message

from harness.core.op import OpType, value_of
from harness.history.sends import SendRecorder
from workloads.control import Control, Settings, by_partition, main, number, setting
from workloads.outcome import outcome_of
from workloads.producer import Delivery, Pace, Plan, SendingProducer
from workloads.record import values_of
from workloads.recording import open_sends

_POLL_S = 0.02


@dataclass(slots=True, kw_only=True)
class Batch:
    """The records of one order, and what became of each.

    Attributes:
        order: its number.
        partition: where it goes.
        values: first value, and the one after the last, of each stretch that was sent.
        open: whether more may be sent.
        offsets: by value, the offset of what was acknowledged, None if it was not told.
        failed: values that were certainly not written.
        unknown: values of which nobody knows.
        errors: how often each error was met.
    """

    order: int
    partition: int
    values: list[range] = field(default_factory=list)
    open: bool = True
    offsets: dict[int, int | None] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """How many records were sent."""
        return sum(map(len, self.values))

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will happen to it."""
        done = len(self.offsets) + len(self.failed) + len(self.unknown)
        return not self.open and done == self.sent

    def answer(self) -> dict[str, Any]:
        """Return the answer to its order."""
        return {
            "reply": self.order,
            "ok": _runs_with_offsets(self.offsets),
            "fail": _runs(self.failed),
            "info": _runs(self.unknown),
            "errors": dict(self.errors),
        }


def _runs(values: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def _runs_with_offsets(offsets: Mapping[int, int | None]) -> list[list[int | None]]:
    runs: list[tuple[int, int | None, int]] = []
    for value, offset in sorted(offsets.items()):
        if runs:
            first, begin, count = runs[-1]
            follows = offset is None if begin is None else offset == begin + count
            if value == first + count and follows:
                runs[-1] = (first, begin, count + 1)
                continue
        runs.append((value, offset, 1))
    return [list(run) for run in runs]


class ScriptedProducer(SendingProducer):
    """A producer that knows what became of each batch."""

    def __init__(
        self, plan: Plan, recorder: SendRecorder, encode: Callable[[range], list[bytes]]
    ) -> None:
        self.batches: list[Batch] = []
        self._refusals: list[tuple[int, str]] = []
        self._single = plan.single_attempt
        super().__init__(plan, recorder, encode)

    def send_for(self, batch: Batch, count: int) -> int:
        """Send up to `count` records of a batch; return how many found room."""
        self._plan = replace(self._plan, first_partition=batch.partition)
        before = value_of(self._recorder.identity.process, self.used)
        sent = self.send(count)
        stretch = range(before, before + sent)
        if batch.values and batch.values[-1].stop == before:
            batch.values[-1] = range(batch.values[-1].start, stretch.stop)
        elif sent:
            batch.values.append(stretch)
        for value, error in self._refusals:
            batch.failed.append(value)
            batch.errors[error] += 1
        self._refusals.clear()
        return sent

    def _delivery_callback(self) -> Delivery:
        recorded = super()._delivery_callback()

        def delivered(error: KafkaError | None, message: Message) -> None:
            recorded(error, message)
            value = int(values_of([message])[0])
            batch = self._batch_of(value)
            if batch is None:
                return
            if error is None:
                offset = message.offset()
                known = offset is not None and offset >= 0
                batch.offsets[value] = offset if known else None
                return
            batch.errors[error.name()] += 1
            definite = outcome_of(error.code(), single=self._single) is OpType.FAIL
            (batch.failed if definite else batch.unknown).append(value)

        return delivered

    def _batch_of(self, value: int) -> Batch | None:
        for batch in reversed(self.batches):
            if any(value in stretch for stretch in batch.values):
                return batch
        return None

    def _refused(self, value: int, place: int, error: KafkaError) -> None:
        super()._refused(value, place, error)
        self._refusals.append((value, error.name()))

    def _rebuild(self, fatal: KafkaError) -> None:
        super()._rebuild(fatal)
        for batch in self.batches:
            known = {*batch.offsets, *batch.failed, *batch.unknown}
            given_up = [v for stretch in batch.values for v in stretch if v not in known]
            batch.unknown += given_up
            batch.errors["_FATAL"] += len(given_up)


def run(settings: Settings, control: Control) -> None:
    """Obey orders until told to stop; then wait for what is under way and close the history.

    Raises:
        KafkaChaosError: a setting is missing or wrong, or the history cannot be written.
    """
    plan = Plan(
        bootstrap=setting(settings, "bootstrap", str),
        topic=setting(settings, "topic", str),
        partitions=1,
        first_partition=setting(settings, "partition", int),
        keyed=False,
        rate_per_s=0.0,
        single_attempt=setting(settings, "single_attempt", bool),
        flush_s=number(settings, "flush_s"),
        config=setting(settings, "config", dict),
    )
    recorder, encode = open_sends(settings, control)
    producer = ScriptedProducer(plan, recorder, encode)
    _Script(producer, control, plan.first_partition).obey(recorder, plan)
    producer.finish(control)


class _Script:
    """The orders under way."""

    def __init__(self, producer: ScriptedProducer, control: Control, partition: int) -> None:
        self._producer = producer
        self._control = control
        self._partition = partition
        self._due: list[tuple[Batch, int]] = []
        self._flow: tuple[Batch, Pace] | None = None

    def obey(self, recorder: SendRecorder, plan: Plan) -> None:
        """Work until told to stop."""
        while not self._control.stop.is_set():
            self._take_orders()
            wait_s = min(_POLL_S, self._send())
            self._producer.poll(wait_s)
            self._answer()
            recorder.flush_if_due()
            self._control.progress(
                counts={kind.value: count for kind, count in recorder.counts.items()},
                pending=recorder.under_way,
                partitions_seen=by_partition(plan.topic, recorder.acked_of),
            )

    def _take_orders(self) -> None:
        while True:
            try:
                order = self._control.orders.get_nowait()
            except queue.Empty:
                return
            number_, what = int(order["order"]), order["do"]
            if what == "send":
                place = int(order.get("partition", self._partition))
                batch = Batch(order=number_, partition=place)
                self._producer.batches.append(batch)
                self._due.append((batch, int(order["count"])))
            elif what == "flow":
                batch = Batch(order=number_, partition=self._partition)
                self._producer.batches.append(batch)
                self._flow = (batch, Pace(float(order["rate_per_s"])))
            elif what == "halt" and self._flow is not None:
                batch, _ = self._flow
                # The answer to the halt is that of the flow.
                batch.order, batch.open = number_, False
                self._flow = None
            else:
                self._control.answer({"reply": number_, "error": f"not understood: {what}"})

    def _send(self) -> float:
        """Send what is due now; return how long to wait for more."""
        while self._due:
            batch, count = self._due[0]
            sent = self._producer.send_for(batch, count)
            if sent < count:
                self._due[0] = (batch, count - sent)
                return _POLL_S
            batch.open = False
            self._due.pop(0)
        if self._flow is None:
            return _POLL_S
        batch, pace = self._flow
        due, wait_s = pace.due()
        pace.sent(self._producer.send_for(batch, due))
        return wait_s

    def _answer(self) -> None:
        for batch in [batch for batch in self._producer.batches if batch.is_settled]:
            self._control.answer(batch.answer())
            self._producer.batches.remove(batch)


if __name__ == "__main__":
    main(run)
