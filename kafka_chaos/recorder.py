"""The recorder: what a program's own confluent-kafka clients do, as an op history."""

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.progress import Say
from harness.core.wait import wait_until
from harness.history.op_history import OpHistoryFile, names_in
from harness.history.op_history import merge as merge
from workloads.recorded_clients import (
    Delivery,
    Identify,
    Identities,
    RecordedConsumer,
    RecordedProducer,
)

if TYPE_CHECKING:
    from verifiers.ops.judgement import HistoryVerdict

_LOG = logging.getLogger(__name__)
_PROCESSES = 1 << 22
_POLL_S = 0.2

P = TypeVar("P", bound=Producer)
C = TypeVar("C", bound=Consumer)


class Recorder:
    """Records what clients do, as an op history (docs/op-history.md); use it as a context manager.

    Wrap each client in one line: `producer = recorder.producer(Producer(config))`. Every record
    gets a header `kafka-chaos-id`, a number of up to 19 digits, by which it is known again when it
    is read; brokers store headers since Kafka 0.11. Records without it, which others wrote, are
    left out and counted (`foreign`). A record with the header that no recorded producer sent is a
    `phantom`, so a topic must be new when a recording begins.

    A history is complete when everything was read from the beginning to the end: `read_all`.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        process: int | None = None,
        identify: Identify | None = None,
    ) -> None:
        """Begin a recording.

        Args:
            path: the op history, a new file. It has every completed op even if the program is
                killed. After `close` the order of sends that were under way at a time can be
                judged as well.
            process: of a program that runs as several processes, each with a file of its own: a
                number that no other has, 0 to 4,194,303. None draws one.
            identify: tells records from each other by their contents where they cannot have a
                header: takes the topic, key and value that clients give and get, and returns a
                text or an integer of 64 bits, not twice for records that are sent to one
                partition; None leaves a record out.

        Raises:
            UsageError: the file exists or cannot be made, or the number is none.
        """
        if process is not None and not 0 <= process < _PROCESSES:
            raise UsageError(f"process={process} of a recorder is not from 0 to {_PROCESSES - 1}.")
        number = secrets.randbelow(_PROCESSES) if process is None else process
        self.path = Path(path)
        self._history = OpHistoryFile(self.path, number)
        self._identities = Identities(number, identify)
        self._producers: list[RecordedProducer] = []

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def foreign(self) -> Mapping[str, int]:
        """How many records that have no identity were read and left out, by topic."""
        return dict(self._history.foreign)

    def producer(self, producer: P, *, on_delivery: Delivery | None = None) -> P:
        """Return an object that does what the producer does and records what it sends.

        It is no instance of the producer's class (`isinstance` says no). Callbacks of single
        records are called as ever. `produce_batch` sends records one by one.

        Args:
            producer: of confluent-kafka, not used yet.
            on_delivery: the callback that the producer's configuration names as `on_delivery`, if
                it does: a producer does not tell. With `delivery.report.only.error` no record is
                ever known to be acknowledged.
        """
        recorded = RecordedProducer(producer, self._history, self._identities, on_delivery)
        self._producers.append(recorded)
        return cast("P", recorded)

    def consumer(self, consumer: C) -> C:
        """Return an object that does what the consumer does and records what it reads.

        It is no instance of the consumer's class. Records are given out without the header.

        Args:
            consumer: of confluent-kafka, not used yet. With `isolation.level=read_uncommitted` it
                may be given records of aborted transactions, and the verdict is INVALID (G1a).
        """
        return cast("C", RecordedConsumer(consumer, self._history, self._identities))

    def read_all(self, config: Mapping[str, Any], *topics: str, timeout_s: float = 120.0) -> None:
        """Read topics from their beginning to their end with a new consumer, and record that.

        Args:
            config: of the consumer: how it gets to the cluster.
            topics: those whose records were sent.
            timeout_s: how long it may take, seconds.

        Raises:
            WaitTimeout: the end of a partition was not reached in time.
            UsageError: there is no such topic.
        """
        own = {
            "group.id": f"kafka-chaos-{uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        consumer = self.consumer(Consumer({**config, **own}))
        try:
            partitions = [
                TopicPartition(topic, partition, 0)
                for topic in topics
                for partition in self._partitions(consumer, topic, timeout_s)
            ]
            left = {(place.topic, place.partition) for place in partitions}
            consumer.assign(partitions)

            def is_read() -> bool:
                for message in consumer.consume(1000, _POLL_S):
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        left.discard((message.topic() or "", message.partition() or 0))
                return not left

            wait_until(
                is_read, timeout_s=timeout_s, what="the end of every partition", interval_s=0
            )
        finally:
            consumer.close()

    def close(self) -> None:
        """End the recording; what is under way has an unknown outcome. Clients stay open.

        Raises:
            UsageError: the file was changed by somebody else meanwhile.
        """
        if self._history.closed:
            return
        for producer in self._producers:
            producer.finish()
        self._history.close()
        if foreign := self.foreign:
            _LOG.warning("records without an identity were read and left out: %s", foreign)
        merge([self.path], self.path)

    def verify(
        self,
        *,
        contract: Contract | None = None,
        master: str | None = None,
        exact: bool = False,
        say: Say = _LOG.info,
    ) -> "HistoryVerdict":
        """Close the recording and return the verdict on it; arguments as of `kafka_chaos.verify`.

        With `identify`, an example has as `record` the text that it returned.

        Raises:
            EnvironmentBroken: there is no Java, or Spark did not start.
        """
        from kafka_chaos.runs import verify

        self.close()
        verdict = cast(
            "HistoryVerdict",
            verify(self.path, contract=contract, master=master, exact=exact, say=say),
        )
        named = names_in(self.path, verdict.values)
        return verdict.naming(named.get)

    @staticmethod
    def _partitions(consumer: Consumer, topic: str, timeout_s: float) -> list[int]:
        try:
            listed = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as error:
            raise UsageError(f"The partitions of {topic} cannot be learnt: {error}") from error
        if listed.error is not None or not listed.partitions:
            raise UsageError(f"There is no topic {topic} that could be read.")
        return sorted(listed.partitions)
