"""What is read of the output of Kafka's ProducerPerformance."""

import pytest

from harness.core.errors import EnvironmentBroken
from tests.bench.throughput import rate_of

WINDOW = (
    "499969 records sent, 99993.8 records/sec (9.54 MB/sec), 3.2 ms avg latency, "
    "310.0 ms max latency.\n"
)
LAST = (
    "1000000 records sent, 123456.7 records/sec (11.77 MB/sec), 3.11 ms avg latency, "
    "310.00 ms max latency, 1 ms 50th, 9 ms 95th, 42 ms 99th, 60 ms 99.9th.\n"
)


def test_the_line_of_the_whole_counts_and_not_one_of_a_window() -> None:
    assert rate_of(WINDOW + LAST, 1_000_000) == 123_456.7
    with pytest.raises(EnvironmentBroken):
        rate_of(WINDOW, 499_969)


def test_one_that_did_not_send_all_is_no_figure() -> None:
    with pytest.raises(EnvironmentBroken, match="no brokers"):
        rate_of(LAST, 2_000_000, "there are no brokers")
