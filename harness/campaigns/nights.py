"""A night: runs of many contracts and seeds until its time is spent, and one summary."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any, Protocol

from harness.campaigns.campaign import (
    SEED_RANGE,
    Campaign,
    Cell,
    Session,
    asked_in,
    campaigns_in,
    open_folder,
    run_campaign,
    runs_in,
)
from harness.campaigns.configure import DEFAULT_SCENARIO, Overrides, configure
from harness.campaigns.contracts import combine
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.known import KnownFindings
from harness.campaigns.night_findings import NightFinding, findings_of
from harness.campaigns.night_index import write_index
from harness.campaigns.night_junit import write_junit
from harness.campaigns.night_log import CONTROL, NightLog, NightRun, read_nights
from harness.campaigns.pages import render
from harness.campaigns.prune import is_passing, reduce_run
from harness.campaigns.repetitions import (
    firsts,
    numbered,
    repetitions,
    topic_of,
    with_repetitions,
)
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell, tally_of
from harness.campaigns.time_spent import TimeSpent
from harness.campaigns.titles import title
from harness.core.progress import Say
from harness.core.run_dir import SCHEMA, canonical_json, write_atomically
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from verifiers.situations.situation import SITUATIONS

_FOLDER = "*-nightly-{seed}"


class Asked(Protocol):
    """What a night is to do: contracts (`Night`), or the matrix of a file (`NightMatrix`)."""

    @property
    def seed(self) -> int | None:
        """Draws the seeds of the runs; None: go on with a night of any seed."""

    def asked(self) -> dict[str, Any]:
        """Return it as plain JSON."""

    def reject(self) -> None:
        """Reject it if nothing of it can be run.

        Raises:
            UsageError: nothing can.
        """

    def with_seed(self, seed: int) -> "Asked":
        """Return the same with another seed."""

    def cells(self, before: Sequence[NightRun] = ()) -> Iterator[Cell[ScenarioResult]]:
        """Yield the runs, the control first, without an end; `before` are those of other nights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night of one version and workload, under every contract.

    Attributes:
        kafka: version; None leaves the scenarios' own.
        workload: of all runs but the control; None leaves the scenarios' own.
        client: the library of the client processes; None: the harness's own.
        duration_s: length of each run's schedule; None leaves the scenarios' own.
        seed: draws the seeds of the runs; None: go on with a night of any seed.
    """

    kafka: str | None = None
    workload: str | None = None
    client: str | None = None
    duration_s: float | None = None
    seed: int | None = None

    def asked(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)

    @classmethod
    def read(cls, asked: Mapping[str, Any], seed: int | None) -> "Night":
        """Return the night that was asked for, as `asked` tells it."""
        names = ("kafka", "workload", "client", "duration_s")
        return cls(**{name: asked[name] for name in names}, seed=seed)

    def reject(self) -> None:
        """Reject it if the workload can be run under no contract.

        Raises:
            UsageError: there is no such workload, or it can be run under none.
        """
        self.contracts()

    def with_seed(self, seed: int) -> "Night":
        """Return the same with another seed."""
        return replace(self, seed=seed)

    def cells(self, before: Sequence[NightRun] = ()) -> Iterator[Cell[ScenarioResult]]:
        """Yield the control, then every contract with ever new seeds, without an end."""
        del before  # six contracts are soon through
        random = Random(self.seed)  # noqa: S311 (a schedule, not a secret)
        contracts = cycle(self.contracts())
        for number in count(1):
            contract = {"acks": "1", "min_isr": 2} if number == 1 else next(contracts)
            yield self._cell(number, contract, random.randrange(SEED_RANGE))

    def _cell(
        self, number: int, contract: Mapping[str, Any], seed: int, again: int | None = None
    ) -> Cell[ScenarioResult]:
        # The control's script has a contract, a workload and a length of its own.
        is_control = number == 1
        name = CONTROL if is_control else DEFAULT_SCENARIO
        workload = None if is_control else self.workload
        own = {"scenario": name, **contract, "seed": seed, "workload": workload}
        settings = numbered(own, again)
        return scenario_cell(
            self._configured(name, contract, topic=topic_of(number, again)),
            settings=settings,
            title=title(settings),
            seed=seed,
            shares_cluster=True,
            # What the control finds is what it must find.
            again=None if is_control else partial(self._cell, number, contract, seed),
        )

    def contracts(self) -> list[dict[str, Any]]:
        """Return the contracts under which the workload can be run.

        Raises:
            UsageError: there is no such workload, or it can be run under none.
        """
        scenarios, _ = combine(
            {"acks": ("all", "1", "0"), "min_isr": (2, 1)},
            lambda contract: self._configured(DEFAULT_SCENARIO, contract, topic="night"),
            seed=0,
        )
        contracts = (scenario.contract for scenario in scenarios)
        return [{"acks": each.acks, "min_isr": each.min_isr} for each in contracts]

    def _configured(self, name: str, contract: Mapping[str, Any], *, topic: str) -> Scenario:
        """Return a scenario of this night; a topic of its own lets runs share a cluster."""
        overrides = Overrides(
            cluster={"kafka": self.kafka},
            contract=contract,
            workload={"topic": topic},
            client=self.client,
        )
        if name != CONTROL:
            overrides = replace(overrides, workload_name=self.workload, duration_s=self.duration_s)
        return configure(name, overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSummary:
    """A night that was spent, or as much of it as there is yet.

    Attributes:
        seed: of the night.
        budget_s: how long it might take, seconds.
        results: in the order of the runs.
        elapsed_s: since it began, or went on, seconds.
        earlier: the runs that were made before it went on, by the names of their folders.
        name: of its folder.
        before: the runs of earlier nights of the store.
        known: the findings that are known.
    """

    seed: int
    budget_s: float | None
    results: Sequence[ScenarioResult]
    elapsed_s: float = 0.0
    earlier: frozenset[str] = frozenset()
    name: str = ""
    before: Sequence[NightRun] = ()
    known: KnownFindings = field(default_factory=KnownFindings)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well if the control did not lose what it must.

        Findings that are known do not count.
        """
        return self.known.verdict_of_night(self.results)

    @property
    def runs(self) -> list[NightRun]:
        """The runs of this night and of all before it."""
        tonight = [NightRun(night=self.name, result=result) for result in self.results]
        return [*self.before, *tonight]

    @property
    def findings(self) -> list[NightFinding]:
        """Whatever was found in this night and before, the new first."""
        return findings_of(self.runs, night=self.name, known=self.known)

    @property
    def tally(self) -> str:
        """How many runs ended how, and how many situations they have reached."""
        runs = tally_of(self.results)
        if not self.results:
            return runs
        reached = sum(bool(each["count"]) for each in self.situations.values())
        situations = f"{reached} of {len(self.situations)} situations"
        return " · ".join(filter(None, (runs, str(self.time_spent), situations)))

    @property
    def time_spent(self) -> TimeSpent:
        """How much of the time clients worked, and some fault was in force."""
        return TimeSpent.of(self.results, self.elapsed_s, earlier=self.earlier)

    @property
    def situations(self) -> dict[str, dict[str, Any]]:
        """How often each situation was reached: in how many `runs`, the `count`, and the `faults`.

        Those reached in the most runs come first, those that were never reached last.
        """
        found: dict[str, dict[str, Any]] = {
            name: {
                "runs": sum(bool(result.situations.get(name)) for result in self.results),
                "count": sum(result.situations.get(name, 0) for result in self.results),
                "faults": sorted(
                    {f for result in self.results for f in result.reached_under.get(name, ())}
                ),
            }
            for name in SITUATIONS
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1]["runs"], item[0])))

    def lines(self) -> list[str]:
        """Return the summary for a console."""
        titles = [title(result.settings) for result in self.results]
        width = max(map(len, titles), default=0)
        rows = [
            f"{result.ended:<8} {words:<{width}} {result.seconds:5.0f} s  {result.found}"
            for words, result in zip(titles, self.results, strict=True)
        ]
        return [f"{self.verdict.name}  {self.tally}", *rows, *self.told()]

    def told(self) -> list[str]:
        """Return what is to be said of findings, a line each."""
        tonight = [
            f"{'known' if each.known else each.state} finding {each.fingerprint.id} in "
            f"{each.tonight} run{'s' * (each.tonight != 1)}{self._again(each.fingerprint)}: "
            f"{each.fingerprint.text}"
            for each in self.findings
            if each.tonight
        ]
        lacking = Counter(
            reason for result in self.results if result.by_machine for reason in result.reasons
        )
        machine = [
            f"not run, {count} time{'s' * (count != 1)}: {reason}"
            for reason, count in lacking.items()
        ]
        return [*tonight, *self.known.told(self.runs, night=self.name), *machine]

    def _again(self, fingerprint: Fingerprint) -> str:
        """Return how often a finding came again in the repetitions of runs that showed it."""
        again = [
            repetition
            for run in firsts(self.results)
            if fingerprint in run.fingerprints
            for repetition in repetitions(run, self.results)
        ]
        count = sum(fingerprint in repetition.fingerprints for repetition in again)
        return f", again in {count} of {len(again)} repetitions" if again else ""

    def document(self) -> dict[str, Any]:
        """Return the summary as one JSON object."""
        return {
            "schema": SCHEMA,
            "night": self.name,
            "verdict": self.verdict.name,
            "findings": [each.document(night=self.name) for each in self.findings if each.tonight],
            "told": self.told(),
            "seed": self.seed,
            "budget_s": self.budget_s,
            "elapsed_s": round(self.elapsed_s, 1),
            **self.time_spent.document(),
            "situations": self.situations,
            "runs": [result.in_summary() for result in self.results],
        }

    def write(self, folder: Path) -> None:
        """Write the summary as JSON, as Markdown and as JUnit's XML."""
        write_atomically(folder / "summary.json", canonical_json(self.document()))
        write_atomically(folder / "summary.md", render("night.md.j2", summary=self, title=title))
        tonight = [run for run in self.runs if run.night == self.name]
        write_junit(tonight, self.known, folder / "junit.xml")


def last_asked(store: Path) -> dict[str, Any] | None:
    """Return what the last night of a store was asked for; None if there is none."""
    return next(map(asked_in, campaigns_in(store, _FOLDER.format(seed="*"))), None)


def spend_night(
    night: Asked,
    session: Session,
    *,
    known: KnownFindings | None = None,
    keeps_all: bool = True,
) -> NightSummary:
    """Make runs until the budget of the session does not allow another one.

    Args:
        night: what is wanted.
        session: how it is run.
        known: the findings that are known.
        keeps_all: whether passing runs keep all of their folders; else what is read of them later.

    Raises:
        UsageError: the night cannot be; there is nothing to go on with, or the store cannot be
            written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    night.reject()
    known = known or KnownFindings()
    asked: dict[str, Any] = {"schema": SCHEMA, **night.asked()}
    if night.seed is None:
        del asked["seed"]
    folder = open_folder(session, _FOLDER.format(seed=asked.get("seed", "*")), asked)
    seed = int(asked_in(folder)["seed"])
    earlier = runs_in(folder)
    begin = time.monotonic()
    log = NightLog(folder.parent, folder.name)
    before = [run for run in read_nights(folder.parent) if run.night < folder.name]
    reduced = set[str]()
    judged: list[ScenarioResult] = []

    def summarize(results: Sequence[ScenarioResult]) -> NightSummary:
        # A process that was killed between the two files has a result without its line.
        log.add(results)
        judged[:] = results
        if not keeps_all:
            fresh = [result for result in results if result.run not in reduced]
            _reduce_passing(fresh, folder.parent, session.progress.say)
            reduced.update(result.run for result in fresh)
        return NightSummary(
            seed=seed, budget_s=session.budget_s, results=results,
            elapsed_s=time.monotonic() - begin, earlier=earlier, name=folder.name,
            before=before, known=known,
        )  # fmt: skip

    campaign = Campaign(
        cells=with_repetitions(
            night.with_seed(seed).cells(before),
            results=lambda: judged,
            is_wanted=lambda run: run.verdict is Verdict.INVALID and not known.covers(run),
        ),
        read=ScenarioResult.read,
        summarize=summarize,
    )
    try:
        summary = run_campaign(campaign, folder, session)
    finally:
        log.close()
    session.progress.say(f"the night's summary lies in {folder}")
    if summary.results:
        page = write_index(folder.parent, summary.runs, known=summary.known)
        session.progress.say(f"all nights: {page}")
    return summary


def _reduce_passing(results: Sequence[ScenarioResult], store: Path, say: Say) -> None:
    """Take away what is not read again of the runs that are VALID; whatever fails is said."""
    for result in results:
        folder = store / result.run
        passes = result.run and result.verdict is Verdict.VALID and is_passing(folder)
        if passes and (failure := reduce_run(folder)):
            say(failure)
