"""Schedules: the same seed gives the same plan, byte for byte, and never too much at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.broker_kill import BrokerKill
from faults.events import CoordinatorElected, GroupRebalances, TransactionCoordinatorElected
from faults.link import Link
from faults.partition import Partition
from faults.power_loss import PowerLoss
from faults.targets import (
    BrokerOfId,
    CoordinatorOf,
    FollowerOf,
    IsrDownTo,
    LeaderAndFollower,
    LeaderOf,
    Minority,
    TransactionCoordinatorOf,
)
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.described import parse_fault, parse_target
from harness.core import schedule
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.coordinators import OFFSETS_TOPIC
from harness.core.errors import UsageError
from harness.core.fault import Fault, Target
from harness.core.limits import noticed_within_s
from harness.core.scenario import SCENARIOS, Step
from harness.core.schedule import Mix, Script
from harness.core.workload import TimeLimited
from harness.run.nemesis import plan, plan_json
from harness.run.scenario_run import ScenarioRun, settings_of
from workloads.consumer_group import ConsumerGroup
from workloads.send_poll import SendPoll
from workloads.transactional import Transactional

PLANS = """
import sys
from harness.campaigns.configure import Overrides, configure
from harness.core.scenario import SCENARIOS
from harness.run.nemesis import plan_json
asked = [(name, Overrides()) for name in SCENARIOS]
for name, overrides in [*asked, ("mixed", Overrides(workload_name="consumer_group"))]:
    scenario = configure(name, overrides)
    sys.stdout.write(plan_json(scenario, 7))
"""


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    root = str(Path(schedule.__file__).parents[2])
    texts = [
        subprocess.run(
            [sys.executable, "-c", PLANS],
            capture_output=True,
            check=True,
            # The order of sets and of their like must not show.
            env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert texts[0] == texts[1]
    assert texts[0].count(b'"scenario":') == len(SCENARIOS) + 1


def test_another_seed_gives_another_plan() -> None:
    scenario = configure("mixed", Overrides())

    assert len({str(plan(scenario, seed)) for seed in range(20)}) == 20


@pytest.mark.parametrize("seed", range(30))
def test_a_minute_of_the_default_mix_deals_every_fault(seed: int) -> None:
    steps = plan(configure("mixed", Overrides()), seed)

    assert {type(step.fault).__name__ for step in steps} == {
        "BrokerKill",
        "BrokerPause",
        "GcPause",
        "Partition",
    }


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("gap_s", [0.5, 3.0])
def test_faults_of_a_mix_never_overlap_and_end_in_time(gap_s: float, seed: int) -> None:
    mix = Mix(faults=(BrokerKill(), Partition()), targets=(LeaderOf("orders"),), gap_s=gap_s)

    steps = mix.steps(seed, 100)

    ends = [step.at_s + step.hold_s for step in steps]
    starts = [step.at_s for step in steps]
    assert starts[0] >= mix.gap_s - 0.1
    assert all(end + mix.gap_s - 0.2 <= start for end, start in zip(ends, starts[1:]))  # noqa: B905
    assert ends[-1] <= 100.1


def test_shorter_gaps_leave_time_for_more_faults() -> None:
    plain = plan(configure("mixed", Overrides(duration_s=300)), 1)

    assert len(plan(configure("mixed", Overrides(duration_s=300, gap_s=0.5)), 1)) > len(plain)


def test_a_gap_below_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="Gaps of -1 s cannot be"):
        configure("mixed", Overrides(gap_s=-1))


@pytest.mark.parametrize("seed", range(5))
def test_a_link_is_dealt_to_pairs_and_nothing_else_is(seed: int) -> None:
    scenario = configure("mixed", Overrides(faults=("link", "broker_kill"), duration_s=120))

    for step in plan(scenario, seed):
        assert isinstance(step.target, LeaderAndFollower) == isinstance(step.fault, Link)


def test_a_mix_without_a_pair_for_its_link_is_refused() -> None:
    with pytest.raises(UsageError, match="fits Link"):
        Mix(faults=(Link(),), targets=(LeaderOf("orders"),))


def test_a_link_without_a_second_replica_is_refused() -> None:
    alone = {"replication_factor": 1, "min_isr": 1}

    with pytest.raises(UsageError, match="leader and a follower"):
        configure("mixed", Overrides(faults=("link",), contract=alone))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("link(direction=forth,min_bytes=200)", Link(direction="forth", min_bytes=200)),
        ("power_loss(topic=orders,partition=0)", PowerLoss(topic="orders", partition=0)),
    ],
)
def test_a_fault_is_read_from_its_words(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


def test_what_is_no_parameter_of_a_fault_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="it has direction, listener, min_bytes"):
        parse_fault("link(hits_pairs=true)")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("leader_of", LeaderOf("payments")),
        ("leader_of(orders, 2)", LeaderOf("orders", 2)),
        ("leader_of(partition=2)", LeaderOf("payments", 2)),
        ("isr_down_to(1)", IsrDownTo(1, "payments")),
        ("id(3)", BrokerOfId(3)),
        ("minority", Minority()),
    ],
)
def test_a_target_is_read_from_its_words(text: str, target: Target) -> None:
    assert parse_target(text, topic="payments") == target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id", "needs node_id: write id"),
        ("id(1,2)", "'2' in 'id.1,2.' is one value too many: the target id has node_id"),
        ("leader_of(orders,topic=orders)", "one value too many"),
        ("leader_off", "leader_of"),
        ("leader_of(", "is no target: write name"),
    ],
)
def test_what_is_no_target_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_target(text)


def test_targets_and_holds_are_dealt_as_asked_and_dealt_again() -> None:
    asked = Overrides(targets=("id(2)", "leader_of(partition=1)"), hold_s=(2.0, 3.0))

    scenario = configure("mixed", asked)
    again = configure("mixed", Overrides(**json.loads(json.dumps(settings_of(scenario)))))

    steps = plan(scenario, 7)
    assert {step.target for step in steps} == {BrokerOfId(2), LeaderOf("orders", 1)}
    assert all(2 <= step.hold_s <= 3 for step in steps)
    assert plan_json(again, 7) == plan_json(scenario, 7)


@pytest.mark.parametrize(
    ("workload", "text", "target"),
    [
        ("consumer_group", "coordinator_of", CoordinatorOf("payments-group")),
        ("consumer_group", "coordinator_of(other)", CoordinatorOf("other")),
        ("transactional", "transaction_coordinator_of", TransactionCoordinatorOf("transactor-0")),
        ("send_poll", "coordinator_of(orders-subscribers)", CoordinatorOf("orders-subscribers")),
        ("send_poll", "leader_of(__consumer_offsets)", LeaderOf(OFFSETS_TOPIC)),
    ],
)
def test_a_target_that_names_no_group_or_id_has_that_of_the_workload(
    workload: str, text: str, target: Target
) -> None:
    asked = Overrides(
        workload_name=workload, workload={"topic": "payments"}, targets=(text, "follower_of")
    )

    scenario = configure("mixed", asked)

    assert isinstance(scenario.schedule, Mix)
    assert scenario.schedule.targets == (target, FollowerOf("payments"))
    again = Overrides(**json.loads(json.dumps(settings_of(scenario))))
    assert plan_json(configure("mixed", again), 7) == plan_json(scenario, 7)


@pytest.mark.parametrize(
    ("workload", "text", "words"),
    [
        ("send_poll", "coordinator_of", "coordinator_of in --targets is of the run's group, and "
         "the workload send_poll has none: write coordinator_of.group=…., or choose another"),
        ("transactional", "coordinator_of", "the workload transactional has none"),
        ("consumer_group", "transaction_coordinator_of", "the run's transactional id, and"),
    ],
)  # fmt: skip
def test_a_target_of_a_group_or_id_that_there_is_not_is_refused(
    workload: str, text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        configure("mixed", Overrides(workload_name=workload, targets=(text,)))


STEPS = (
    {"fault": "broker_kill", "target": "coordinator_of", "hold_s": 5},
    {"fault": "broker_kill", "target": "random", "hold_s": 5,
     "after": {"event": "coordinator_elected"}},
    {"fault": "broker_kill", "target": "random", "hold_s": 5,
     "after": {"event": {"name": "group_rebalances", "parameters": {"group": None}}}},
)  # fmt: skip


def test_steps_that_name_no_group_have_that_of_the_workload() -> None:
    scenario = configure("mixed", Overrides(workload_name="consumer_group", steps=STEPS))

    first, second, third = plan(scenario, 7)
    assert first.target == CoordinatorOf("orders-group")
    assert second.after is not None
    assert second.after.event == CoordinatorElected("orders-group")
    assert third.after is not None
    assert third.after.event == GroupRebalances("orders-group")


def test_steps_that_name_no_transactional_id_have_the_first_of_the_workload() -> None:
    event = {"event": "transaction_coordinator_elected"}
    steps = ({**STEPS[1], "after": event},)

    scenario = configure("mixed", Overrides(workload_name="transactional", steps=steps))

    (step,) = plan(scenario, 7)
    assert step.after is not None
    assert step.after.event == TransactionCoordinatorElected("transactor-0")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_speaks_of_a_group_that_there_is_not_is_refused(
    step: dict[str, object],
) -> None:
    with pytest.raises(UsageError, match="in a step is of the run's group"):
        configure("mixed", Overrides(steps=(step,)))


@pytest.mark.parametrize(
    ("workload", "own"),
    [
        ("send_poll", set()),
        ("consumer_group", {CoordinatorOf("orders-group")}),
        ("transactional", {TransactionCoordinatorOf("transactor-0")}),
    ],
)
def test_a_search_hits_the_coordinators_that_there_are(workload: str, own: set[Target]) -> None:
    scenario = configure("search", Overrides(workload_name=workload))

    assert isinstance(scenario.schedule, Mix)
    targets = set(scenario.schedule.targets)
    everywhere = configure("search", Overrides()).schedule
    assert isinstance(everywhere, Mix)
    assert targets - set(everywhere.targets) == own
    hit = {step.target for seed in range(100) for step in plan(scenario, seed)}
    assert own <= hit


def test_a_script_takes_no_targets() -> None:
    with pytest.raises(UsageError, match="which --targets and --hold cannot change"):
        configure("weak_spots", Overrides(targets=("all",), hold_s=(1.0, 2.0)))


def test_most_holds_of_the_default_mix_pass_a_limit_of_its_cluster() -> None:
    scenario = configure("mixed", Overrides())

    limits = noticed_within_s(scenario.cluster)
    holds = [step.hold_s for seed in range(50) for step in plan(scenario, seed)]

    assert limits == (3.0, 4.5)
    assert sum(hold >= limits[0] for hold in holds) > 0.7 * len(holds)
    assert any(hold < limits[0] for hold in holds)
    assert any(hold > 2 * limits[1] for hold in holds)


@pytest.mark.parametrize(("kafka", "limits"), [("0.10.2.2", (4.0, 4.5)), ("3.9.1", (3.0, 4.5))])
def test_short_limits_are_those_of_the_version(kafka: str, limits: tuple[float, ...]) -> None:
    scenario = configure("mixed", Overrides(cluster={"kafka": kafka}))

    assert noticed_within_s(scenario.cluster) == limits


@pytest.mark.parametrize(
    ("kafka", "limits"),
    [("0.10.2.2", (6.0, 15.0)), ("2.8.2", (18.0, 45.0)), ("4.3.1", (9.0, 45.0))],
)
def test_without_settings_the_limits_are_the_defaults_of_the_version(
    kafka: str, limits: tuple[float, ...]
) -> None:
    assert noticed_within_s(ClusterSpec(kafka=kafka)) == limits


def test_what_a_caller_configures_counts_more_than_the_short_limits() -> None:
    longer = {"config": (("broker.session.timeout.ms", "7000"),)}

    scenario = configure("mixed", Overrides(cluster=longer))

    assert noticed_within_s(scenario.cluster) == (7.0, 4.5)


@pytest.mark.parametrize("seed", range(5))
def test_limits_too_long_for_a_run_are_not_drawn_around(seed: int) -> None:
    mix = Mix(faults=(BrokerKill(),), targets=(LeaderOf("orders"),), limits_s=(9.0, 45.0))

    assert all(4 <= step.hold_s <= 8 for step in mix.steps(seed, 60))
    assert any(step.hold_s > 9 for step in mix.steps(seed, 120))


@pytest.mark.parametrize(
    ("workload", "contract", "limits"),
    [
        (SendPoll(), Contract(), (5.0, 6.0, 10.0, 120.0)),
        (SendPoll(subscribers=0), Contract(), (5.0, 10.0, 120.0)),
        # One damage for all contracts, or their runs could not be compared.
        (SendPoll(), Contract(acks="0"), (5.0, 6.0, 10.0, 120.0)),
        (SendPoll(), Contract(acks="1", delivery_timeout_ms=8000), (2.0, 6.0, 8.0, 10.0)),
        (SendPoll(subscribers=0), Contract(request_timeout_ms=3000), (3.0, 10.0, 120.0)),
        (ConsumerGroup(), Contract(), (5.0, 6.0, 10.0, 120.0)),
        # The brokers decide on the session, and are asked for the same.
        (ConsumerGroup(assignor="consumer"), Contract(), (5.0, 6.0, 10.0, 120.0)),
        (Transactional(timeout_s=20), Contract(), (5.0, 6.0, 10.0, 20.0)),
    ],
)
def test_a_workload_tells_the_limits_of_its_clients(
    workload: TimeLimited, contract: Contract, limits: tuple[float, ...]
) -> None:
    assert workload.limits_s(contract) == limits


@pytest.mark.parametrize(("name", "limits"), [("search", (5.0, 6.0, 10.0, 60.0)), ("mixed", ())])
def test_a_search_draws_around_the_limits_of_the_workloads_clients(
    name: str, limits: tuple[float, ...]
) -> None:
    scenario = configure(name, Overrides(workload_name="transactional"))

    assert isinstance(scenario.schedule, Mix)
    assert scenario.schedule.client_limits_s == limits


def test_every_fault_of_the_suites_mix_has_its_turn() -> None:
    faults = ("broker_kill", "partition(listener=replication)", "broker_pause", "gc_pause")
    scenario = configure("mixed", Overrides(faults=faults, duration_s=48))

    assert len({step.fault for step in plan(scenario, 7)}) == len(faults)


@pytest.mark.parametrize(
    ("cluster", "clients"), [((1.0,), (10.0, 11.0, 12.0)), ((1.0, 1.1, 1.2), (10.0,))]
)
def test_half_of_the_holds_go_by_clients_whichever_limits_are_more(
    cluster: tuple[float, ...], clients: tuple[float, ...]
) -> None:
    mix = Mix(
        faults=(BrokerKill(),), targets=(LeaderOf("orders"),), limits_s=cluster,
        client_limits_s=(*clients, 900.0),
    )  # fmt: skip

    holds = [step.hold_s for seed in range(20) for step in mix.steps(seed, 1000)]

    assert max(holds) <= 2.5 * max(clients)
    by_clients = sum(hold > 4 for hold in holds)
    assert 0.45 * len(holds) < by_clients < 0.55 * len(holds)


def test_holds_go_by_the_cluster_alone_where_a_run_is_too_short_for_all_clients() -> None:
    mix = Mix(
        faults=(BrokerKill(),), targets=(LeaderOf("orders"),), limits_s=(3.0,),
        client_limits_s=(60.0,),
    )  # fmt: skip

    assert all(1.5 <= step.hold_s <= 7.5 for seed in range(20) for step in mix.steps(seed, 60))


@pytest.mark.parametrize("wrong", [{"limits_s": ()}, {"client_limits_s": (5.0, 0.0)}])
def test_a_limit_of_no_time_is_refused(wrong: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(UsageError, match="cannot be drawn around limits"):
        Mix(faults=(BrokerKill(),), targets=(LeaderOf("orders"),), **wrong)  # type: ignore[arg-type]


def test_a_run_too_short_for_one_fault_is_refused() -> None:
    with pytest.raises(UsageError, match="too short"):
        plan(configure("mixed", Overrides(duration_s=3)), 7)


def test_whether_a_run_is_too_short_is_not_a_matter_of_its_seed() -> None:
    mix = Mix(faults=(BrokerKill(),), targets=(LeaderOf("orders"),), hold_s=(2.0, 20.0))

    assert all(mix.steps(seed, 20) for seed in range(200))
    with pytest.raises(UsageError, match=r"too short .* --duration 6s"):
        mix.steps(1, 4)


def test_a_run_too_short_for_its_script_is_refused() -> None:
    step = Step(at_s=5, fault=BrokerKill(), target=LeaderOf("orders"), hold_s=10)

    with pytest.raises(UsageError, match="needs 15 s"):
        Script(script=(step,)).steps(1, 10)


def test_a_script_cannot_be_dealt_other_faults() -> None:
    with pytest.raises(UsageError, match="step by step"):
        configure("leader_cut_and_kill", Overrides(faults=("broker_kill",)))


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(UsageError, match="needs as many brokers"):
        configure("mixed", Overrides(cluster={"brokers": 2}))


def test_a_setting_that_the_workload_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match="has no colour"):
        configure("mixed", Overrides(workload={"colour": "blue"}))


def test_only_acks_all_may_lose_nothing_under_the_control() -> None:
    for acks, provoked in (("0", {"lost-write"}), ("1", {"lost-write"}), ("all", set())):
        scenario = configure("leader_cut_and_kill", Overrides(contract={"acks": acks}))
        assert scenario.provokes(scenario.contract) == provoked


def test_a_single_node_is_not_cut_from_anybody() -> None:
    scenario = configure(
        "mixed",
        Overrides(cluster={"brokers": 1}, contract={"replication_factor": 1, "min_isr": 1}),
    )

    steps = plan(scenario, 7)

    assert not any(isinstance(step.fault, Partition) for step in steps)
    assert not any(isinstance(step.target, FollowerOf) for step in steps)


def test_cutting_the_links_of_a_single_node_is_refused() -> None:
    with pytest.raises(UsageError, match="no links to cut"):
        configure(
            "mixed",
            Overrides(
                cluster={"brokers": 1},
                contract={"replication_factor": 1, "min_isr": 1},
                faults=("partition",),
            ),
        )


def test_another_workload_keeps_the_topic_that_the_scenario_speaks_of() -> None:
    scenario = configure(
        "leader_cut_and_kill",
        Overrides(
            contract={"acks": "all"}, workload_name="transactional", workload={"producers": 3}
        ),
    )

    assert scenario.workload == Transactional(topic="orders", partitions=1, producers=3)


def test_a_workload_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"no workload 'transactionl'\. Did you mean 'transac"):
        configure("mixed", Overrides(workload_name="transactionl"))


@pytest.mark.parametrize(
    ("contract", "kafka", "message"),
    [
        ({"acks": "1"}, "4.3.1", "acks=1"),
        ({"acks": "all", "idempotence": False}, "4.3.1", "idempotent"),
        ({"acks": "all"}, "0.10.2.2", "0.11 was the first"),
    ],
)
def test_transactions_need_idempotence_and_a_kafka_that_knows_them(
    contract: dict[str, object], kafka: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        configure(
            "mixed",
            Overrides(workload_name="transactional", contract=contract, cluster={"kafka": kafka}),
        )


def test_run_json_tells_who_may_read_what_is_not_committed() -> None:
    scenario = configure("mixed", Overrides(workload_name="transactional"))

    told = ScenarioRun(scenario).described()

    assert told["workload"] == "transactional"
    isolation = {client["process"]: client["isolation"] for client in told["clients"]}
    assert isolation == {
        0: None, 1: None, 2: "read_committed", 100: "read_committed", 150: "read_uncommitted",
        200: "read_committed", 300: "read_committed", 301: "read_committed",
    }  # fmt: skip
