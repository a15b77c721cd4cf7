"""The bench of reactions: which change of the metadata log a step has waited for."""

import json
from pathlib import Path

import pytest

from harness.core.run_dir import RunDir
from tests.bench import reactions
from verifiers.timeline.clock import Clock
from verifiers.timeline.partition_states import PartitionState, Timeline

MS = 1_000_000


def state(after_ms: int, leader: int, epoch: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        leader=leader, isr=isr, replicas=(1, 2, 3), elr=(), leader_epoch=epoch,
        after_ns=after_ms * MS, from_ns=(after_ms + 1) * MS, to_ns=(after_ms + 100) * MS,
        joins_next=True,
    )  # fmt: skip


STATES = [
    state(0, 1, 5, (1, 2, 3)),
    state(1000, 2, 6, (2, 3)),
    state(2000, 2, 6, (2,)),
    state(3000, 3, 7, (3,)),
]
LOG = [
    "[1970-01-01 00:00:01,021] INFO [Broker id=2] Leader orders-0 with topic id Some(a) starts at "
    "leader epoch 6 from offset 9 with partition epoch 5 (state.change.logger)",
    "[1970-01-01 00:00:01,018] INFO [Broker id=3] Follower orders-0 starts at leader epoch 6 from "
    "offset 9. Current leader is 2. (state.change.logger)",
    "[1970-01-01 00:00:01,010] INFO [Broker id=3] Follower orders-1 starts at leader epoch 6 from "
    "offset 9. Current leader is 2. (state.change.logger)",
    "[1970-01-01 00:00:01,900] INFO [Partition orders-0 broker=2] Shrinking ISR from 2,3 to 2.",
    "[1970-01-01 00:00:02,025] INFO [Partition orders-0 broker=2] ISR updated to 2 and version "
    "updated to 12 (kafka.cluster.Partition)",
]


@pytest.mark.parametrize(
    ("event", "came_ms", "noticed_ms", "published_ms"),
    [
        ("leader_elected(orders, 0)", 1040, 40, 18),
        ("leader_elected(orders, 0)", 2900, 1900, 18),
        ("leader_elected(orders, 0)", 3005, 5, None),
        ("isr_shrank(orders, 0)", 2030, 30, 25),
        ("isr_shrank(orders, 1)", 2030, None, None),
        ("isr_grew(orders, 0)", 2030, None, None),
        ("leader_elected(orders, 0)", 500, None, None),
        ("healed", 1040, None, None),
    ],
)
def test_the_last_change_that_makes_the_event_is_what_was_noticed(
    event: str,
    came_ms: int,
    noticed_ms: int | None,
    published_ms: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_dir = RunDir.create(tmp_path, scenario="search", seed=1)
    lines = [
        {"id": "1", "event": "decided", "time_ns": 0},
        {
            "id": "2", "event": "decided", "time_ns": (came_ms + 520) * MS,
            "after": {"event": event, "delay_s": 0.5, "came_ns": came_ms * MS},
        },
        {
            "id": "3", "event": "decided", "time_ns": 9000 * MS,
            "after": {"event": event, "delay_s": 0.5, "came_ns": None},
        },
    ]  # fmt: skip
    (run_dir.path / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # What the brokers' clock shows is ours in milliseconds.
    clock = Clock.read({"sample": "clock", "asked_ns": at, "answered_ns": at, "host_ns": at}
                       for at in range(0, 4000 * MS, 10 * MS))  # fmt: skip
    timeline = Timeline(states={("orders", 0): STATES}, samples=[], lines=[], log=None, clock=clock)
    log = run_dir.path / "cluster" / "broker-1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(LOG))
    monkeypatch.setattr(reactions, "read_timeline", lambda _: timeline)

    found = list(reactions.reactions(run_dir))

    if noticed_ms is None:
        assert not found
    else:
        (reaction,) = found
        assert reaction.noticed_s == pytest.approx(noticed_ms / 1000)
        assert reaction.begun_s == pytest.approx(0.020)
        assert reaction.published_s == (
            published_ms and pytest.approx(published_ms / 1000, abs=1e-4)
        )
