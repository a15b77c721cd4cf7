"""A night: many contracts and seeds within a time budget, and one summary."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from harness.campaigns.conduct import conduct
from harness.campaigns.configure import DEFAULT_SCENARIO, Overrides, configure
from harness.core.errors import KafkaChaosError, UsageError
from harness.core.progress import Progress
from harness.core.run_dir import SCHEMA, canonical_json, write_atomically
from harness.core.verdict import Verdict
from harness.core.wait import pause
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun

log = logging.getLogger(__name__)

CONTROL = "leader_cut_and_kill"
_CONTRACTS = tuple((acks, min_isr) for acks in ("all", "1", "0") for min_isr in (2, 1))
_SEED_RANGE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night is to do.

    Attributes:
        budget_s: how long it may take, seconds; the control runs in any case.
        kafka: version; None leaves the scenarios' own.
        workload: of all runs but the control; None leaves the scenarios' own.
        duration_s: length of each run's schedule; None leaves the scenarios' own.
        seed: draws the seeds of the runs.
        store: where run folders and the summary lie.
        master: Spark master.
    """

    budget_s: float
    kafka: str | None
    workload: str | None = None
    duration_s: float | None
    seed: int
    store: Path
    master: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of the night.

    Attributes:
        scenario: its name.
        acks: of the contract.
        min_isr: of the contract.
        seed: of the run.
        workload: its name; None is the scenario's own.
    """

    scenario: str
    acks: str
    min_isr: int
    seed: int
    workload: str | None = None

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.scenario, self.workload)))
        return f"{what} acks={self.acks} min.isr={self.min_isr} seed={self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What came of one cell.

    Attributes:
        cell: what was run.
        verdict: its verdict; UNKNOWN if it could not be run.
        reasons: why it is not VALID.
        anomalies: how many of each were found.
        run: its folder, by name; None if none was made.
        seconds: how long it took.
    """

    cell: Cell
    verdict: Verdict
    reasons: tuple[str, ...]
    anomalies: dict[str, int]
    run: str | None
    seconds: float


@dataclass(slots=True)
class Summary:
    """A night that was spent."""

    night: Night
    entries: list[Entry] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well if the control did not lose what it must."""
        verdicts = [entry.verdict for entry in self.entries]
        controls = [e.verdict for e in self.entries if e.cell.scenario == CONTROL]
        if not controls or all(verdict is not Verdict.VALID for verdict in controls):
            verdicts.append(Verdict.UNKNOWN)
        return Verdict.merge(verdicts)

    @property
    def exit_code(self) -> int:
        """The exit code of the worst verdict."""
        return self.verdict.exit_code

    def lines(self) -> list[str]:
        """Return the summary for a console."""
        tally = {v: sum(e.verdict is v for e in self.entries) for v in Verdict}
        head = " · ".join(f"{number} {verdict.name}" for verdict, number in tally.items())
        rows = [
            f"{entry.verdict.name:<8} {entry.cell!s:<58} {entry.seconds:5.0f} s  {_found(entry)}"
            for entry in self.entries
        ]
        return [f"{self.verdict.name}  {len(self.entries)} runs: {head}", *rows]

    def json(self) -> str:
        """Return the summary as one JSON document."""
        return canonical_json(
            {
                "schema": SCHEMA,
                "verdict": self.verdict.name,
                "seed": self.night.seed,
                "budget_s": self.night.budget_s,
                "runs": [_plain(entry) for entry in self.entries],
            }
        )

    def markdown(self) -> str:
        """Return the summary as a Markdown table."""
        head = f"**{self.verdict.name}** · {len(self.entries)} runs · seed {self.night.seed}\n\n"
        rows = [
            f"| {e.verdict.name} | {e.cell.scenario} | {e.cell.acks} | {e.cell.min_isr} | "
            f"{e.cell.seed} | {_found(e)} | {e.run or ''} |"
            for e in self.entries
        ]
        table = [
            "| verdict | scenario | acks | min ISR | seed | found | run |",
            "|---|---|---|---|---|---|---|",
            *rows,
        ]
        return head + "\n".join(table) + "\n"

    def write_junit(self, path: Path) -> None:
        """Write one test case a run: UNKNOWN is an error, INVALID a failure."""
        suite = TestSuite("kafka-chaos nightly")
        for entry in self.entries:
            case = TestCase(str(entry.cell), classname="kafka_chaos.nightly", time=entry.seconds)
            text = " ".join(entry.reasons) or entry.verdict.name
            if entry.verdict is Verdict.INVALID:
                case.result = [Failure(text)]
            elif entry.verdict is Verdict.UNKNOWN:
                case.result = [Error(text)]
            suite.add_testcase(case)
        document = JUnitXml()
        document.add_testsuite(suite)
        document.write(str(path), pretty=True)


def cells(seed: int, *, workload: str | None = None, kafka: str | None = None) -> Iterator[Cell]:
    """Return the cells of a night, the control first, then every contract with ever new seeds.

    Contracts under which the workload cannot be run are left out.

    Raises:
        UsageError: there is no such workload, or it can be run under none.
    """
    # Refused before anything is made: the cells themselves are drawn one by one.
    return _drawn(seed, _contracts(workload, kafka), workload)


def _drawn(
    seed: int, contracts: tuple[tuple[str, int], ...], workload: str | None
) -> Iterator[Cell]:
    random = Random(seed)  # noqa: S311 (a schedule, not a secret)
    yield Cell(scenario=CONTROL, acks="1", min_isr=2, seed=random.randrange(_SEED_RANGE))
    for _ in count():
        for acks, min_isr in contracts:
            drawn = random.randrange(_SEED_RANGE)
            yield Cell(
                scenario=DEFAULT_SCENARIO, acks=acks, min_isr=min_isr, seed=drawn,
                workload=workload,
            )  # fmt: skip


def _contracts(workload: str | None, kafka: str | None) -> tuple[tuple[str, int], ...]:
    fitting: list[tuple[str, int]] = []
    refusal: UsageError | None = None
    for acks, min_isr in _CONTRACTS:
        try:
            configure(
                DEFAULT_SCENARIO,
                Overrides(
                    cluster={"kafka": kafka},
                    contract={"acks": acks, "min_isr": min_isr},
                    workload_name=workload,
                ),
            )
        except UsageError as error:
            refusal = error
        else:
            fitting.append((acks, min_isr))
    if not fitting and refusal is not None:
        raise refusal
    return tuple(fitting)


def spend_night(night: Night, *, progress: Progress, stop: threading.Event) -> Summary:
    """Run cells until the budget does not allow another; go on after failures.

    The summary is written anew after each run, so that an aborted night has one too.
    """
    summary = Summary(night)
    drawn = cells(night.seed, workload=night.workload, kafka=night.kafka)
    begin = time.monotonic()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = night.store / f"{stamp}-nightly-{night.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for cell in drawn:
        longest_s = max((entry.seconds for entry in summary.entries), default=0.0)
        spent_s = time.monotonic() - begin
        if stop.is_set() or (summary.entries and spent_s + longest_s > night.budget_s):
            break
        progress.say(f"night: {cell}")
        entry = _run(cell, night, progress, stop)
        summary.entries.append(entry)
        progress.say(f"night: {cell}: {entry.verdict.name} {_found(entry)}")
        write_atomically(folder / "summary.json", summary.json())
        write_atomically(folder / "summary.md", summary.markdown())
        summary.write_junit(folder / "junit.xml")
        if entry.run is None:
            # Nothing could be started at all: do not spin through the night.
            pause(min(30.0, night.budget_s / 20), stop)
    progress.say(f"the night's summary lies in {folder}")
    return summary


def _run(cell: Cell, night: Night, progress: Progress, stop: threading.Event) -> Entry:
    begin = time.monotonic()
    contract = {"acks": cell.acks, "min_isr": cell.min_isr}
    try:
        scenario = configure(
            cell.scenario,
            Overrides(
                cluster={"kafka": night.kafka},
                contract=contract,
                workload_name=cell.workload,
                # The control's script has a length of its own.
                duration_s=None if cell.scenario == CONTROL else night.duration_s,
            ),
        )
        runner = Runner(
            run=ScenarioRun(scenario),
            seed=cell.seed,
            store=night.store,
            progress=progress,
            stop=stop,
        )
        outcome = conduct(runner, master=night.master)
    except KafkaChaosError as error:
        log.warning("%s could not be run: %s", cell, error)
        return Entry(
            cell=cell, verdict=Verdict.UNKNOWN, reasons=(str(error),), anomalies={}, run=None,
            seconds=time.monotonic() - begin,
        )  # fmt: skip
    document = json.loads((outcome.run_dir.path / "verdict.json").read_text(encoding="utf-8"))
    return Entry(
        cell=cell,
        verdict=outcome.verdict,
        reasons=tuple(document["reasons"]),
        anomalies={name: found["count"] for name, found in document["anomalies"].items()},
        run=outcome.run_dir.name,
        seconds=time.monotonic() - begin,
    )


def _found(entry: Entry) -> str:
    found = ", ".join(f"{name} ×{number}" for name, number in entry.anomalies.items())
    if entry.verdict is Verdict.UNKNOWN and entry.reasons:
        return f"{found + ' · ' if found else ''}{entry.reasons[0]}"
    return found or "nothing"


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        **asdict(entry.cell),
        "verdict": entry.verdict.name,
        "reasons": list(entry.reasons),
        "anomalies": entry.anomalies,
        "run": entry.run,
        "seconds": round(entry.seconds, 1),
    }
