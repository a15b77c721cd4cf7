"""A night: runs of many contracts and seeds until its time is spent, and one summary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from harness.campaigns.campaign import (
    Campaign,
    Cell,
    Session,
    asked_in,
    open_folder,
    run_campaign,
)
from harness.campaigns.configure import DEFAULT_SCENARIO, Overrides, configure
from harness.campaigns.contracts import combine
from harness.campaigns.pages import render, tally
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.core.run_dir import SCHEMA, canonical_json, write_atomically
from harness.core.scenario import Scenario
from harness.core.verdict import Verdict
from verifiers.situations.situation import SITUATIONS

CONTROL = "leader_cut_and_kill"
_SEED_RANGE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night is to do.

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

    def cells(self) -> Iterator[Cell[ScenarioResult]]:
        """Yield the control, then every contract with ever new seeds, without an end."""
        random = Random(self.seed)  # noqa: S311 (a schedule, not a secret)
        contracts = cycle(self.contracts())
        for number in count(1):
            # The control's script has a contract, a workload and a length of its own.
            is_control = number == 1
            name = CONTROL if is_control else DEFAULT_SCENARIO
            contract = {"acks": "1", "min_isr": 2} if is_control else next(contracts)
            workload = None if is_control else self.workload
            seed = random.randrange(_SEED_RANGE)
            settings = {"scenario": name, **contract, "seed": seed, "workload": workload}
            scenario = self._configured(name, contract, topic=f"night-{number}")
            yield scenario_cell(
                scenario, settings=settings, title=title(settings), seed=seed, shares_cluster=True
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
    """

    seed: int
    budget_s: float | None
    results: Sequence[ScenarioResult]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well if the control did not lose what it must."""
        controls = (r.verdict for r in self.results if r.settings["scenario"] == CONTROL)
        missing = [] if Verdict.VALID in controls else [Verdict.UNKNOWN]
        return Verdict.merge([*(result.verdict for result in self.results), *missing])

    @property
    def tally(self) -> str:
        """How many runs ended how, and how many situations they have reached."""
        runs = tally("run", [result.verdict for result in self.results], Verdict)
        reached = sum(bool(each["count"]) for each in self.situations.values())
        return f"{runs} · {reached} of {len(self.situations)} situations" if self.results else runs

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
        rows = [
            f"{result.verdict.name:<8} {title(result.settings):<58} {result.seconds:5.0f} s  "
            f"{result.found}"
            for result in self.results
        ]
        return [f"{self.verdict.name}  {self.tally}", *rows]

    def document(self) -> dict[str, Any]:
        """Return the summary as one JSON object."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.name,
            "seed": self.seed,
            "budget_s": self.budget_s,
            "situations": self.situations,
            "runs": [result.in_summary() for result in self.results],
        }

    def write(self, folder: Path) -> None:
        """Write the summary as JSON, as Markdown and as JUnit's XML."""
        write_atomically(folder / "summary.json", canonical_json(self.document()))
        write_atomically(folder / "summary.md", render("night.md.j2", summary=self))
        suite = TestSuite("kafka-chaos nightly")
        for result in self.results:
            case = TestCase(
                title(result.settings), classname="kafka_chaos.nightly", time=result.seconds
            )
            reason = " ".join(result.reasons) or result.verdict.name
            if result.verdict is not Verdict.VALID:
                kind = Failure if result.verdict is Verdict.INVALID else Error
                case.result = [kind(reason)]
            suite.add_testcase(case)
        junit = JUnitXml()
        junit.add_testsuite(suite)
        junit.write(str(folder / "junit.xml"), pretty=True)


def title(settings: Mapping[str, Any]) -> str:
    """Return the settings of a run in words."""
    kinds = " ".join(filter(None, (settings["scenario"], settings["workload"])))
    return f"{kinds} acks={settings['acks']} min.isr={settings['min_isr']} seed={settings['seed']}"


def spend_night(night: Night, session: Session) -> NightSummary:
    """Make runs until the budget of the session does not allow another one.

    Args:
        night: what is wanted.
        session: how it is run.

    Raises:
        UsageError: the night cannot be; there is nothing to go on with, or the store cannot be
            written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    night.contracts()
    asked: dict[str, Any] = {"schema": SCHEMA, **asdict(night)}
    if night.seed is None:
        del asked["seed"]
    folder = open_folder(session, f"*-nightly-{asked.get('seed', '*')}", asked)
    seed = int(asked_in(folder)["seed"])

    campaign = Campaign(
        cells=replace(night, seed=seed).cells(),
        read=ScenarioResult.read,
        summarize=lambda results: NightSummary(
            seed=seed, budget_s=session.budget_s, results=results
        ),
    )
    summary = run_campaign(campaign, folder, session)
    session.progress.say(f"the night's summary lies in {folder}")
    return summary
