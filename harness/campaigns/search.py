"""A search: unscripted runs until something forbidden is found, or the budget is spent."""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from harness.campaigns.campaign import (
    RUNS_A_CLUSTER,
    SEED_RANGE,
    Campaign,
    Cell,
    Session,
    open_folder,
    run_campaign,
    runs_in,
)
from harness.campaigns.draws import Flags, drawn, pairs_of
from harness.campaigns.pages import render
from harness.campaigns.rarity import promises
from harness.campaigns.repetitions import (
    AGAIN,
    REPEATS,
    firsts,
    numbered,
    repetitions,
    topic_of,
    with_repetitions,
)
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.campaigns.time_spent import TimeSpent
from harness.core.errors import UsageError
from harness.core.fault import describe
from harness.core.run_dir import SCHEMA, canonical_json, write_atomically
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from harness.run.nemesis import plan
from verifiers.situations.situation import SITUATIONS

_CANDIDATES = 12
_FIRST_TO_VARY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dealt:
    """The settings and the seed of one run, and what they deal, in words."""

    flags: Flags
    seed: int
    kinds: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Search:
    """What is looked for, and what was seen so far.

    Attributes:
        make: makes the scenario that flags describe, on a topic of its own.
        flags: what was given; everything else is drawn.
        kafka: version of the brokers.
        seed: draws settings and plans.
        draws: whether settings are drawn for each run.
        stop_at_first: whether the search ends once something forbidden was found and repeated.
        stop_at: anomalies, or one kind of an anomaly, `lost-write(explained)`; once one of them was
            found where it is forbidden the search ends, and nothing is repeated. Empty: none ends
            it.
        results: of the runs so far.
    """

    make: Callable[[Flags, str], Scenario]
    flags: Flags
    kafka: str
    seed: int
    draws: bool = True
    stop_at_first: bool = False
    stop_at: frozenset[str] = frozenset()
    results: Sequence[ScenarioResult] = ()
    _dealt_to: dict[int, _Dealt] = field(default_factory=dict)

    def cells(self) -> Iterator[Cell[ScenarioResult]]:
        """Yield runs; after a run that found something, that run again a few times."""
        for cell in with_repetitions(
            map(self._cell, count(1)),
            results=lambda: self.results,
            # The other defects of a version are not what the time is meant for.
            is_wanted=lambda run: run.verdict is Verdict.INVALID and not self.stop_at,
        ):
            yield cell
            if self.stop_at_first and cell.settings.get(AGAIN) == REPEATS:
                return

    def is_over(self) -> bool:
        """Return whether what the search is to end at was found."""
        return any(map(self.is_last, _found(self.results)))

    def is_last(self, result: ScenarioResult) -> bool:
        """Return whether a run found what the search is to end at, without repetitions."""
        return bool(self.stop_at & shown_by(result))

    def _cell(self, number: int, again: int | None = None) -> Cell[ScenarioResult]:
        if number not in self._dealt_to:
            self._dealt_to[number] = self._rarest(number)
        dealt = self._dealt_to[number]
        flags, seed = dealt.flags, dealt.seed
        # Runs share clusters.
        scenario = self.make(flags, topic_of(number, again))
        settings = {
            "number": number,
            "seed": seed,
            "flags": {name: value for name, value in flags.items() if value is not None},
        }
        which = f"repetition {again} of number {number}" if again else f"number {number}"
        return scenario_cell(
            scenario,
            settings=json.loads(json.dumps(numbered(settings, again), default=str)),
            title=f"{which} · {scenario.contract} · seed {seed}",
            seed=seed,
            shares_cluster=True,
            again=None if again else partial(self._cell, number),
        )

    def _rarest(self, number: int) -> _Dealt:
        """Return, of some settings and seeds, those with most of what was dealt least so far.

        What led to situations that few runs reached comes more often, and the plan of a run that
        reached one for the first time comes once more, with other settings.
        """
        cluster = (number - 1) // RUNS_A_CLUSTER
        # The run before is not judged yet: with what is known of it the order would hang on time.
        reached = {
            int(result.settings["number"]): {s for s, times in result.situations.items() if times}
            for result in firsts(self.results)
            if int(result.settings["number"]) < number - 1
        }
        dealt = Counter(kind for each in self._dealt_to.values() for kind in each.kinds)
        promise = promises({n: self._dealt_to[n].kinds for n in reached}, reached)
        varied = self._dealt_to[number - 2].seed if _is_new(reached, number - 2) else None
        best: _Dealt | None = None
        most = 0.0
        refused: UsageError | None = None
        for candidate in range(_CANDIDATES):
            stream = f"{self.seed}/{number}/{candidate}"
            seed = varied
            if seed is None:
                seed = Random(f"{stream}/seed").randrange(SEED_RANGE)  # noqa: S311 (a draw that its seed repeats, no secret)
            flags: Flags = self.flags
            pairs: dict[str, float] = {}
            if self.draws:
                flags = drawn(
                    self.flags, stream, clusters=str(self.seed), cluster=cluster, kafka=self.kafka
                )
                pairs = pairs_of(flags, self.flags, kafka=self.kafka)
            try:
                scenario = self.make(flags, topic_of(number, None))
            except UsageError as error:
                # Some draws contradict each other, or what was given.
                refused = error
                continue
            kinds = pairs | _kinds(scenario, seed)
            news = sum(
                promise.get(kind, 1.0) / (1 + dealt[kind] / share) for kind, share in kinds.items()
            )
            if best is None or news > most:
                best, most = _Dealt(flags=flags, seed=seed, kinds=frozenset(kinds)), news
        if best is None:
            raise refused or UsageError("Nothing can be drawn.")
        return best


def _is_new(reached: Mapping[int, Collection[str]], number: int) -> bool:
    """Return whether a run reached what no run before it did; the first few always do."""
    before = {name for n, names in reached.items() if n < number for name in names}
    return number > _FIRST_TO_VARY and not before.issuperset(reached.get(number, ()))


def _found(results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """Return the runs that found something forbidden, repetitions left out."""
    return [result for result in firsts(results) if result.verdict is Verdict.INVALID]


def _forbidden(result: ScenarioResult) -> dict[str, int]:
    """Return how often a run found each anomaly that its contract forbids."""
    return {
        name: each.count
        for name, each in result.anomalies.items()
        if each.count and not each.permitted
    }


def shown_by(result: ScenarioResult) -> frozenset[str]:
    """Return the anomalies that a run shows and its contract forbids, with and without their kinds.

    An anomaly with its kind is written `lost-write(explained)`.
    """
    kinds = {f"{each.anomaly}({each.kind})" for each in result.fingerprints if each.kind}
    return frozenset(kinds.union(_forbidden(result)))


def _kinds(scenario: Scenario, seed: int) -> dict[str, float]:
    """Return what a plan deals: each fault on each kind of target, after each kind of event.

    Returns:
        In words, each with 1.0: nothing is to come more seldom than anything else.
    """
    found, before = [], ""
    for step in plan(scenario, seed):
        fault, target = (describe(thing)["name"] for thing in (step.fault, step.target))
        if step.after is None:
            found.append(f"{fault} on {target}")
        else:
            event = describe(step.after.event)["name"]
            found.append(f"{before}, after {event} {fault} on {target}")
        before = f"{fault} on {target}"
    return dict.fromkeys(found, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSummary:
    """A search as far as it has come.

    Attributes:
        seed: of the search.
        kafka: version of the brokers.
        elapsed_s: since it began, or went on, seconds.
        results: in the order of the runs.
        earlier: names of the runs that were made before it went on.
    """

    seed: int
    kafka: str
    elapsed_s: float
    results: Sequence[ScenarioResult]
    earlier: frozenset[str] = frozenset()

    @property
    def firsts(self) -> list[ScenarioResult]:
        """The runs that repeat no other."""
        return firsts(self.results)

    @property
    def verdict(self) -> Verdict:
        """INVALID if something forbidden was found; VALID if some run is and none is INVALID."""
        verdicts = {result.verdict for result in self.results}
        if Verdict.INVALID in verdicts:
            return Verdict.INVALID
        return Verdict.VALID if Verdict.VALID in verdicts else Verdict.UNKNOWN

    @property
    def situations(self) -> dict[str, int]:
        """In how many runs each situation was reached, the rarest first."""
        counts = {
            name: sum(bool(result.situations.get(name)) for result in self.results)
            for name in SITUATIONS
        }
        return dict(sorted(counts.items(), key=lambda item: (item[1], item[0])))

    @property
    def patterns(self) -> dict[str, dict[str, int]]:
        """In how many runs each pattern led to each situation that was reached, the most first."""
        counts = {
            name: Counter(p for result in self.results for p in result.reached_by.get(name, ()))
            for name in self.situations
        }
        return {name: dict(each.most_common()) for name, each in counts.items() if each}

    @property
    def found(self) -> list[dict[str, Any]]:
        """Each run that found something forbidden, and how many of its repetitions did."""
        entries = []
        for result in _found(self.results):
            again = repetitions(result, self.results)
            entries.append(
                {
                    "run": result.run,
                    "number": result.settings["number"],
                    "seed": result.settings["seed"],
                    "flags": result.settings["flags"],
                    "forbidden": _forbidden(result),
                    "shown": sorted(shown_by(result)),
                    "repeated": len(again),
                    "found_again": sum(r.verdict is Verdict.INVALID for r in again),
                }
            )
        return entries

    @property
    def time_spent(self) -> TimeSpent:
        """How much of the time clients worked, and some fault was in force."""
        return TimeSpent.of(self.results, self.elapsed_s, earlier=self.earlier)

    @property
    def runs_an_hour(self) -> float:
        """Runs, repetitions among them, in an hour."""
        return self.time_spent.runs_an_hour

    def lines(self) -> list[str]:
        """Return the summary for a console."""
        reached = sum(map(bool, self.situations.values()))
        verdicts = Counter(result.verdict.name for result in self.firsts)
        tally = ", ".join(f"{verdicts[v.name]} {v.name}" for v in Verdict if verdicts[v.name])
        told = (
            f"{self.verdict.name}  {len(self.firsts)} runs ({tally}) on Kafka {self.kafka}",
            f"{self.runs_an_hour:.0f} an hour",
            str(self.time_spent),
            f"{reached} of {len(self.situations)} situations",
        )
        lines = [" · ".join(filter(None, told))]
        for entry in self.found:
            forbidden = ", ".join(f"{name} ×{n:,}" for name, n in entry["forbidden"].items())
            lines.append(
                f"  {forbidden or 'forbidden'}: run {entry['number']}, seed {entry['seed']}, "
                f"{self.again(entry)}: {entry['run']}"
            )
        rare = [name for name, runs in self.situations.items() if not runs]
        lines.append(f"  never reached: {', '.join(rare) or 'none'}")
        return lines

    @staticmethod
    def again(entry: Mapping[str, Any]) -> str:
        """Say how often something in `found` was found again."""
        if not entry["repeated"]:
            return "not tried again"
        return f"found again {entry['found_again']} of {entry['repeated']} times"

    def document(self) -> dict[str, Any]:
        """Return the summary as one JSON object."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.name,
            "kafka": self.kafka,
            "seed": self.seed,
            "elapsed_s": round(self.elapsed_s, 1),
            "runs_an_hour": round(self.runs_an_hour, 1),
            **self.time_spent.document(),
            "found": self.found,
            "situations": self.situations,
            "patterns": self.patterns,
            "runs": [result.in_summary() for result in self.results],
        }

    def write(self, folder: Path) -> None:
        """Write the summary as JSON and as Markdown."""
        write_atomically(folder / "summary.json", canonical_json(self.document()))
        write_atomically(folder / "summary.md", render("search.md.j2", summary=self))


def run_search(search: Search, session: Session) -> SearchSummary:
    """Make runs until the budget is spent, or until the search is over.

    Raises:
        UsageError: the search cannot be; there is nothing to go on with, or the store cannot be
            written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    asked: Mapping[str, Any] = {
        "schema": SCHEMA,
        "seed": search.seed,
        "kafka": search.kafka,
        "draws": search.draws,
        "flags": {name: str(value) for name, value in search.flags.items() if value is not None},
    }
    folder = open_folder(session, f"*-search-{search.seed}", asked)
    earlier = runs_in(folder)
    begin = time.monotonic()

    def summarize(results: Sequence[ScenarioResult]) -> SearchSummary:
        search.results = results
        return SearchSummary(
            seed=search.seed, kafka=search.kafka, elapsed_s=time.monotonic() - begin,
            results=results, earlier=earlier,
        )  # fmt: skip

    campaign = Campaign(
        cells=search.cells(),
        read=ScenarioResult.read,
        summarize=summarize,
        is_over=search.is_over,
        is_last=search.is_last,
    )
    summary = run_campaign(campaign, folder, session)
    session.progress.say(f"the search's summary lies in {folder}")
    return summary
