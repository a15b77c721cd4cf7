"""The reader: the final read, every partition from its beginning to its end, by a fresh client.

Beside its history it leaves `<history without suffix>.ends.json`: how far it got, honestly.
"""

import json
import logging
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from harness.core.errors import WaitTimeout
from harness.core.run_dir import write_atomically
from harness.core.wait import wait_until
from harness.history.recorder import Recorder
from workloads.client_config import Config
from workloads.consumer import POLL_RECORDS, POLL_S, RecordingConsumer
from workloads.control import Control, main
from workloads.errors import words_of
from workloads.settings import ClientSettings

_LOG = logging.getLogger(__name__)

_QUERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings(ClientSettings):
    """What a reader is told.

    Attributes:
        partitions: those to read.
        limit_s: the longest that the whole read may take.
        stall_s: the longest without any progress.
        log_ends: by partition, where its leader's log ends as far as that is known.
    """

    partitions: list[int]
    limit_s: float
    stall_s: float
    log_ends: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class End:
    """How far one partition was read; a row of `ends.json`.

    Attributes:
        topic: topic name.
        partition: partition number.
        low: first offset of the log when the read began, or -1 if it could not be asked.
        high: end offset of the log then, or -1: what consumers may read, or the end of the leader's
            log where that is further and known. Records that are there and may not be read are
            neither lost nor read.
        reached: the offset after the last one known to be read; control records count as read.
        complete: whether `reached` is at or above `high`.
    """

    topic: str
    partition: int
    low: int = -1
    high: int = -1
    reached: int = -1
    log_end: int = field(default=-1, repr=False)

    @property
    def complete(self) -> bool:
        """Whether everything that was there when the read began was read."""
        return self.high >= 0 and self.reached >= self.high


class FinalRead(RecordingConsumer):
    """The final read of some partitions of one topic."""

    def __init__(self, config: Config, recorder: Recorder, ends: list[End], topic: str) -> None:
        super().__init__(config, recorder, topic)
        self._ends = {end.partition: end for end in ends}
        self._open: set[int] = set()

    def begin(self, *, deadline: float, control: Control) -> None:
        """Ask where each log begins and ends, and take those that answered.

        Args:
            deadline: on the monotonic clock; a partition without a leader is asked until then.
            control: ends the asking when the harness wants us to stop.
        """
        for end in self._ends.values():
            left_s = max(0.0, deadline - time.monotonic())
            try:
                wait_until(
                    lambda end=end: self._ask(end, deadline),  # type: ignore[misc]  # a default hides the type
                    timeout_s=left_s,
                    what=f"the ends of {end.topic}-{end.partition}",
                    stop=control.stop,
                )
            except WaitTimeout as error:
                self._event("error", end.partition, detail=str(error))
        known = [end for end in self._ends.values() if end.high >= 0]
        for end in known:
            end.reached = end.low
            self._event("assign", end.partition, offset=end.low)
        self._open = {end.partition for end in known if not end.complete}
        places = [Place(end.topic, end.partition, end.low) for end in known if not end.complete]
        if places:
            self._consumer.assign(places)

    @property
    def finished(self) -> bool:
        """Whether every partition that could be begun has been read to its end."""
        return not self._open

    def read_on(self) -> bool:
        """Poll once, record what came, and return whether it got us on."""
        messages = self._consumer.consume(POLL_RECORDS, POLL_S)
        records: list[Message] = []
        progress = False
        for message in messages:
            end = self._ends.get(_known(message.partition()))
            error = message.error()
            if end is None:
                continue
            if error is None:
                records.append(message)
                following = _known(message.offset()) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end of the log, also where only control records lie before it.
                following = _known(message.offset())
            else:
                self._event("error", end.partition, detail=words_of(error))
                continue
            if following > end.reached:
                end.reached = following
                progress = True
        self.recorder.polled(self.op, records)
        self.op += 1
        self._open = {partition for partition in self._open if not self._ends[partition].complete}
        return progress

    def _ask(self, end: End, deadline: float) -> bool:
        timeout_s = max(0.1, min(_QUERY_S, deadline - time.monotonic()))
        try:
            place = Place(end.topic, end.partition)
            end.low, end.high = self._consumer.get_watermark_offsets(place, timeout=timeout_s)
            end.high = max(end.high, end.log_end)
        except KafkaException as error:
            _LOG.info("%s-%d does not say its ends: %s", end.topic, end.partition, error.args[0])
            return False
        return end.high >= 0


def run(settings: ReaderSettings, control: Control) -> None:
    """Read every partition to its end, or until a limit is met, and say how far it got."""
    deadline = time.monotonic() + settings.limit_s
    config = settings.consumer_config("reader") | {"enable.partition.eof": True}
    ends = [
        End(topic=settings.topic, partition=p, log_end=settings.log_ends.get(str(p), -1))
        for p in settings.partitions
    ]
    recorder = settings.begin_polls("reader")
    read = FinalRead(config, recorder, ends, settings.topic)
    read.begin(deadline=min(deadline, time.monotonic() + settings.stall_s), control=control)
    moved = time.monotonic()
    while not read.finished and not control.stop.is_set():
        if read.read_on():
            moved = time.monotonic()
        recorder.flush_if_due()
        control.report(recorder)
        if time.monotonic() > min(deadline, moved + settings.stall_s):
            recorder.event("error", detail="the final read met its limit")
            break
    recorder.close()
    document = [{**asdict(end), "complete": end.complete} for end in ends]
    write_atomically(Path(settings.history).with_suffix(".ends.json"), json.dumps(document))
    control.report(recorder, force=True)


def _known(number: int | None) -> int:
    """Return a partition or offset, -1 for none."""
    return -1 if number is None else number


if __name__ == "__main__":
    main(run, ReaderSettings)
