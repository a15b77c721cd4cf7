"""What is healed and removed by label, and what is left alone: on an engine in memory."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster import cleanup
from harness.core.errors import HealFailed
from tests.unit.fake_engine import PROJECT, FakeEngine, FakeObject

GONE = "1@-"
"""An owner that is no process: none has begun at such a time."""
CUT = {"lease": "3", "action": "mend KC-3-0 of 700", "note": None}

Use = Callable[[FakeEngine], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Return a function that lets an engine be the one that is asked."""

    def use_engine(engine: FakeEngine) -> None:
        monkeypatch.setattr(cleanup, "connect", lambda **_: engine)

    return use_engine


def made(
    name: str, *, run: str = "r1", project: str | None = "kc-1", owner: str = GONE, **more: Any
) -> FakeObject:
    labels = {"kafka-chaos": "1", "kafka-chaos.run": run, "kafka-chaos.owner": owner}
    if project is not None:
        labels[PROJECT] = project
    if name.endswith("agent"):
        labels["kafka-chaos.agent"] = "1"
    return FakeObject(name, labels, **more)


def test_what_is_broken_is_healed_and_said_with_its_run(use: Use) -> None:
    agent = made("kc-1-agent", healed=[CUT])
    use(FakeEngine(made("kc-1-broker-1"), agent))
    said: list[str] = []

    healed = cleanup.heal(say=said.append)

    assert agent.asked == ["heal {}"]
    assert healed == said
    assert said == ["run r1, which has ended (kc-1): lease 3: mend KC-3-0 of 700"]


def test_healing_says_which_runs_still_go_on(use: Use) -> None:
    alive = cleanup.owner()
    agent = made("kc-1-agent", healed=[CUT], owner=alive)
    use(FakeEngine(made("kc-1-broker-1", owner=alive), agent))

    (sentence,) = cleanup.heal(say=lambda _: None)

    assert sentence.startswith("run r1, which still goes on (kc-1): lease 3")


def test_one_agent_that_cannot_heal_is_an_error_and_the_others_heal(use: Use) -> None:
    broken = made("kc-1-agent", error="no JVM came up")
    sound = made("kc-2-agent", project="kc-2", run="r2", healed=[CUT])
    use(FakeEngine(made("kc-1-broker-1"), broken, made("kc-2-b", project="kc-2", run="r2"), sound))
    said: list[str] = []

    with pytest.raises(HealFailed, match=r"run r1, .*no JVM came up"):
        cleanup.heal(say=said.append)

    assert said == ["run r2, which has ended (kc-2): lease 3: mend KC-3-0 of 700"]


def test_an_agent_that_has_ended_is_started_to_heal(use: Use) -> None:
    agent = made("kc-1-agent", status="exited", healed=[CUT])
    use(FakeEngine(made("kc-1-broker-1"), agent))

    assert len(cleanup.heal(say=lambda _: None)) == 1
    assert agent.status == "running"


def test_an_agent_that_cannot_be_started_is_not_nothing_to_heal(use: Use) -> None:
    use(FakeEngine(made("kc-1-broker-1"), made("kc-1-agent", status="exited", is_stuck=True)))

    with pytest.raises(HealFailed, match=r"run r1, .*cannot be started"):
        cleanup.heal(say=lambda _: None)


def test_a_cluster_whose_agent_is_gone_cannot_be_healed(use: Use) -> None:
    use(FakeEngine(made("kc-1-broker-1")))

    with pytest.raises(HealFailed, match="its fault agent is gone"):
        cleanup.heal(say=lambda _: None)


def test_a_run_that_starts_its_cluster_has_no_agent_yet(use: Use) -> None:
    use(FakeEngine(made("kc-1-broker-1", owner=cleanup.owner())))

    assert cleanup.heal(say=lambda _: None) == []


def test_nothing_is_broken_where_no_node_runs_and_scratch_containers_have_no_agent(
    use: Use,
) -> None:
    stopped = made("kc-1-agent", status="exited")
    scratch = made("kc-doctor-victim", project=None)
    use(FakeEngine(made("kc-1-broker-1", status="exited"), stopped, scratch))

    assert cleanup.heal(say=lambda _: None) == []
    assert stopped.status == "exited"


def test_clean_removes_what_the_dead_left_and_heals_nothing_of_the_living(use: Use) -> None:
    alive = cleanup.owner()
    dead = [made("kc-1-broker-1", status="exited"), made("kc-1-agent")]
    living = [made("kc-2-b", run="r2", owner=alive), made("kc-2-agent", run="r2", owner=alive)]
    networks = (made("kc-1_cluster"), made("kc-2_cluster", run="r2", owner=alive))
    volumes = (made("kc-1_data"), made("kc-2_data", run="r2", owner=alive))
    use(FakeEngine(*dead, *living, networks=networks, volumes=volumes))
    said: list[str] = []

    removed = cleanup.clean(everything=False, say=said.append)

    assert removed == cleanup.Removed(containers=2, networks=1, volumes=1)
    assert [entry.name for entry in (*dead, *networks, *volumes) if entry.gone] == [
        "kc-1-broker-1", "kc-1-agent", "kc-1_cluster", "kc-1_data",
    ]  # fmt: skip
    assert [entry.gone or entry.asked for entry in living] == [[], []]
    assert said[-1] == "left alone: run r2 still goes on (--all removes it too)"


def test_what_a_run_removes_meanwhile_is_nothing_to_heal_or_remove(use: Use) -> None:
    use(FakeEngine(made("kc-1-broker-1", goes_meanwhile=True), made("kc-2-agent", project="kc-2")))

    assert cleanup.heal(say=lambda _: None) == []
    assert cleanup.clean(say=lambda _: None).containers == 1


def test_clean_of_everything_spares_nobody(use: Use) -> None:
    living = made("kc-1-broker-1", owner=cleanup.owner())
    use(FakeEngine(living))

    assert cleanup.clean(everything=True, say=lambda _: None).containers == 1
    assert living.gone


def test_clean_can_be_confined_to_what_one_process_has_made(use: Use) -> None:
    mine, other = made("kc-1-broker-1", owner="7@-"), made("kc-2-broker-1", owner="8@-")
    use(FakeEngine(mine, other))

    assert cleanup.clean(owner="7@-", say=lambda _: None).containers == 1
    assert (mine.gone, other.gone) == (True, False)


def test_what_cannot_be_removed_is_an_error_and_the_rest_is_removed(use: Use) -> None:
    stuck, free = made("kc-1-broker-1", is_stuck=True), made("kc-1-broker-2")
    use(FakeEngine(stuck, free))

    with pytest.raises(HealFailed, match="container kc-1-broker-1: it is in use"):
        cleanup.clean(everything=False, say=lambda _: None)

    assert free.gone


def test_an_owner_is_one_process_and_not_whoever_has_its_number_later() -> None:
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    own_pid = cleanup.owner().partition("@")[0]

    assert cleanup.is_running(cleanup.owner())
    assert not cleanup.is_running(f"{own_pid}@1")
    assert not cleanup.is_running(f"{ended.stdout.strip()}@")
    assert not cleanup.is_running("")
