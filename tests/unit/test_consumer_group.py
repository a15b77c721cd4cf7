"""The workload of a consumer group: who its clients are, and who comes and goes."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer

from harness.campaigns.configure import Overrides, configure
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.workload import WORKLOADS, Grouped, Move
from harness.run.nemesis import plan_json
from workloads.consumer_group import ConsumerGroup
from workloads.group_config import SESSION_MS
from workloads.send_poll import SendPoll
from workloads.transactional import Transactional

PROTOCOL = "group.protocol"


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"producers": 0},
        {"subscribers": 1},
        {"subscribers": 51},
        {"rate_per_s": 0},
        {"rate_per_s": 1000, "process_s": 0.01},
        {"process_s": -1},
        {"churn_s": -1},
        {"poll_records": 0},
        {"commit_every": 0},
        {"assignor": "lucky"},
        {"commits": "sometimes"},
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ConsumerGroup(**wrong)


def test_that_librdkafka_has_no_plain_sticky_is_said() -> None:
    with pytest.raises(UsageError, match="no sticky that is not cooperative"):
        ConsumerGroup(assignor="sticky")  # type: ignore[arg-type]


def test_the_workload_is_registered_and_the_only_one_with_a_group_of_its_own() -> None:
    assert WORKLOADS["consumer_group"] is ConsumerGroup
    assert isinstance(ConsumerGroup(), Grouped)
    assert not isinstance(SendPoll(), Grouped)
    assert not isinstance(Transactional(), Grouped)


def test_every_client_has_a_process_number_of_its_own_and_settings_in_json() -> None:
    workload = ConsumerGroup(producers=2, consumers=1, subscribers=3)
    clients = [*workload.clients(Contract()), workload.member(3), *workload.readers(Contract())]

    assert [c.process for c in clients] == [0, 1, 100, 200, 201, 202, 203, 300, 301, 350]
    assert all(json.loads(json.dumps(c.settings)) == c.settings for c in clients)
    assert [c.process for c in clients if c.described()["mode"] == "subscribe"] == [
        *range(200, 204)
    ]


def test_at_the_end_one_asks_where_the_group_is_that_does_not_join_it() -> None:
    auditor = ConsumerGroup().readers(Contract())[-1]

    assert (auditor.role, auditor.settings["audit"]) == ("reader", True)
    assert auditor.settings["config"]["group.id"] == ConsumerGroup().group


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky", "consumer"])
def test_librdkafka_takes_the_settings_of_every_assignor(assignor: Any) -> None:
    config = ConsumerGroup(assignor=assignor).member(0).settings["config"]

    Consumer({**config, "log_level": 0}).close()
    if assignor == "consumer":
        assert config[PROTOCOL] == "consumer"
        assert "session.timeout.ms" not in config
    else:
        assert config["partition.assignment.strategy"] == assignor
        assert config["session.timeout.ms"] == SESSION_MS


def test_members_are_told_of_the_ends_of_partitions_if_that_is_wanted() -> None:
    name = "enable.partition.eof"
    wanted = configure(
        "mixed", Overrides(workload_name="consumer_group", workload={"partition_eof": "on"})
    ).workload

    assert isinstance(wanted, ConsumerGroup)
    config = wanted.member(0).settings["config"]
    Consumer({**config, "log_level": 0}).close()
    assert config[name] is True
    assert name not in ConsumerGroup().member(0).settings["config"]


@pytest.mark.parametrize("kafka", ["0.10.2.2", "3.9.1"])
def test_a_version_without_the_new_protocol_is_refused_for_it_alone(kafka: str) -> None:
    with pytest.raises(UsageError, match="KIP-848"):
        ConsumerGroup(assignor="consumer").refuse(Contract(), kafka=kafka)
    ConsumerGroup(assignor="range").refuse(Contract(), kafka=kafka)


@pytest.mark.parametrize("kafka", ["4.0.0", "4.3.1", "unknown"])
def test_the_new_protocol_is_taken_where_it_is_served_or_may_be(kafka: str) -> None:
    ConsumerGroup(assignor="consumer").refuse(Contract(), kafka=kafka)


def moves(seed: int, duration_s: float = 300, **changes: Any) -> list[Move]:
    return list(ConsumerGroup(**changes).moves(Random(seed), duration_s))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("subscribers", [2, 3])
def test_one_member_always_stays_and_never_are_there_many_more(seed: int, subscribers: int) -> None:
    there = [subscribers]
    emptied = []
    for move in moves(seed, subscribers=subscribers):
        if move.everyone:
            emptied.append(len(there))
        there.append(0 if move.everyone else there[-1] + (1 if move.kind == "join" else -1))

    assert len(there) > 30
    # Whom all have left, as many come back to at once.
    assert emptied
    for place in emptied:
        assert there[place : place + subscribers + 1] == [*range(subscribers + 1)]
    left = [count for count in there if count == 0]
    assert len(left) == len(emptied)
    assert max(there) <= subscribers + 2


def test_a_group_is_left_by_all_in_order_and_by_force() -> None:
    all_at_once = {move.kind for seed in range(10) for move in moves(seed) if move.everyone}

    assert all_at_once == {"leave", "crash"}
    assert not any(move.before for move in moves(3) if move.everyone)


@pytest.mark.parametrize("seed", range(50))
def test_half_a_minute_sees_members_join_leave_and_die(seed: int) -> None:
    drawn = moves(seed, 30)

    assert {move.kind for move in drawn} == {"join", "leave", "crash"}
    assert [move.at_s for move in drawn] == sorted(move.at_s for move in drawn)
    assert drawn[-1].at_s < 30


@pytest.mark.parametrize(
    ("commits", "act"), [("before-processing", "processing"), ("after-processing", "commit")]
)
def test_the_first_death_catches_a_member_with_something_in_hand(commits: Any, act: str) -> None:
    deaths = [
        move.before
        for move in moves(3, commits=commits)
        if move.kind == "crash" and not move.everyone
    ]

    assert deaths[:4] == [act, None, act, None]


def test_no_moves_are_drawn_if_none_are_wanted() -> None:
    assert moves(1, churn_s=0) == []


def test_moves_and_faults_stand_in_one_plan_and_do_not_change_each_other() -> None:
    def drawn(name: str | None, seed: int) -> dict[str, Any]:
        scenario = configure("mixed", Overrides(workload_name=name))
        found: dict[str, Any] = json.loads(plan_json(scenario, seed))
        return found

    grouped, plain = drawn("consumer_group", 7), drawn(None, 7)

    assert grouped["steps"] == plain["steps"]
    assert "moves" not in plain
    assert Counter(move["kind"] for move in grouped["moves"])["crash"] >= 2
    assert grouped == drawn("consumer_group", 7)
    assert grouped["moves"] != drawn("consumer_group", 8)["moves"]


def test_under_the_new_protocol_brokers_are_told_to_notice_a_death_soon() -> None:
    def config(assignor: str, **cluster: Any) -> dict[str, str]:
        overrides = Overrides(
            cluster=cluster, workload_name="consumer_group", workload={"assignor": assignor}
        )
        return dict(configure("mixed", overrides).cluster.config)

    session = "group.consumer.session.timeout.ms"
    assert config("consumer")[session] == str(SESSION_MS)
    assert session not in config("range")
    assert config("consumer", config=((session, "9000"),))[session] == "9000"
