"""The report as a JUnit file, for CI servers."""

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.core.verdict import Verdict
from verifiers.report import sentences, units
from verifiers.report.model import FaultRecord, RunRecord
from verifiers.run_folder.result import AnomalyFinding


def write_junit(record: RunRecord, path: Path) -> None:
    """Write a test case for each checker, for each fault's evidence, and for the verdict.

    Forbidden anomalies are failures. A crashed checker, a fault without proof and an UNKNOWN
    verdict are errors: a person has to look at them too.
    """
    suite = TestSuite(f"kafka-chaos {record.scenario}")
    properties = {
        "run": record.run,
        "seed": record.seed,
        "kafka": record.kafka,
        **({"client": record.client} if record.client else {}),
        "contract": sentences.contract(record),
        "command": record.command,
    }
    for name, value in properties.items():
        suite.add_property(name, units.visible(value, 4000))
    suite.add_testcase(_verdict_case(record))
    checkers, anomalies = record.report.checkers, record.report.anomalies
    for name in dict.fromkeys([*checkers, *anomalies]):
        state = units.visible(checkers.get(name, "ran"))
        suite.add_testcase(_checker_case(units.visible(name), state, anomalies.get(name)))
    for fault in record.faults:
        suite.add_testcase(_fault_case(fault))
    document = JUnitXml("kafka-chaos")
    document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]  # the library has no types
    document.write(str(path), pretty=True)


def _verdict_case(record: RunRecord) -> TestCase:
    case = TestCase("verdict", "kafka-chaos.verdict", sum(record.report.timing_s.values()))
    verdict = record.report.verdict
    lines = [sentences.headline(record), *sentences.reasons(record), *sentences.cures(record)]
    headline, *more = [units.visible(line, 4000) for line in lines]
    text = "\n".join([headline, *more])
    if verdict is not Verdict.VALID:
        kind = Failure if verdict is Verdict.INVALID else Error
        case.result = [kind(headline, verdict.name)]
        case.result[0].text = text
    case.system_out = text
    return case


def _checker_case(name: str, state: str, anomaly: AnomalyFinding | None) -> TestCase:
    case = TestCase(name, "kafka-chaos.checker")
    if anomaly is not None:
        text = units.visible(f"{sentences.found(name, anomaly)}. {anomaly.why}", 4000)
        if anomaly.permitted:
            case.system_out = f"Permitted by the contract: {text}"
        elif anomaly.undecided:
            case.result = [Error(text, "UNKNOWN")]
        else:
            case.result = [Failure(text, "forbidden")]
    elif state.startswith("crashed"):
        case.result = [Error(f"The checker {name} {state}.", "crashed")]
    elif state != "ran":
        case.result = [Skipped(state)]
    return case


def _fault_case(fault: FaultRecord) -> TestCase:
    case = TestCase(f"fault {fault.judged.id}: {fault.title}", "kafka-chaos.fault")
    if fault.injected_s is not None and fault.healed_s is not None:
        case.time = round(fault.healed_s - fault.injected_s, 3)
    evidence = (
        f"inject: {sentences.evidence(fault.details('inject'))}\n"
        f"heal: {sentences.evidence(fault.details('heal'))}"
    )
    if not fault.judged.proven:
        case.result = [Error(units.visible(sentences.shortcoming(fault), 4000), "not proven")]
        case.result[0].text = evidence
    case.system_out = evidence
    return case
