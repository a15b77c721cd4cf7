"""How long from an event of the cluster until it is noticed, and until the next fault begins.

    kafka-chaos bench reactions [--rounds 3] [--kafka 4.3.1] [--run RUN …]

Runs are made in which half of the faults wait for a partition's leader or ISR to change. When that
happened stands in the metadata log, to the millisecond of the brokers' clock; when it was noticed
and when the next fault was decided stands in faults.jsonl. With --run these folders are measured.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.campaigns.described import parse_event
from harness.campaigns.record import record_run
from harness.cli.console import say
from harness.cli.settings import scenario_of
from harness.core.errors import UsageError
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.view import PartitionState, View
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun
from tests.bench._goals import Goal, exit_code
from verifiers.timeline import partition_states
from verifiers.timeline.partition_states import Timeline, read_timeline

WANTED_S = 0.1
FLAGS = {
    "scenario": "search",
    "faults": "broker_kill,broker_pause",
    "targets": "leader_of,isr_down_to(1)",
    "patterns": "successor,last_in_sync",
    "hold": "6s-12s",
    "duration": "120s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A fault that followed an event.

    Attributes:
        event: what it waited for.
        noticed_s: from when the controller appended the change until it was noticed, seconds; the
            clock of the log counts milliseconds, and this is the longer answer.
        begun_s: from then until the fault was decided, but for the delay that was asked for.
    """

    event: str
    noticed_s: float
    begun_s: float


def reactions(run_dir: RunDir) -> Iterator[Reaction]:
    """Yield each reaction of a run whose event stands in the metadata log."""
    timeline = read_timeline(run_dir.path)
    for line in run_dir.lines("faults.jsonl"):
        after = line.get("after") or {}
        if line["event"] != "decided" or after.get("came_ns") is None:
            continue
        happened_ns = _happened_ns(timeline, after["event"], after["came_ns"])
        if happened_ns is not None:
            begun_ns = line["time_ns"] - after["came_ns"] - int(after["delay_s"] * 1e9)
            yield Reaction(
                event=after["event"],
                noticed_s=(after["came_ns"] - happened_ns) / 1e9,
                begun_s=begun_ns / 1e9,
            )


def _happened_ns(timeline: Timeline, event: str, came_ns: int) -> int | None:
    """Return when the last change before some time happened that makes an event; None if none."""
    waited_for, found = parse_event(event), None
    for place, states in timeline.states.items():
        for old, new in pairwise(states):
            views = [View(partitions={place: _state(state)}) for state in (old, new)]
            if new.after_ns <= came_ns and waited_for.happens(*views):
                found = max(found or 0, new.after_ns)
    return found


def _state(state: partition_states.PartitionState) -> PartitionState:
    return PartitionState(
        leader=state.leader, isr=state.isr, replicas=state.replicas, leader_epoch=state.leader_epoch
    )


def main(arguments: list[str]) -> int:
    """Print median and largest time; return 1 if the median until the fault is over its bound."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench reactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many runs are made")
    parser.add_argument("--kafka", default="4.3.1", help="version of the brokers, with KRaft")
    parser.add_argument("--run", nargs="+", type=Path, default=[], help="measure these runs")
    given = parser.parse_args(arguments)
    found = [each for path in given.run for each in reactions(RunDir.open(path))]
    if not given.run:
        with tempfile.TemporaryDirectory() as store:
            for seed in range(given.rounds):
                scenario = scenario_of({**FLAGS, "kafka": given.kafka})
                runner = Runner(
                    run=ScenarioRun(scenario), seed=seed, store=Path(store),
                    progress=Progress(say=say),
                )  # fmt: skip
                found += reactions(record_run(runner))
    if not found:
        raise UsageError("No fault of these runs followed a change in the metadata log.")
    return exit_code(_report(found))


def _report(found: list[Reaction]) -> list[Goal]:
    goals = []
    for name, seconds in {
        "noticed": [each.noticed_s for each in found],
        "until the fault begins": [each.noticed_s + each.begun_s for each in found],
    }.items():
        median_s = statistics.median(seconds)
        goals.append(Goal(name=f"{name}, median, s", measured=median_s, at_most=WANTED_S))
        print(  # noqa: T201
            f"{name:<22} median {median_s * 1000:4.0f} ms, worst {max(seconds) * 1000:4.0f} ms of "
            f"{len(seconds)}; ratio to the bound of {WANTED_S * 1000:.0f} ms: "
            f"{median_s / WANTED_S:.2f}",
            flush=True,
        )
    return goals
