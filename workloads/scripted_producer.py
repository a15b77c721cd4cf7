"""The scripted producer: sends what it is ordered to, batch by batch, and records all of it.

It writes to the first partition of its settings unless an order names another. Orders come on
stdin, one JSON object a line, each with its number as `order`:

    {"do": "send", "count": n, "order": …}           answered when every record has its outcome
    {"do": "send", "count": n, "partition": p, …}    the same to another partition
    {"do": "flow", "rate_per_s": r, "order": …}      goes on until halted; answered at once
    {"do": "halt", "order": …}                       answered with the outcome of all that flowed

The answer to a batch, one line on stdout:

    {"reply": order, "ok": [[first value, first offset or null, n], …], "fail": [[first, n], …],
     "info": [[first, n], …], "errors": {name: n}}
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, Message

from harness.core.op import OpType, value_of
from workloads.control import Control, main
from workloads.outcome import outcome_of
from workloads.producer import Delivery, Pace, ProducerSettings, SendingProducer
from workloads.record import values_of

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
            "ok": _runs(self.offsets),
            "fail": [(first, count) for first, _, count in _runs(dict.fromkeys(self.failed))],
            "info": [(first, count) for first, _, count in _runs(dict.fromkeys(self.unknown))],
            "errors": dict(self.errors),
        }


def _runs(offsets: Mapping[int, int | None]) -> list[tuple[int, int | None, int]]:
    """Return the stretches in which values, and offsets where they are known, rise by one."""
    runs: list[tuple[int, int | None, int]] = []
    for value, offset in sorted(offsets.items()):
        if runs:
            first, begin, count = runs[-1]
            follows = offset is None if begin is None else offset == begin + count
            if value == first + count and follows:
                runs[-1] = (first, begin, count + 1)
                continue
        runs.append((value, offset, 1))
    return runs


class ScriptedProducer(SendingProducer):
    """A producer that obeys orders, and knows what became of each batch."""

    def __init__(self, settings: ProducerSettings, control: Control) -> None:
        self._control = control
        self._partition = settings.first_partition
        self._batches: list[Batch] = []
        self._due: list[tuple[Batch, int]] = []
        self._flow: tuple[Batch, Pace] | None = None
        self._refusals: list[tuple[int, str]] = []
        super().__init__(replace(settings, partitions=1))

    def _send_for(self, batch: Batch, count: int) -> int:
        """Send up to `count` records of a batch; return how many found room."""
        self._settings = replace(self._settings, first_partition=batch.partition)
        before = value_of(self._settings.process, self.used)
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
            definite = outcome_of(error.code(), single=self._settings.single_attempt) is OpType.FAIL
            (batch.failed if definite else batch.unknown).append(value)

        return delivered

    def _batch_of(self, value: int) -> Batch | None:
        for batch in reversed(self._batches):
            if any(value in stretch for stretch in batch.values):
                return batch
        return None

    def _refused(self, value: int, place: int, error: KafkaError) -> None:
        super()._refused(value, place, error)
        self._refusals.append((value, error.name()))

    def _rebuild(self, fatal: KafkaError) -> None:
        super()._rebuild(fatal)
        for batch in self._batches:
            known = {*batch.offsets, *batch.failed, *batch.unknown}
            given_up = [v for stretch in batch.values for v in stretch if v not in known]
            batch.unknown += given_up
            batch.errors["_FATAL"] += len(given_up)

    def obey(self) -> None:
        """Work until told to stop."""
        while not self._control.stop.is_set():
            for order in self._control.taken_orders():
                self._take(order)
            self.poll(min(_POLL_S, self._send_due()))
            self._answer()
            self.recorder.flush_if_due()
            self._control.report(self.recorder)

    def _take(self, order: Mapping[str, Any]) -> None:
        number, what = int(order["order"]), order["do"]
        if what in ("send", "flow"):
            partition = int(order.get("partition", self._partition))
            batch = Batch(order=number, partition=partition)
            self._batches.append(batch)
            if what == "send":
                self._due.append((batch, int(order["count"])))
            else:
                self._flow = (batch, Pace(float(order["rate_per_s"])))
        elif what == "halt" and self._flow is not None:
            batch, _ = self._flow
            # The answer to the halt is that of the flow.
            batch.order, batch.open = number, False
            self._flow = None
        else:
            self._control.answer({"reply": number, "error": f"not understood: {what}"})

    def _send_due(self) -> float:
        """Send what is due now; return how long to wait for more."""
        while self._due:
            batch, count = self._due[0]
            sent = self._send_for(batch, count)
            if sent < count:
                self._due[0] = (batch, count - sent)
                return _POLL_S
            batch.open = False
            self._due.pop(0)
        if self._flow is None:
            return _POLL_S
        batch, pace = self._flow
        due, wait_s = pace.due()
        pace.sent(self._send_for(batch, due))
        return wait_s

    def _answer(self) -> None:
        for batch in [batch for batch in self._batches if batch.is_settled]:
            self._control.answer(batch.answer())
            self._batches.remove(batch)


def run(settings: ProducerSettings, control: Control) -> None:
    """Obey orders until told to stop; then wait for what is under way and close the history."""
    producer = ScriptedProducer(settings, control)
    producer.obey()
    producer.finish(control)


if __name__ == "__main__":
    main(run, ProducerSettings)
