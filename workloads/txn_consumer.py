"""A consumer whose offsets are committed by the transactions that it is polled in."""

import logging
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, KafkaException
from confluent_kafka import TopicPartition as Place

from harness.core.op import OpType
from harness.history.transactions import TxnRecorder
from workloads.client_config import Config
from workloads.consumer import RecordingConsumer
from workloads.transaction import TransactionalProducer

_LOG = logging.getLogger(__name__)

_POLL_RECORDS = 200
_POLL_S = 0.05
_ASK_S = 2.0


class TxnConsumer(RecordingConsumer):
    """Polls all partitions of a topic, and knows how far the committed transactions got.

    After a transaction that certainly failed it goes back to where that one began; if nobody
    knows the outcome, to where the group's coordinator says that it is.
    """

    def __init__(
        self, config: Config, recorder: TxnRecorder, *, topic: str, partitions: int
    ) -> None:
        super().__init__(config, recorder, topic)
        self._places = list(range(partitions))
        # The group is new: it begins at the beginning.
        self._position = dict.fromkeys(self._places, OFFSET_BEGINNING)
        self._ahead: dict[int, int] = {}
        self._given: list[tuple[int, int, int]] = []
        self.assign(self._places, detail=f"transactional {config['group.id']}")

    def take(self) -> None:
        """Poll once within the open transaction."""
        op = self.op
        for record in self.poll(_POLL_RECORDS, _POLL_S):
            partition, offset = record.partition(), record.offset()
            if partition is not None and offset is not None:
                self._ahead[partition] = offset + 1
                self._given.append((op, partition, offset))

    def send_offsets(self, producer: TransactionalProducer) -> None:
        """Let the transaction commit how far its polls got.

        Raises:
            TransactionFailed: it will not.
        """
        if self._ahead:
            places = [Place(self._topic, p, offset) for p, offset in self._ahead.items()]
            producer.send_offsets(places, self._consumer.consumer_group_metadata())

    def settle(
        self, kind: OpType, *, resolve: Callable[[], None], go_on: Callable[[], bool]
    ) -> None:
        """Take note of what became of the transaction, and of where to poll on.

        Args:
            kind: its outcome.
            resolve: makes the coordinator end what is open; needed if nobody knows the outcome.
            go_on: asked whether to wait further.
        """
        if kind is OpType.OK:
            self._consumed()
            self._position |= self._ahead
            for partition, offset in self._ahead.items():
                self.recorder.event(
                    "committed", topic=self._topic, partition=partition, offset=offset
                )
        elif self._ahead:
            if kind is OpType.INFO:
                resolve()
                self._ask(go_on)
            self.seek({p: self._position[p] for p in self._ahead})
        self._ahead.clear()
        self._given.clear()

    def _ask(self, go_on: Callable[[], bool]) -> None:
        while go_on():
            try:
                known = self.committed(self._places, timeout_s=_ASK_S)
            except KafkaException as error:
                _LOG.info("nobody knows where the group is: %s", error.args[0])
                continue
            if known is None:
                continue
            # A transaction commits all of its offsets, or none of them.
            if any(known.get(p) == offset for p, offset in self._ahead.items()):
                self._consumed()
            self._position |= known
            return

    def _consumed(self) -> None:
        for op, partition, offset in self._given:
            self.recorder.event(
                "processed", op=op, topic=self._topic, partition=partition, offset=offset
            )
