"""Durations, waits, verdicts, registries, contracts: the small words everything is said in."""

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.duration import parse_duration_s, parse_range_s
from harness.core.errors import UsageError, WaitTimeout
from harness.core.op import producer_of, sequence_of, value_of
from harness.core.registry import Registry
from harness.core.verdict import Verdict
from harness.core.wait import StopOf, wait_until


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1.5s", 1.5), ("5m", 300), ("8h", 28_800), ("2d", 172_800)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "0s", "5 minutes", "1w", "1e3s", "5s5s"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "range_s"), [("2s-20s", (2, 20)), ("500ms - 2m", (0.5, 120)), ("7s", (7, 7))]
)
def test_a_range_of_durations_is_read(text: str, range_s: tuple[float, float]) -> None:
    assert parse_range_s(text) == range_s


@pytest.mark.parametrize("text", ["20s-2s", "2-20s", "2s-", "-2s", "2s-3s-4s"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a"):
        parse_range_s(text)


def test_a_wait_returns_the_first_truthy_answer(instant_time: list[float]) -> None:
    answers = iter([0, "", "there"])

    assert wait_until(lambda: next(answers), timeout_s=5, what="a word") == "there"


@pytest.mark.parametrize(("answers_after_s", "told"), [(4.0, []), (6.0, [6.0])])
def test_a_wait_that_took_most_of_its_limit_says_so(
    instant_time: list[float],
    caplog: pytest.LogCaptureFixture,
    answers_after_s: float,
    told: list[float],
) -> None:
    caplog.set_level("INFO", logger="harness.core.wait")
    begin = instant_time[0]

    wait_until(
        lambda: instant_time[0] >= begin + answers_after_s,
        timeout_s=10, what="an answer", interval_s=1.0,
    )  # fmt: skip

    assert [record.getMessage() for record in caplog.records] == [
        f"waited {waited_s} of at most 10 s for an answer" for waited_s in told
    ]


def test_a_wait_that_is_stopped_says_so_and_not_that_its_time_was_over(
    instant_time: list[float],
) -> None:
    stop = threading.Event()

    def set_after_two_seconds() -> None:
        if instant_time[0] >= 1002:
            stop.set()

    with pytest.raises(WaitTimeout, match=r"Stopped waiting for a word after 2\.0 of 60 s"):
        wait_until(set_after_two_seconds, timeout_s=60, what="a word", stop=stop)


def test_a_wait_that_ends_shows_the_last_state_seen(instant_time: list[float]) -> None:
    with pytest.raises(WaitTimeout, match=r"Waited 5 s for a word; last seen: \[\]"):
        wait_until(list, timeout_s=5, what="a word")


def test_a_stop_of_another_is_set_when_one_of_both_is() -> None:
    other = threading.Event()
    of_itself, of_other = StopOf(other), StopOf(other)
    assert not of_other.wait(0.01)

    of_itself.set()

    assert of_itself.wait(60)
    assert not other.is_set()
    threading.Timer(0.05, other.set).start()
    assert of_other.wait(60)


def test_the_larger_verdict_wins_and_nothing_is_unknown() -> None:
    assert Verdict.merge([Verdict.VALID, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert Verdict.merge([Verdict.UNKNOWN, Verdict.INVALID]) is Verdict.INVALID
    assert Verdict.merge([]) is Verdict.UNKNOWN
    assert [v.exit_code for v in Verdict] == [0, 3, 1]


def test_a_value_names_one_record_of_one_producer() -> None:
    value = value_of(3, 62_400)

    assert (producer_of(value), sequence_of(value)) == (3, 62_400)
    assert len({value_of(p, s) for p in range(5) for s in range(5)}) == 25


def test_a_taken_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "things_of_a_test").mkdir()
    (tmp_path / "things_of_a_test" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[type] = Registry("thing", "things_of_a_test")

    @registry.register("one")
    @dataclass
    class First:
        """The first."""

    with pytest.raises(ValueError, match="is taken by"):

        @registry.register("one")
        @dataclass
        class Second:
            """The second."""

    assert registry.name_of(First()) == "one"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"min_isr": 4}, "can never be met"),
        ({"min_isr": 0}, "can never be met"),
        ({"acks": "2"}, "none of 0, 1, all"),
        ({"acks": "1", "idempotence": True}, "needs acks=all"),
        ({"replication_factor": 0, "min_isr": 0}, "keeps no data"),
        ({"idempotence": True, "max_in_flight": 6}, "at most 5"),
        ({"max_in_flight": 0}, "send nothing"),
    ],
)
def test_contracts_that_kafka_would_refuse_are_refused_first(
    settings: dict[str, object], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        Contract(**settings)  # type: ignore[arg-type]  # wrong on purpose


def test_idempotence_follows_acks_unless_said() -> None:
    assert Contract(acks="all").idempotent
    assert not Contract(acks="1").idempotent
    assert not Contract(acks="all", idempotence=False).idempotent


@pytest.mark.parametrize(
    "settings", [{"brokers": 0}, {"brokers": 10}, {"controllers": 2}, {"heap_mib": 10}]
)
def test_clusters_that_cannot_be_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        ClusterSpec(**settings)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("contract", "brokers"),
    [
        (Contract(min_isr=2), 1),
        (Contract(min_isr=3), 2),
        (Contract(min_isr=1), None),
        (Contract(acks="1"), None),
        (Contract(min_isr=2, unclean_election=True), None),
    ],
)
def test_a_contract_says_how_many_losses_of_data_it_survives(
    contract: Contract, brokers: int | None
) -> None:
    assert contract.survivable_losses == brokers
