"""Run folders hold every setting of their run: `run --again` makes the same experiment of them."""

import json
from itertools import islice
from pathlib import Path

import pytest

from harness.campaigns.configure import Overrides, configure, repeated
from harness.campaigns.field_values import field_values
from harness.campaigns.nights import Night
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.run_dir import RunDir
from harness.lab.claim import find_claim
from harness.lab.claim_run import ClaimRun
from harness.run.context import Run
from harness.run.scenario_run import ScenarioRun

EVERYTHING = Overrides(
    cluster={
        "kafka": "3.9.1", "brokers": 4, "controllers": 1, "metadata": "kraft", "heap_mib": 300,
        "features": (("metadata.version", 20),), "config": (("num.io.threads", "2"),),
    },
    contract={
        "acks": "1", "min_isr": 1, "replication_factor": 2, "idempotence": False, "retries": 3,
        "max_in_flight": 2, "linger_ms": 1.5, "batch_size_bytes": 9000,
        "delivery_timeout_ms": 20_000, "request_timeout_ms": 4_000, "unclean_election": True,
    },
    workload={
        "partitions": 5, "producers": 1, "consumers": 1, "subscribers": 0, "rate_per_s": 70,
        "record_size_bytes": 200, "partitioning": "hash", "compression": "lz4", "headers": 2,
        "seek_s": 3.0,
    },
    faults=("broker_kill", "link(direction=forth,min_bytes=200)", "power_loss(topic=orders)"),
    duration_s=90,
    max_at_once=2,
    available_within_s=30,
    lease_margin_s=12,
    client="librdkafka:2.13.0",
)  # fmt: skip


def folder_of(run: Run, store: Path, *, seed: int = 7) -> RunDir:
    """Return a folder with as much of run.json as `--again` reads."""
    run_dir = RunDir.create(store, scenario=run.name, seed=seed)
    run_dir.update(seed=seed, command=run.again(run_dir.path, seed), **run.described())
    return run_dir


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("mixed", Overrides()),
        ("mixed", EVERYTHING),
        ("weak_spots", Overrides(cluster={"kafka": "0.10.2.2"}, contract={"acks": "0"})),
        ("leader_cut_and_kill", Overrides(workload_name="transactional", contract={"acks": "all"})),
        (
            "mixed",
            Overrides(
                workload_name="consumer_group", workload={"churn_s": 4, "partition_eof": True}
            ),
        ),
        (
            "mixed",
            Overrides(cluster={"brokers": 1}, contract={"replication_factor": 1, "min_isr": 1}),
        ),
    ],
)
def test_a_run_is_repeated_with_every_setting_that_it_had(
    tmp_path: Path, name: str, overrides: Overrides
) -> None:
    scenario = configure(name, overrides)
    run_dir = folder_of(ScenarioRun(scenario), tmp_path)

    again, seed = repeated(run_dir)

    assert seed == 7
    assert ScenarioRun(again).described() == ScenarioRun(scenario).described()
    assert (again.cluster, again.contract) == (scenario.cluster, scenario.contract)
    assert (again.workload, again.schedule) == (scenario.workload, scenario.schedule)
    assert again.client == scenario.client
    assert ScenarioRun(again).plan_json(7) == ScenarioRun(scenario).plan_json(7)


def test_a_run_from_before_clients_could_be_chosen_is_repeated(tmp_path: Path) -> None:
    run_dir = folder_of(ScenarioRun(configure("mixed", Overrides())), tmp_path)
    settings = run_dir.meta()["settings"]
    del settings["client"]
    run_dir.update(settings=settings)

    assert repeated(run_dir)[0].client is None


def test_a_run_of_a_compose_file_is_repeated_with_that_file(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yaml"
    compose.write_text(Path("examples/compose.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    scenario = configure("mixed", Overrides(cluster={"compose": str(compose)}))

    again, _ = repeated(folder_of(ScenarioRun(scenario), tmp_path))

    assert again.cluster == scenario.cluster


def test_the_runs_of_a_night_are_repeated_on_their_own_topics(tmp_path: Path) -> None:
    night = Night(seed=7, kafka="3.9.1", duration_s=45)

    for cell in islice(night.cells(), 4):
        again, seed = repeated(folder_of(cell.run, tmp_path, seed=cell.seed))

        assert seed == cell.seed
        assert ScenarioRun(again).described() == cell.run.described()
        assert ScenarioRun(again).plan_json(seed) == cell.run.plan_json(cell.seed)


def test_the_run_of_a_claim_says_which_command_repeats_it(tmp_path: Path) -> None:
    name, claim = find_claim("acks1-loss-on-leader-kill")
    run_dir = folder_of(ClaimRun(name=name, claim=claim, kafka="2.8.2"), tmp_path)

    with pytest.raises(UsageError, match=f"`kafka-chaos claims run {name} --kafka 2.8.2 --seed 7`"):
        repeated(run_dir)


def test_a_folder_without_settings_is_refused(tmp_path: Path) -> None:
    run_dir = folder_of(ScenarioRun(configure("mixed", Overrides())), tmp_path)
    meta = run_dir.meta()
    del meta["settings"]
    (run_dir.path / "run.json").write_text(json.dumps(meta))

    with pytest.raises(UsageError, match="does not hold the settings of its run"):
        repeated(run_dir)


@pytest.mark.parametrize(
    ("where", "name", "value", "sentence"),
    [
        ("cluster", "brokers", "three", "valid integer"),
        ("cluster", "colour", "blue", "The cluster has no colour; it has bootstrap, brokers, "),
        ("contract", "acks", "2", "'0', '1' or 'all'"),
        ("workload", "headers", [], "headers=.*valid integer"),
    ],
)
def test_settings_that_were_edited_into_nonsense_are_refused(
    tmp_path: Path, where: str, name: str, value: object, sentence: str
) -> None:
    run_dir = folder_of(ScenarioRun(configure("mixed", Overrides())), tmp_path)
    meta = run_dir.meta()
    meta["settings"][where][name] = value
    (run_dir.path / "run.json").write_text(json.dumps(meta))

    with pytest.raises(UsageError, match=sentence):
        repeated(run_dir)


def test_values_are_read_as_the_types_of_their_fields() -> None:
    values = {"acks": "all", "min_isr": "2", "idempotence": "on", "linger_ms": "1.5"}

    assert field_values(Contract, values, owner="The contract") == {
        "acks": "all", "min_isr": 2, "idempotence": True, "linger_ms": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (Overrides(max_at_once=0), "0 faults at one time break nothing"),
        (Overrides(available_within_s=0), "Partitions cannot be available within 0 s"),
        (Overrides(duration_s=0), "A run of 0 s shows nothing"),
        (Overrides(lease_margin_s=0), "The agent cannot heal 0 s after"),
    ],
)
def test_zero_is_not_taken_for_a_setting_that_was_not_given(
    overrides: Overrides, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        configure("mixed", overrides)
