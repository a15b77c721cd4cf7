"""What a broker's log says of its life."""

import pytest

from harness.cluster.logs import shuts_down

_AT = "[2026-11-25 19:26:15,372] INFO"
_STARTED_2016 = (
    f"{_AT} starting (kafka.server.KafkaServer)\n"
    f"{_AT} [Kafka Server 3], started (kafka.server.KafkaServer)\n"
)
_ENDING_2016 = (
    f"{_AT} [Kafka Server 3], shutting down (kafka.server.KafkaServer)\n"
    f"{_AT} [Socket Server on Broker 3], Shutdown completed (kafka.network.SocketServer)\n"
)
_ENDING_PART = f"{_AT} [ReplicaManager 3]: Shutting down (kafka.server.ReplicaManager)\n"
_STARTED_2026 = (
    f"{_AT} [BrokerServer id=1] Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)\n"
    f"{_AT} [BrokerServer id=1] Transition from STARTING to STARTED (kafka.server.BrokerServer)\n"
)
_ENDING_2026 = (
    f"{_AT} [BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN "
    "(kafka.server.BrokerServer)\n"
    f"{_AT} [BrokerServer id=1] shutting down (kafka.server.BrokerServer)\n"
)


@pytest.mark.parametrize(
    ("log", "is_over"),
    [
        ("", False),
        (_STARTED_2016, False),
        (_STARTED_2016 + _ENDING_2016, True),
        (_STARTED_2016 + _ENDING_2016 + f"{_AT} starting (kafka.server.KafkaServer)\n", False),
        (_STARTED_2016 + _ENDING_PART, False),
        (_STARTED_2026, False),
        (_STARTED_2026 + _ENDING_2026, True),
        (_STARTED_2026 + _ENDING_2026 + _STARTED_2026, False),
    ],
    ids=[
        "no log",
        "0.10",
        "0.10, ending",
        "0.10, again",
        "a part of it",
        "4.3",
        "4.3, ending",
        "4.3, again",
    ],
)
def test_the_last_word_decides(log: str, is_over: bool) -> None:
    assert shuts_down(log) is is_over
