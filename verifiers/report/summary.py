"""The short forms of a report: plain lines for a console, Markdown for a CI page."""

from collections.abc import Iterator

from harness.core.grouping import by_key
from harness.core.verdict import Verdict
from verifiers.report import sentences, units
from verifiers.report.model import FaultRecord, RunRecord
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.result import AnomalyFinding
from verifiers.spark import storage

_WORTH_A_WORD_S = 1.0


def console_lines(record: RunRecord) -> list[str]:
    """Return the summary of a run in at most 25 lines of plain text."""
    report = record.report
    lines = [
        f"{sentences.SIGNS[report.verdict]} {report.verdict.name}  {_first_line(record)}",
        *(f"  {line}" for line in _about(record)),
    ]
    # The reasons and the cures of an UNKNOWN run say nearly the same: the console shows reasons.
    if report.verdict is not Verdict.VALID:
        lines += _few([f"  - {reason}" for reason in sentences.reasons(record)], 5, "reasons")
    lines += _few([f"  {line}" for line in _fault_lines(record)], 6, "faults")
    found = [
        f"  {name} ×{units.count(a.count)}  {a.ruling if a.permitted else a.ruling.upper()}: "
        f"{sentences.found(name, a)}{_first_place(a)}"
        for name, a in report.anomalies.items()
    ]
    lines += _few(found or [_nothing_found(record)], 4, "anomalies")
    lines += _few([f"    {cause}" for cause in sentences.loss_causes(record)], 2, "causes")
    lines += [f"  {line}" for line in (_unavailable(record), _timing(record)) if line]
    home = LargeFiles.of(record.folder).home
    lines.append(f"  report: {storage.join(home, 'report.html')}")
    if report.verdict is not Verdict.VALID and record.command:
        lines.append(f"  again: {record.command}")
    return [units.visible(line, _limit(line, first=not n)) for n, line in enumerate(lines)]


def _limit(line: str, *, first: bool) -> int:
    # Commands and paths are useless if they are cut.
    return 4000 if line.startswith(("  again:", "  report:")) else 400 if first else 200


def markdown(record: RunRecord) -> str:
    """Return the summary of a run as Markdown of at most 15 lines."""
    report = record.report
    sign = sentences.SIGNS[report.verdict]
    head = f"### {sign} {report.verdict.name}: {_safe(_first_line(record))}"
    what, *about = map(_safe, _about(record))
    lines = [head, "", what, "", *(f"- {line}" for line in about)]
    if report.verdict is not Verdict.VALID:
        lines += _few([f"- {_safe(r)}" for r in sentences.reasons(record)], 3, "reasons", "- ")
    found = [
        _safe(f"{name} ×{units.count(a.count)} {a.ruling}") for name, a in report.anomalies.items()
    ]
    lines.append(
        f"- anomalies: {', '.join(found[:8])}" if found else f"- {_nothing_found(record).strip()}"
    )
    unproven = [_safe(fault.title) for fault in record.faults if not fault.judged.proven]
    if unproven:
        lines.append(f"- without proof: {', '.join(unproven[:8])}")
    unavailable = _unavailable(record)
    lines += [f"- {_safe(unavailable)}"] if unavailable else []
    if record.command:
        lines.append(f"- again: `{units.visible(record.command, 2000).replace('`', chr(39))}`")
    return "\n".join(lines) + "\n"


def _first_line(record: RunRecord) -> str:
    return f"{sentences.headline(record)} {sentences.broken(record)}"


def _about(record: RunRecord) -> list[str]:
    """Return what was run, under which contract, how much, and what came of its claim."""
    counts, claim = " · ".join(sentences.counts(record)), record.claim
    lines = [record.what, sentences.contract(record), counts]
    return [*lines, f"{claim.outcome} claim {claim.number}: {claim.words}"] if claim else lines


def _fault_lines(record: RunRecord) -> Iterator[str]:
    """Yield a line for each fault with one proof: its witnesses, or what an unproven one lacks."""

    def alike(fault: FaultRecord) -> tuple[str, bool, str]:
        lack = sentences.shortcoming(fault, in_full=False)
        return fault.judged.name, fault.judged.proven, lack or ", ".join(sentences.witnesses(fault))

    for (name, proven, proof), faults in by_key(record.faults, alike).items():
        times = f" ×{len(faults)}" if len(faults) > 1 else ""
        victims = sorted({victim for fault in faults for victim in fault.judged.victims})
        nodes = f" on {', '.join(map(str, victims))}" if victims else ""
        state = "proven by" if proven else "NOT PROVEN:"
        felt = f", {_felt(faults)}" if proven and all(fault.judged.felt for fault in faults) else ""
        yield f"{name}{times}{nodes}: {state} {proof or 'evidence without details'}{felt}"


def _felt(faults: list[FaultRecord]) -> str:
    felt = sum(fault.judged.felt == "felt" for fault in faults)
    if felt in (0, len(faults)):
        return "felt" if felt else "NOT FELT"
    return f"{felt} of {len(faults)} felt"


def _first_place(anomaly: AnomalyFinding) -> str:
    first = anomaly.examples[0] if anomaly.examples else None
    if first is None or first.topic is None or first.offset is None:
        return ""
    return f", first at {first.topic}/{first.partition} offset {units.count(first.offset)}"


def _nothing_found(record: RunRecord) -> str:
    ran = sum(state == "ran" for state in record.report.checkers.values())
    if not ran:
        return "  no checker has run"
    return f"  no anomaly found by {units.counted(ran, 'checker')}"


def _unavailable(record: RunRecord) -> str:
    gap = sentences.widest_gap(record)
    if gap is None:
        return ""
    return sentences.liveness_line(record) or (
        f"widest time without an acknowledgement: {units.span(gap.width_s)}, "
        f"{gap.topic}/{gap.partition}, from {units.instant(gap.from_s)}"
    )


def _timing(record: RunRecord) -> str:
    # Only the page shows parts of a phase, such as "verify: start Spark", and short phases.
    whole = [(name, seconds) for name, seconds in sentences.timing(record) if ":" not in name]
    longest = [(name, seconds) for name, seconds in whole if seconds >= _WORTH_A_WORD_S]
    if not longest:
        return ""
    parts = ", ".join(f"{name} {units.span(seconds)}" for name, seconds in longest)
    return f"took {units.span(sum(seconds for _, seconds in whole))}: {parts}"


def _few(lines: list[str], most: int, noun: str, indent: str = "  ") -> list[str]:
    if len(lines) <= most:
        return lines
    rest = len(lines) - most + 1
    return [*lines[: most - 1], f"{indent}… and {rest} more {noun}; the report has them all"]


def _safe(text: str) -> str:
    """Return text with all characters escaped that mean something in Markdown or HTML."""
    clean = units.visible(text, 400).replace("&", "&amp;").replace("<", "&lt;")
    for sign in "\\`*_[]|":
        clean = clean.replace(sign, f"\\{sign}")
    return clean
