"""A night as a JUnit file, whose test cases are called the same every night."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from harness.campaigns.known import KnownFindings
from harness.campaigns.night_log import NightRun
from harness.campaigns.scenario_result import ScenarioResult
from harness.core.verdict import Verdict
from verifiers.report import units

_LONGEST = 4000


def write_junit(runs: Sequence[NightRun], known: KnownFindings, path: Path) -> None:
    """Write a test case for each scenario, workload, contract and version of a night.

    How often a night has run one depends on its budget, so all its runs are one case, as good as
    the worst of them: a CI server follows it from night to night. Seed, folder, report and
    fingerprints of each run are properties.

    Args:
        runs: of the night.
        known: the findings that are known: a case with no others is skipped.
        path: of the file.
    """
    cases: dict[str, list[NightRun]] = {}
    for run in runs:
        cases.setdefault(case_name(run.result), []).append(run)
    suite = TestSuite("kafka-chaos nightly")
    for name, of_case in cases.items():
        suite.add_testcase(_case(name, of_case, known))
    document = JUnitXml()
    document.add_testsuite(suite)
    document.write(str(path), pretty=True)


def case_name(result: ScenarioResult) -> str:
    """Return the name of the test case of a run, which does not depend on its seed."""
    parts = (
        result.settings.get("scenario"),
        result.workload,
        str(result.contract),
        f"Kafka {result.kafka}" if result.kafka else "",
    )
    return units.visible(" / ".join(str(part) for part in parts if part), _LONGEST)


def _case(name: str, runs: Sequence[NightRun], known: KnownFindings) -> TestCase:
    seconds = round(sum(run.result.seconds for run in runs), 1)
    case = TestCase(name, classname="kafka_chaos.nightly", time=seconds)
    worst = Verdict.merge(known.verdict(run.result) for run in runs)
    telling = [run for run in runs if known.verdict(run.result) is worst]
    if all(run.result.by_machine for run in runs):
        case.result = [Skipped(_words(runs, "not run"))]
    elif worst is Verdict.VALID:
        told = [run for run in runs if run.result.verdict is Verdict.INVALID]
        case.result = [Skipped(_words(told, "known"))] if told else []
    else:
        kind = Failure if worst is Verdict.INVALID else Error
        case.result = [kind(_words(telling, worst.name), worst.name)]
    case.append(_properties(runs))  # type: ignore[no-untyped-call]  # the library has no types
    return case


def _words(runs: Iterable[NightRun], otherwise: str) -> str:
    """Return why runs are not VALID, each after the name of its folder."""
    lines = (
        ": ".join(filter(None, (run.result.run, " ".join(run.result.reasons) or otherwise)))
        for run in runs
    )
    return units.visible(" | ".join(lines), _LONGEST)


def _properties(runs: Sequence[NightRun]) -> Properties:
    properties = Properties()  # type: ignore[no-untyped-call]  # the library has no types
    for run in runs:
        facts = [
            ("seed", run.result.settings.get("seed")),
            ("run", run.result.run),
            ("report", run.report),
            *(("fingerprint", each.id) for each in run.result.fingerprints),
        ]
        for name, value in facts:
            if value not in (None, ""):
                properties.add_property(Property(name, units.visible(str(value), _LONGEST)))
    return properties
