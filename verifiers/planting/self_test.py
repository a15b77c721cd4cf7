"""The self-test: anomalies are planted into copies of a run, and evidence is taken out of others.

A verification of a copy must find the planted offences, and otherwise only what it finds in the
run itself. Where evidence is taken away it must break the rule of adequacy that asks for it, and
not say VALID. A verifier that passes has shown on this very run that it detects anomalies, and
that it notices when it cannot.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.errors import KafkaChaosError, UsageError
from harness.core.grouping import by_key
from harness.core.run_dir import SCHEMA, RunDir
from harness.core.verdict import Verdict
from harness.history.seal import seal
from verifiers.adequacy.rule import RULES
from verifiers.checking.checker import checkers_of_runs
from verifiers.judging.job import Report, verify_all
from verifiers.planting.plant import PLANTS, Plant, Planted
from verifiers.planting.run_contents import (
    OFFENCE_COLUMNS,
    NothingToPlant,
    Offence,
    RunContents,
    read_found,
)
from verifiers.planting.run_copy import RunCopy, copy_run

MOST_SHOWN = 8
"""So many offences of a plant that was missed, or falsely raised, are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantOutcome:
    """The result of one plant.

    Attributes:
        name: of the plant.
        checker: that must find it, or the rule that must be broken.
        told: what was done to the copy; or why nothing could be, if `not_planted`.
        not_planted: whether the run holds nothing that could be changed so.
        planted: how many offences of its own it has.
        implied: those that follow from them, and why, by anomaly.
        missed: those that were not found.
        raised: what was found and not planted.
        gone: what the run has and its copy has not.
        crashes: what checkers that crashed said.
    """

    name: str
    checker: str
    told: str
    not_planted: bool = False
    planted: int = 0
    implied: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    missed: tuple[Offence, ...] = ()
    raised: tuple[Offence, ...] = ()
    gone: tuple[Offence, ...] = ()
    crashes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything planted was found and nothing else, or nothing could be planted."""
        return not (self.missed or self.raised or self.gone or self.crashes)

    def to_json(self) -> dict[str, Any]:
        """Return the plant as it stands in the document of a self-test."""
        return {
            "plant": self.name,
            "checker": self.checker,
            "outcome": self.outcome,
            "told": self.told,
            "planted": self.planted,
            "implied": {
                name: {"count": count, "because": why}
                for name, (count, why) in self.implied.items()
            },
            "missed": _shown(self.missed),
            "raised": _shown(self.raised),
            "gone": _shown(self.gone),
            "crashes": list(self.crashes),
        }

    @property
    def outcome(self) -> str:
        """One word: found, failed, or not planted."""
        if self.not_planted:
            return "not planted"
        return "found" if self.passed else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """The results of all plants in copies of one run.

    Attributes:
        run: name of the run.
        baseline: what the run has without any plant: how often, by anomaly.
        plants: by name.
        seconds: what it took.
    """

    run: str
    baseline: Mapping[str, int]
    plants: tuple[PlantOutcome, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether some plant was planted, every one was found, and nothing else."""
        any_planted = any(not plant.not_planted for plant in self.plants)
        return any_planted and all(plant.passed for plant in self.plants)

    def to_json(self) -> dict[str, Any]:
        """Return the document of `kafka-chaos verify --self-test --json`."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "passed": self.passed,
            "baseline": dict(self.baseline),
            "plants": [plant.to_json() for plant in self.plants],
            "seconds": self.seconds,
        }


def self_test(
    run_dir: Path,
    *,
    master: str | None = None,
    exact: bool = False,
    only: Collection[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> SelfTest:
    """Plant every kind of anomaly into copies of a run, verify them, and compare.

    The run itself is only read. Its copies are links in the folder for temporary files, and are
    gone afterwards.

    Args:
        run_dir: the folder of a run.
        master: a Spark master; None is all cores of this machine.
        exact: look at every record, also in a long history.
        only: names of plants; empty is all of them.
        say: called with a sentence about each step.

    Raises:
        UsageError: it is not a run folder, or it has no history.
        HistoryUnreadable: what was recorded is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    begin_ns = time.monotonic_ns()
    source = RunDir.open(run_dir)
    source.reject_pruned()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-self-test-") as folder:
        # Spark reports files by their real paths.
        scratch = Path(folder).resolve()
        base = scratch / "as-it-is"
        copy_run(source.path, base, raw=True)
        if (base / "history" / "raw").is_dir():
            seal(base)
        say(f"Verifying {source.name} as it is.")
        (report,) = verify_each([base], master=master, exact=exact)
        before = read_found(base / "anomalies")
        contents = RunContents(base, before)
        if not contents.has("send"):
            raise UsageError(f"{run_dir} has no send in its history: there is nothing to plant in.")
        broken = {name for name, answer in report.adequacy.items() if answer["state"] == "broken"}
        planted, not_planted = _plant_all(scratch, base, contents, only, broken)
        say(
            f"Verifying {len(planted)} copies of it together, each with one anomaly planted or "
            "some evidence taken away."
        )
        paths = [scratch / _folder(plant) for plant, _ in planted]
        reports = verify_each(paths, master=master, exact=exact)
        outcomes = [
            _gap_noticed(plant, result, report)
            if plant.rule
            else _compared(plant, result, report, before, read_found(path / "anomalies"))
            for (plant, result), report, path in zip(planted, reports, paths, strict=True)
        ]
    return SelfTest(
        run=source.name,
        baseline={name: finding.count for name, finding in report.anomalies.items()},
        plants=tuple(sorted([*outcomes, *not_planted], key=lambda outcome: outcome.name)),
        seconds=round((time.monotonic_ns() - begin_ns) / 1e9, 3),
    )


def verify_each(paths: Sequence[Path], *, master: str | None, exact: bool) -> list[Report]:
    """Return the verdicts on run folders, in order; none of them may be damaged."""
    reports = []
    for report in verify_all(paths, master=master, exact=exact):
        if isinstance(report, KafkaChaosError):
            raise report
        reports.append(report)
    return reports


def _plant_all(
    scratch: Path,
    base: Path,
    contents: RunContents,
    only: Collection[str],
    broken: Collection[str],
) -> tuple[list[tuple[Plant, Planted]], list[PlantOutcome]]:
    """Make the copies; return the planted ones, and the plants for which the run has no records."""
    planted: list[tuple[Plant, Planted]] = []
    without_plant = {*checkers_of_runs(), *RULES} - {plant.subject for plant in PLANTS.values()}
    unknown = "no plant is known for it: register one (verifiers/planting/plant.py)"
    not_planted = [_unplanted(name, name, unknown) for name in without_plant if not only]
    for plant in PLANTS.values():
        if only and plant.name not in only:
            continue
        if plant.rule in broken:
            why_not = "the run breaks this rule as it is"
            not_planted.append(_unplanted(plant.name, plant.rule, why_not))
            continue
        path = scratch / _folder(plant)
        copy_run(base, path, raw=False)
        copy = RunCopy(path, contents)
        try:
            result = plant.apply(copy)
        except NothingToPlant as why:
            not_planted.append(_unplanted(plant.name, plant.subject, str(why)))
            continue
        copy.finish()
        planted.append((plant, result))
    return planted, not_planted


def _unplanted(name: str, checker: str, why: str) -> PlantOutcome:
    return PlantOutcome(name=name, checker=checker, told=why, not_planted=True)


def _folder(plant: Plant) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in plant.name)


def _outcome(plant: Plant, planted: Planted, report: Report) -> PlantOutcome:
    """Return the result of a plant, before what was found is held against what it planted."""
    crashed = sorted(name for name, how in report.checkers.items() if how == "crashed")
    return PlantOutcome(
        name=plant.name,
        checker=plant.subject,
        told=planted.told,
        crashes=tuple(f"The checker {name} crashed." for name in crashed),
    )


def _gap_noticed(plant: Plant, planted: Planted, report: Report) -> PlantOutcome:
    """Return whether a verification noticed that evidence is missing, and said why."""
    answer = report.adequacy[plant.rule]
    is_noticed = (
        report.verdict is not Verdict.VALID
        and answer["state"] == "broken"
        and set(answer["reasons"]) <= set(report.reasons)
    )
    missed = () if is_noticed else (Offence(anomaly=plant.rule),)
    return replace(_outcome(plant, planted, report), planted=1, missed=missed)


def _compared(
    plant: Plant,
    planted: Planted,
    report: Report,
    before: Sequence[Offence],
    after: Sequence[Offence],
) -> PlantOutcome:
    """Return whether a verification found what was planted, and else only what was there before."""
    fresh = Counter(after) - Counter(before)
    found = by_key(after, lambda offence: offence)
    missed: list[Offence] = []
    for offence in planted.offences:
        facts = offence.detail.items()
        if fresh[offence] and any(facts <= row.detail.items() for row in found[offence]):
            fresh[offence] -= 1
        else:
            missed.append(offence)
    following = [offence for offence in planted.offences if offence.because]
    implied = by_key(following, lambda offence: offence.anomaly)
    return replace(
        _outcome(plant, planted, report),
        planted=len(planted.offences) - len(following),
        implied={name: (len(of), of[-1].because) for name, of in implied.items()},
        missed=tuple(missed),
        raised=tuple(fresh.elements()),
        gone=tuple((Counter(before) - Counter(after)).elements()),
    )


def _shown(offences: Sequence[Offence]) -> dict[str, Any]:
    examples = [
        {name: getattr(offence, name) for name in OFFENCE_COLUMNS}
        for offence in offences[:MOST_SHOWN]
    ]
    return {"count": len(offences), "examples": examples}
