"""The judgement of a run: which findings its contract permits, and why it is not VALID."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.verdict import Verdict
from verifiers.adequacy.rule import Answer, reasons_of
from verifiers.checking.checker import CHECKERS
from verifiers.checking.execution import Found
from verifiers.judging.evidence import in_words, lost_when
from verifiers.oracle.circumstances import Circumstances
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.result import AnomalyFinding, JudgedFault
from verifiers.situations.effects import Effect

_MOST_CAUSES = 3
_RULINGS_FROM_BEST = ("permitted", "UNKNOWN", "forbidden")


def judge_findings(
    run: RunInput,
    found: Found,
    loss_causes: Mapping[str, int] | None = None,
    *,
    copies_destroyed: bool = False,
    last_known_led: bool = False,
) -> dict[str, AnomalyFinding]:
    """Return every anomaly that was found, the worst first, each judged by its kinds.

    Args:
        run: what was run.
        found: what the checkers found.
        loss_causes: the damage that lost records, in words, and how many each lost.
        copies_destroyed: whether faults destroyed every copy that an acknowledgement stands for.
        last_known_led: whether a last known leader led that was neither in the ISR nor eligible.
    """
    circumstances = Circumstances(
        contract=run.contract,
        kafka=run.kafka,
        destroyed=any(f.destroys_data for f in run.faults if f.injected_at_s is not None),
        copies_destroyed=copies_destroyed,
        last_known_led=last_known_led,
        clients_renew_epochs=run.clients_renew_epochs,
    )
    findings: dict[str, AnomalyFinding] = {}
    names = {anomaly for anomaly, _ in found.counts}
    for name in sorted(names, key=lambda name: (CHECKERS[name].severity, name)):
        checker = CHECKERS[name]
        kinds = {kind: n for (anomaly, kind), n in found.counts.items() if anomaly == name}
        rulings = {
            kind: checker.chapter.rule(kind, circumstances) for kind in sorted(kinds, key=str)
        }
        # Only the worst kinds are explained: those that are forbidden, else the undecided ones.
        worst = max((row.ruling for row in rulings.values()), key=_RULINGS_FROM_BEST.index)
        telling = [row for row in rulings.values() if row.ruling == worst]
        whys = dict.fromkeys(str(row.why) for row in telling)
        permits = dict.fromkeys(row.permits for row in telling if row.permits)
        count = sum(kinds.values())
        findings[name] = AnomalyFinding(
            count=count,
            permitted=telling[0].permitted,
            undecided=telling[0].undecided,
            why=" ".join([*whys, *(_lost_by(loss_causes or {}) if name == "lost-write" else ())]),
            permits=" and ".join(permits),
            kinds={kind or "": kinds[kind] for kind in rulings},
            examples=found.examples.get(name, ()),
            severity=checker.severity.value,
            phrase=checker.phrase(count),
            means=checker.chapter.means,
            first_ns=found.times.get(name, (None, None))[0],
            last_ns=found.times.get(name, (None, None))[1],
            forbidden_kinds=tuple(
                kind or "" for kind, row in rulings.items() if row.ruling == "forbidden"
            ),
        )
    return findings


def _lost_by(causes: Mapping[str, int]) -> list[str]:
    """Return which damage lost most of the lost records, in sentences."""
    told = [f"{line}." for line in lost_when(causes, "{:,}".format)[:_MOST_CAUSES]]
    more = sum(sorted(causes.values(), reverse=True)[_MOST_CAUSES:])
    return [*told, *([f"{more:,} more by other damage."] if more else [])]


def verdict_of(findings: Mapping[str, AnomalyFinding], reasons: Sequence[str]) -> Verdict:
    """Return INVALID if anything forbidden was found, else UNKNOWN if there is any reason."""
    verdicts = [Verdict.UNKNOWN if reasons else Verdict.VALID]
    verdicts += [Verdict.INVALID for finding in findings.values() if finding.forbidden]
    return Verdict.merge(verdicts)


def judge_liveness(
    meta: Mapping[str, Any],
    timeline: Mapping[str, Any],
    found: Mapping[tuple[str, str | None], int],
    widest: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the verdict on liveness: whether partitions took writes within the bound.

    Args:
        meta: run.json; `available_within_s` is what is asked, if anything.
        timeline: what verdict.json says of the timeline.
        found: how often each anomaly was found.
        widest: the widest time without an acknowledgement, of whichever partition.

    Returns:
        `verdict`: VALID, INVALID, or UNKNOWN where nothing is asked, or there was no time in which
        the faults left enough; `bound_s`, `judged_s` (how long that time was) and `widest`.
    """
    bound_s = meta.get("available_within_s")
    judged_s = timeline.get("judged_s", {}).get("demands", 0)
    verdict = Verdict.VALID if bound_s and judged_s > bound_s else Verdict.UNKNOWN
    if any(name == "unavailable" for name, _ in found):
        verdict = Verdict.INVALID
    return {"verdict": verdict.name, "bound_s": bound_s, "judged_s": judged_s, "widest": widest}


def why_not_valid(
    run: RunInput,
    findings: Mapping[str, AnomalyFinding],
    effects: Mapping[str, Effect],
    answers: Mapping[str, Answer],
    uncompared: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return, in sentences, why the run is not VALID; forbidden anomalies come first.

    Args:
        run: what was run.
        findings: what the checkers found, judged.
        effects: what was felt of each fault, by its id.
        answers: what became of each rule of adequacy.
        uncompared: why replicas were not compared in full.
    """
    return (
        *_forbidden(findings),
        *_undecided(findings),
        *_unfinished(run),
        *_undamaged(run.faults),
        *_unfelt(effects),
        *(run.group.why_not() if run.group else ()),
        *reasons_of(answers),
        *uncompared,
        *_unprovoked(run, findings),
    )


def _forbidden(findings: Mapping[str, AnomalyFinding]) -> list[str]:
    return [
        f"{name} was found {finding.count:,} time{'s' * (finding.count != 1)}: {finding.why}"
        for name, finding in findings.items()
        if finding.forbidden
    ]


def _undecided(findings: Mapping[str, AnomalyFinding]) -> list[str]:
    return [
        f"{name}: {finding.count:,} {finding.phrase}. {finding.why}"
        for name, finding in findings.items()
        if finding.undecided
    ]


def _unfinished(run: RunInput) -> list[str]:
    reasons = [str(reason) for reason in run.meta.get("reasons", [])]
    state = run.meta.get("state")
    if state != "complete":
        reasons.insert(0, f"The run did not come to its end: its state is {state}.")
    return reasons


def _undamaged(faults: Sequence[JudgedFault]) -> list[str]:
    if not faults:
        return ["No fault was injected: an unharmed cluster proves nothing."]
    reasons = [_unproven(fault) for fault in faults if not fault.proven]
    if len(reasons) == len(faults):
        reasons.insert(0, "No fault is proven: whether the cluster was damaged at all is unknown.")
    return reasons


def _unfelt(effects: Mapping[str, Effect]) -> list[str]:
    proven = [effect for effect in effects.values() if effect.felt != "unproven"]
    if not proven or any(effect.felt == "felt" for effect in proven):
        return []
    return [
        "No fault was felt: no leader, ISR, controller or registration changed, and no send failed "
        "or was slow. Hold faults longer than the brokers' limits, or send while they last."
    ]


def _unproven(fault: JudgedFault) -> str:
    whom = " and ".join(f"broker {victim}" for victim in fault.victims) or fault.target
    subject = f"Fault {fault.id}, {fault.name} of {whom},"
    if fault.error is not None:
        return f"{subject} failed: {fault.error}"
    if fault.injected_at_s is None:
        return f"{subject} was decided and never injected."
    if not fault.evidence["inject"].get("observed"):
        return f"{subject} has no witness: {_in_words(fault.evidence['inject'])}"
    if fault.healed_at_s is None:
        return f"{subject} was injected and never seen to heal."
    seen = _in_words(fault.evidence["heal"])
    return f"{subject} was injected, but no witness saw it heal: {seen}"


def _in_words(evidence: Mapping[str, Any]) -> str:
    details, question = evidence.get("details"), evidence.get("question")
    text = in_words(details if isinstance(details, Mapping) else {})
    return f"{text}; {question}" if question else f"{text}."


def _unprovoked(run: RunInput, findings: Mapping[str, AnomalyFinding]) -> list[str]:
    return [
        f"The damage of this scenario must cause {name} under acks={run.contract.acks}, and there "
        "was none: the experiment shows nothing."
        for name in run.meta.get("provokes", [])
        if name not in findings
    ]
