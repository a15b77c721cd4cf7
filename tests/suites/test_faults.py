"""Each fault on a real cluster, checked by the kernel's and the broker's own word, not by ours."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.gc_pause import GcPause
from faults.partition import Partition
from harness.core.cluster import Broker, ClusterSpec, Lease
from harness.core.errors import ClusterBroken, WaitTimeout
from harness.core.fault import Fault
from harness.core.wait import pause, wait_until
from harness.docker_cluster import DockerCluster

pytestmark = pytest.mark.docker

READY = "kafka-chaos-ready"
Leased = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    started = DockerCluster.launch(ClusterSpec(), run="suite-faults", folder=folder, say=print)
    yield started
    started.save_logs(folder / "cluster")
    started.shut_down()


@pytest.fixture
def victim(cluster: DockerCluster) -> Broker:
    cluster.await_full_isr([READY], timeout_s=90)
    leader = cluster.leader_of(READY, 0)
    assert leader is not None
    return leader


@pytest.fixture
def leased(cluster: DockerCluster, request: pytest.FixtureRequest) -> Leased:
    """The cluster with a lease of the test's own: `leased(hold_s=…, limit_s=…)`."""

    def lease(hold_s: float = 4.0, limit_s: float = 60.0) -> Any:
        fault_id = f"s{abs(hash(request.node.name)) % 10**8}"
        return cluster.leased(Lease(fault_id=fault_id, hold_s=hold_s, limit_s=limit_s))

    return lease


def shell(container: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "exec", container, "bash", "-c", command],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def java_states(container: str) -> list[str]:
    """State letters of every java process, as the container's own /proc shows them."""
    return shell(
        container,
        "for p in /proc/[0-9]*; do read -r c < $p/comm; "
        '[ "$c" = java ] && cut -d" " -f3 $p/stat; done; true',
    ).stdout.split()


def connects(container: str, host: str) -> bool:
    return shell(container, f"timeout 2 bash -c '</dev/tcp/{host}/9092'").returncode == 0


def test_a_killed_broker_is_gone_and_comes_back_as_another_process(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    before = cluster.process_of(victim)
    there = leased()

    injected = BrokerKill().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == []
        assert not connects(victim.container, "localhost")
    finally:
        healed = BrokerKill().heal(there, (victim,))

    after = cluster.process_of(victim)
    assert healed.observed
    assert before is not None
    assert after is not None
    assert (before.pid, before.start_ticks) != (after.pid, after.start_ticks)
    cluster.await_full_isr([READY], timeout_s=90)


def test_a_paused_broker_is_stopped_and_still_accepts_connections(
    victim: Broker, leased: Leased
) -> None:
    there = leased()

    injected = BrokerPause().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == ["T"]
        assert connects(victim.container, "localhost")
    finally:
        healed = BrokerPause().heal(there, (victim,))

    assert healed.observed
    assert java_states(victim.container) == ["S"]


def test_a_cut_off_broker_is_alive_and_unreachable_for_its_peers(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    host = f"broker-{victim.node_id}"
    there = leased()
    assert connects(peer.container, host)

    injected = Partition().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert not connects(peer.container, host)
        assert java_states(victim.container) == ["S"]
        assert connects(victim.container, "localhost")
    finally:
        healed = Partition().heal(there, (victim,))

    assert healed.observed
    assert connects(peer.container, host)


def test_a_cut_of_one_listener_leaves_the_other_open(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    host = f"broker-{victim.node_id}"
    there = leased()
    fault = Partition(listener="replication")

    injected = fault.inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert not connects(peer.container, host)
        controller = shell(peer.container, f"timeout 2 bash -c '</dev/tcp/{host}/9093'")
        assert controller.returncode == 0
    finally:
        fault.heal(there, (victim,))


def test_a_gc_pause_is_real_in_the_brokers_own_log(victim: Broker, leased: Leased) -> None:
    there = leased(hold_s=5.0)
    count = "grep -c 'Pause Full (System.gc())' /var/log/kafka/gc.log"
    before = int(shell(victim.container, count).stdout or 0)

    injected = GcPause().inject(there, (victim,))
    pause(5.0)
    healed = GcPause().heal(there, (victim,))

    after = int(shell(victim.container, count).stdout)
    assert injected.observed, injected.details
    assert healed.observed, healed.details
    assert after > before + 2


class Harmless:
    """A real cluster on which every way of doing damage does nothing: the negative control."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        if name in ("signal", "cut", "hold_down"):
            return lambda *_, **__: None
        if name == "collect_garbage":
            # A storm of no length: the log is marked, and nothing happens.
            return lambda broker, **_: self._cluster.collect_garbage(broker, duration_s=0.001)
        return getattr(self._cluster, name)


@pytest.mark.parametrize(
    "fault", [BrokerKill(), BrokerPause(), GcPause(), Partition()], ids=lambda f: type(f).__name__
)
def test_a_fault_that_does_nothing_is_never_proven(
    victim: Broker, leased: Leased, fault: Fault
) -> None:
    there = Harmless(leased(hold_s=1.0))

    try:
        injected = fault.inject(there, (victim,))
    except WaitTimeout:
        return

    healed = fault.heal(there, (victim,))
    assert not (injected.observed and healed.observed)


def test_killing_a_broker_that_is_dead_already_is_an_error_and_no_proof(
    victim: Broker, leased: Leased
) -> None:
    there = leased()
    BrokerKill().inject(there, (victim,))
    try:
        with pytest.raises(ClusterBroken, match="runs no JVM"):
            BrokerKill().inject(there, (victim,))
    finally:
        BrokerKill().heal(there, (victim,))


@pytest.mark.parametrize(
    "fault", [BrokerPause(), Partition(), BrokerKill()], ids=lambda f: type(f).__name__
)
def test_a_fault_heals_by_itself_when_its_lease_ends(
    cluster: DockerCluster, victim: Broker, leased: Leased, fault: Fault
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)

    fault.inject(leased(limit_s=3.0), (victim,))

    wait_until(
        lambda: (
            java_states(victim.container) == ["S"]
            and connects(peer.container, f"broker-{victim.node_id}")
        ),
        timeout_s=60,
        what="the agent to heal by itself",
    )
    assert cluster.agent.leases() == []
