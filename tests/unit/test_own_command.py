"""Damage by commands of the user's: what they are told, what counts, and who heals in the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.own_command import OwnCommand
from harness.campaigns.described import call, parse_fault
from harness.core.cluster import Broker, Lease
from harness.core.errors import ClusterBroken, UsageError
from harness.core.fault import describe
from harness.core.wait import wait_until
from tests.unit.fake_cluster import FakeCluster

LEASE = Lease(fault_id="7", hold_s=6.0, limit_s=600.0)
TWO = (Broker(1, "a.example:9092"), Broker(2, "b.example:9092"))
Scripts = Callable[..., OwnCommand]


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    """Return a fault whose damage is a file: the first command makes it, the second removes it."""

    def script(name: str, line: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    told = "$@ $KAFKA_CHAOS_FAULT $KAFKA_CHAOS_HOLD_S $KAFKA_CHAOS_ADDRESSES"

    def made(
        breaks: str = f'echo "{told}" >broken',
        heals: str = "rm -f broken",
        sees: str = "cat broken",
    ) -> OwnCommand:
        return OwnCommand(
            breaks=script("break.sh", breaks),
            heals=script("heal.sh", heals),
            sees=script("look.sh", sees),
        )

    return made


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.current_lease = LEASE
    return cluster


def test_commands_are_told_whom_and_under_which_lease(
    scripts: Scripts, cluster: FakeCluster
) -> None:
    fault = scripts()

    injected, healed = fault.inject(cluster, TWO), fault.heal(cluster, TWO)

    assert injected.observed
    assert injected.details["witness"] == "1 2 7 6 a.example:9092 b.example:9092"
    assert healed.observed
    assert "No such file" in healed.details["witness"]


@pytest.mark.parametrize(
    ("changed", "is_injected", "is_healed"),
    [
        ({"breaks": "true"}, False, True),
        ({"heals": "true"}, True, False),
        ({"sees": "true"}, True, False),
        ({"sees": "false"}, False, True),
    ],
    ids=["breaks nothing", "heals nothing", "always sees it", "never sees it"],
)
def test_only_what_the_witness_sees_come_and_go_counts(
    scripts: Scripts,
    cluster: FakeCluster,
    instant_time: list[float],
    changed: dict[str, str],
    is_injected: bool,
    is_healed: bool,
) -> None:
    fault = scripts(**changed)

    injected, healed = fault.inject(cluster, TWO), fault.heal(cluster, TWO)

    assert (injected.observed, healed.observed) == (is_injected, is_healed)
    unseen = [evidence for evidence in (injected, healed) if not evidence.observed]
    assert all("end in 0 just while there is damage" in evidence.question for evidence in unseen)


def test_a_command_that_fails_says_what_it_said(scripts: Scripts, cluster: FakeCluster) -> None:
    fault = scripts(breaks="echo no such host >&2; exit 3")

    with pytest.raises(ClusterBroken, match=r"break\.sh' ended with 3: no such host"):
        fault.inject(cluster, TWO)
    fault.heal(cluster, TWO)

    with pytest.raises(ClusterBroken, match="cannot be run: No such file"):
        OwnCommand("./nowhere", "true", "true").inject(cluster, TWO)
    OwnCommand("true", "true", "false").heal(cluster, TWO)


def test_the_guard_heals_when_the_lease_is_over(
    scripts: Scripts, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.current_lease = Lease(fault_id="8", hold_s=0.1, limit_s=0.2)
    fault = scripts()

    fault.inject(cluster, TWO)

    wait_until(lambda: not (tmp_path / "broken").exists(), timeout_s=30, what="the guard to heal")
    fault.heal(cluster, TWO)


def test_the_guard_heals_when_whoever_broke_it_is_gone(scripts: Scripts, tmp_path: Path) -> None:
    fault = scripts()
    program = (
        "import time\n"
        "from faults.own_command import OwnCommand\n"
        "from harness.core.cluster import Broker, Lease\n"
        "from tests.unit.fake_cluster import FakeCluster\n"
        "cluster = FakeCluster()\n"
        "cluster.current_lease = Lease(fault_id='9', hold_s=600, limit_s=600)\n"
        f"OwnCommand({fault.breaks!r}, {fault.heals!r}, {fault.sees!r})"
        ".inject(cluster, [Broker(1, 'a:9092')])\n"
        "print('broken', flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "broken\n"
        assert (tmp_path / "broken").exists()
        os.kill(child.pid, signal.SIGKILL)

    wait_until(lambda: not (tmp_path / "broken").exists(), timeout_s=30, what="the guard to heal")


def test_a_guard_that_was_dismissed_does_nothing(
    scripts: Scripts, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.current_lease = Lease(fault_id="10", hold_s=0.1, limit_s=1.0)
    fault = scripts()
    fault.inject(cluster, TWO)
    fault.heal(cluster, TWO)

    (tmp_path / "broken").write_text("by somebody else", encoding="utf-8")
    end = time.monotonic() + 1.5
    wait_until(lambda: time.monotonic() > end, timeout_s=30, what="the lease to end")

    assert (tmp_path / "broken").exists()


def test_it_resembles_the_fault_that_it_is_said_to_be_like() -> None:
    assert OwnCommand("a", "b", "c").traits.ends_lead_by == "crash"
    assert OwnCommand("a", "b", "c", like="power_loss").traits.destroys_data
    assert OwnCommand("a", "b", "c", like="partition").traits.cuts_links
    assert not OwnCommand("a", "b", "c").traits.needs_container


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("own_command(./break.sh)", "The fault own_command needs heals, sees"),
        ("own_command('a, b, c)", "is no command"),
        ("own_command(./break.sh, ./heal.sh, ./look.sh, like=gc_pause)", "should be 'broker_kill'"),
    ],
)
def test_commands_that_are_none_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_fault(text)


def test_it_can_be_written_on_a_command_line_and_again() -> None:
    fault = parse_fault("own_command(./break.sh now, ./heal.sh, ./look.sh, like=broker_pause)")

    assert fault == OwnCommand("./break.sh now", "./heal.sh", "./look.sh", like="broker_pause")
    assert parse_fault(call(describe(fault))) == fault
