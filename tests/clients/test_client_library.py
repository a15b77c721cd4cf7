"""Client processes with another librdkafka than the harness, against librdkafka's mock cluster."""

import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow.parquet as pq
import pytest

from harness.cluster.docker_cluster import DockerCluster
from harness.core.access import Access
from harness.core.client_library import ClientLibrary
from harness.core.contract import Contract
from harness.core.errors import EnvironmentBroken
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.wait import wait_until
from harness.history.seal import seal
from harness.machine.client_packages import ensure_client, reject_unknown_client
from harness.run.context import Phases, RunContext
from tests.clients.mock_kafka import RUN_ID, TOPIC, MockKafka
from workloads.consumer_group import ConsumerGroup
from workloads.group_config import Commits
from workloads.record import encoder

RECORDS = 40
ENCODE = encoder(run_id=RUN_ID, topic=TOPIC, size_bytes=100)
OURS = version("confluent-kafka")


@pytest.fixture
def kafka() -> MockKafka:
    made = MockKafka(brokers=1)
    for value in range(RECORDS):
        made.append(ENCODE(value), 0)
    return made


@pytest.fixture
def context(kafka: MockKafka, tmp_path: Path) -> Iterator[RunContext]:
    run_dir = RunDir.create(tmp_path, scenario="short", seed=7)
    progress = Progress()
    made = RunContext(
        cluster=cast(DockerCluster, SimpleNamespace(access=Access(kafka.bootstrap))),
        run_dir=run_dir, run_id=RUN_ID, seed=7, topics=(TOPIC,), progress=progress,
        phase=Phases(run_dir, progress), stop=threading.Event(),
    )  # fmt: skip
    yield made
    for client in made.clients:
        client.kill()


def test_a_client_that_runs_what_was_asked_for_is_let_work(context: RunContext) -> None:
    context.client = ClientLibrary(version=OURS)

    (client,) = context.start_clients([ConsumerGroup(topic=TOPIC).member(0)])

    assert client.library["confluent-kafka"] == OURS
    assert client.is_running


@pytest.mark.parametrize("number", range(2))
def test_no_client_that_runs_another_library_is_let_work(context: RunContext, number: int) -> None:
    context.client = ClientLibrary(version="2.13.0")
    workload = ConsumerGroup(topic=TOPIC)
    specs = [workload.clients(Contract())[0], workload.member(0)]

    with pytest.raises(EnvironmentBroken, match=f"runs confluent-kafka {OURS}, and librdkafka:2"):
        context.start_clients([specs[number]])


def committed(context: RunContext, commits: Commits) -> list[int]:
    """Return what a member commits of partition 0 that has all of it and is told where it ends."""
    workload = ConsumerGroup(
        topic=TOPIC,
        commits=commits,
        poll_records=RECORDS + 10,
        partition_eof=True,
        commit_position=commits == "after-processing",
    )
    (member,) = context.start_clients([workload.member(0)])
    wait_until(
        lambda: member.counts.get("processed", 0) == RECORDS, timeout_s=120, what="all records"
    )
    member.ask_to_stop()
    assert member.await_end(timeout_s=60)
    seal(context.run_dir.path)
    rows = pq.read_table(context.run_dir.path / "history" / "event").to_pylist()
    return [row["offset"] for row in rows if (row["f"], row["partition"]) == ("committed", 0)]


@pytest.mark.nightly
@pytest.mark.parametrize("commits", ["auto-delivered", "after-processing"])
@pytest.mark.parametrize(("wanted", "end"), [("2.13.0", RECORDS + 1), ("2.13.2", RECORDS)])
def test_the_librdkafka_that_was_asked_for_is_fetched_and_shows_its_own_defects(
    context: RunContext,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wanted: str,
    end: int,
    commits: Commits,
) -> None:
    """Source: librdkafka issue 4844, mended in 2.13.2: a partition's end counts as a record."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    context.client = ClientLibrary(version=wanted)
    reject_unknown_client(context.client, say=print)
    context.runtime = ensure_client(context.client, say=print)

    offsets = committed(context, commits)
    context.abandon_clients()

    assert offsets[-1] == end
    loaded = {"confluent-kafka": wanted, "librdkafka": wanted}
    assert [line["library"] for line in context.run_dir.lines("clients.jsonl")] == [loaded]
    assert context.run_dir.meta()["client_versions"] == loaded
