"""How long from an event of the cluster until it is noticed, and until the next fault begins.

    kafka-chaos bench reactions [--rounds 3] [--kafka 4.3.1] [--run RUN …]

Runs are made in which half of the faults wait for a partition's leader or ISR to change. When the
controller appended that stands in the metadata log, to the millisecond of the brokers' clock, and
when the first broker published it, in its log; when it was noticed and when the next fault was
decided stands in faults.jsonl. Nobody outside the controller can know of a change before a broker
has published it, so the bound counts from there. With --run these folders are measured.
"""

import argparse
import math
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.campaigns.described import parse_event
from harness.cli.console import say
from harness.cli.settings import scenario_of
from harness.core.errors import UsageError
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.view import PartitionState, View
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun
from tests.bench._goals import Goal, exit_code
from verifiers.run_folder.broker_logs import broker_logs, logged_ms
from verifiers.run_folder.folder import TopicPartition
from verifiers.timeline import partition_states
from verifiers.timeline.clock import Clock
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


_PUBLISHED = re.compile(
    r"(?:Leader|Follower) (?P<led>\S+) .*starts at leader epoch (?P<epoch>\d+)"
    r"|\[Partition (?P<partition>\S+) broker=\d+\] ISR updated to (?P<isr>[\d,]+)"
)
"""A broker has a new leader epoch; or it leads, and its ISR was changed as it had asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A fault that followed an event.

    Attributes:
        event: what it waited for.
        published_s: from when the controller appended the change until the first broker told of it
            in its log, seconds; None where none did. Broker's clocks count milliseconds.
        noticed_s: from when the controller appended it until it was noticed: the longer answer, by
            what is known of the clock.
        begun_s: from then until the fault was decided, but for the delay that was asked for.
    """

    event: str
    published_s: float | None
    noticed_s: float
    begun_s: float


def reactions(run_dir: RunDir) -> Iterator[Reaction]:
    """Yield each reaction of a run whose event stands in the metadata log."""
    timeline = read_timeline(run_dir.path)
    told = list(_told(run_dir))
    for line in run_dir.lines("faults.jsonl"):
        after = line.get("after") or {}
        if line["event"] != "decided" or after.get("came_ns") is None:
            continue
        change = _last_change(timeline, after["event"], after["came_ns"])
        if change is not None:
            place, state = change
            published_ns = _published_ns(told, timeline.clock, place, state)
            begun_ns = line["time_ns"] - after["came_ns"] - int(after["delay_s"] * 1e9)
            yield Reaction(
                event=after["event"],
                published_s=published_ns and (published_ns - state.after_ns) / 1e9,
                noticed_s=(after["came_ns"] - state.after_ns) / 1e9,
                begun_s=begun_ns / 1e9,
            )


def _last_change(
    timeline: Timeline, event: str, came_ns: int
) -> tuple[TopicPartition, partition_states.PartitionState] | None:
    """Return the last change before some time that makes an event: whose, and to what."""
    waited_for = parse_event(event)
    changes = [
        (place, new)
        for place, states in timeline.states.items()
        for old, new in pairwise(states)
        if new.after_ns <= came_ns
        and waited_for.happens(*(View(partitions={place: _state(each)}) for each in (old, new)))
    ]
    return max(changes, key=lambda change: change[1].after_ns, default=None)


def _told(run_dir: RunDir) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield what brokers told of leaders and ISRs, behind when, by their clock, milliseconds."""
    for _, log in broker_logs(run_dir):
        for line in log.read_text(errors="replace").splitlines():
            if (said := _PUBLISHED.search(line)) and (at_ms := logged_ms(line)) is not None:
                yield at_ms, said


def _published_ns(
    told: Sequence[tuple[int, re.Match[str]]],
    clock: Clock,
    place: TopicPartition,
    state: partition_states.PartitionState,
) -> int | None:
    """Return when the first broker told of a partition's state at the earliest, on our clock."""
    moments = [
        span_ns[0]
        for at_ms, said in told
        if "{}-{}".format(*place) in (said["led"], said["partition"])
        and (said["epoch"] == str(state.leader_epoch) or _nodes(said["isr"]) == set(state.isr))
        and (span_ns := clock.span_ns(at_ms)) is not None
        and span_ns[1] >= state.after_ns
    ]
    return min(moments, default=None)


def _nodes(isr: str | None) -> set[int]:
    return {int(node) for node in (isr or "").split(",") if node}


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
                found += reactions(runner.execute())
    if not found:
        raise UsageError("No fault of these runs followed a change in the metadata log.")
    return exit_code(_report(found))


def _report(found: list[Reaction]) -> list[Goal]:
    published = [(each, each.published_s) for each in found if each.published_s is not None]
    spans = {
        "published, from the append": [published_s for _, published_s in published],
        "noticed, from the append": [each.noticed_s for each in found],
        "noticed, from the publication": [
            each.noticed_s - published_s for each, published_s in published
        ],
        "fault decided, from the publication": [
            each.noticed_s + each.begun_s - published_s for each, published_s in published
        ],
    }
    goals = []
    for name, seconds in spans.items():
        median_s = statistics.median(seconds) if seconds else math.inf
        if name.endswith("publication"):
            goals.append(Goal(name=f"{name}, median, s", measured=median_s, at_most=WANTED_S))
        print(  # noqa: T201
            f"{name:<36} median {median_s * 1000:4.0f} ms, worst "
            f"{max(seconds, default=math.inf) * 1000:4.0f} ms of {len(seconds)}; ratio to the "
            f"bound of {WANTED_S * 1000:.0f} ms: {median_s / WANTED_S:.2f}",
            flush=True,
        )
    return goals
