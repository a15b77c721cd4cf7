"""A run that ends in the middle of a fault: brokers heal, what there is is judged, nothing stays.

Two runs side by side: their harnesses mostly wait.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.cluster.agent import Agent
from harness.core.wait import wait_until

pytestmark = pytest.mark.docker

CLI = [sys.executable, "-m", "harness.cli.main"]
QUIET = {**os.environ, "CI": "1"}

Harness = subprocess.Popen[bytes]


def begin(store: Path, *flags: str) -> Harness:
    """Start a run, its document in `out` and what it says in `err`."""
    store.mkdir()
    with (store / "out").open("wb") as out, (store / "err").open("wb") as err:
        return subprocess.Popen(
            # Two clusters at a time: no more brokers and clients than it takes, and patient limits.
            [*CLI, "run", *flags, "--brokers", "3", "--producers", "1", "--consumers", "1",
             "--topic-partitions", "3", "--broker-config", "broker.session.timeout.ms=9000",
             "--broker-config", "replica.lag.time.max.ms=30000", "--duration", "5m",
             "--store", str(store), "--json"],
            stdout=out, stderr=err, env=QUIET,
        )  # fmt: skip


def is_in_force(harness: Harness, store: Path) -> bool:
    """Whether the journal says that a fault was injected; the run has to go on until then."""
    journal = store / "latest" / "faults.jsonl"
    assert harness.poll() is None, (store / "err").read_text()
    return journal.exists() and '"injected"' in journal.read_text()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Harness, Path]]]:
    """Two runs that were told to end with their first fault in force, each by its signal's name."""
    folder = tmp_path_factory.mktemp("ended")
    # Runs of one seed that begin in the same second have one name.
    runs = {
        "SIGINT": (
            begin(folder / "sigint", "--faults", "broker_pause", "--seed", "7"),
            folder / "sigint",
        ),
        "SIGKILL": (
            begin(
                folder / "sigkill", "--faults", "partition", "--seed", "8", "--lease-margin", "5s"
            ),
            folder / "sigkill",
        ),
    }
    left = dict(runs)

    def have_been_told() -> bool:
        for name, (harness, store) in list(left.items()):
            if is_in_force(harness, store):
                harness.send_signal(signal.Signals[name])
                del left[name]
        return not left

    try:
        wait_until(have_been_told, timeout_s=300, what="a fault in force in either run")
        runs["SIGKILL"][0].wait(timeout=30)
        yield runs
    finally:
        for harness, _ in runs.values():
            harness.kill()
            harness.wait(timeout=30)
        subprocess.run([*CLI, "clean"], check=False, timeout=300)


def left_behind(run: str) -> list[object]:
    engine = docker.from_env()
    label: dict[str, str | list[str] | bool] = {"label": f"kafka-chaos.run={run}"}
    return [
        *engine.containers.list(all=True, filters=label),
        *engine.networks.list(filters=label),
        *engine.volumes.list(filters=label),
    ]


def test_leases_heal_what_a_killed_harness_left_broken_and_its_history_is_judged(
    ended: dict[str, tuple[Harness, Path]],
) -> None:
    _, store = ended["SIGKILL"]
    killed_run = (store / "latest").resolve()
    engine = docker.from_env()
    run_label = f"kafka-chaos.run={killed_run.name}"
    labelled: dict[str, str | list[str] | bool] = {"label": run_label}
    (its,) = engine.containers.list(filters={"label": [run_label, "kafka-chaos.agent"]})
    agent = Agent(its)

    def leases() -> list[object]:
        return list(agent.ask("leases")["leases"])

    journal = (killed_run / "faults.jsonl").read_text()
    assert '"healed"' not in journal, "the harness died before it healed"
    clients = [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and str(killed_run).encode() in _command_line(path)
    ]
    wait_until(lambda: not leases(), timeout_s=180, what="the leases to end", interval_s=1)
    healed = b"".join(agent.stream(["cat", "/run/kafka-chaos/healed.jsonl"])).splitlines()
    assert "mend" in {json.loads(line)["action"].split()[0] for line in healed}
    for broker in engine.containers.list(filters=labelled):
        if broker.id != its.id:
            network = f"--net=/proc/{broker.attrs['State']['Pid']}/ns/net"
            rules = b"".join(agent.stream(["nsenter", network, "iptables-save"]))
            assert b"KC-" not in rules, rules
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in clients),
        timeout_s=180,
        what="the clients to notice that they are alone",
    )

    verified = subprocess.run(
        [*CLI, "verify", str(killed_run), "--json"],
        capture_output=True, text=True, timeout=600, check=False, env=QUIET,
    )  # fmt: skip
    assert verified.returncode == 3, verified.stderr
    verdict = json.loads(verified.stdout)
    assert verdict["verdict"] == "UNKNOWN"
    assert verdict["counts"]["acked"] > 1000
    assert "phantom" not in verdict["anomalies"]

    cleaned = subprocess.run([*CLI, "clean"], check=False, timeout=300)
    assert cleaned.returncode == 0
    assert left_behind(killed_run.name) == []


def test_the_first_ctrl_c_heals_and_judges_what_there_is(
    ended: dict[str, tuple[Harness, Path]],
) -> None:
    harness, store = ended["SIGINT"]

    harness.wait(timeout=1200)

    assert harness.returncode == 130, (store / "err").read_text()
    verdict = json.loads((store / "out").read_text())
    assert verdict["verdict"] == "UNKNOWN"
    assert any("interrupted" in reason for reason in verdict["reasons"])
    assert verdict["faults"][0]["proven"], "what was injected was healed, and seen to be"
    assert left_behind((store / "latest").resolve().name) == []


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
