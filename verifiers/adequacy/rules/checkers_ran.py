"""Ran, skipped, could not."""

from verifiers.adequacy.absences import Absence, absences
from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, rule
from verifiers.checking.checker import CHECKERS, NEEDED, frames_wanted


@rule("checkers-ran")
def checkers_ran(evidence: Evidence) -> Answer:
    """Every checker that this run needs has run.

    A checker is skipped where there is nothing for it to look at, such as the transactions of a run
    without any; it could not run where the evidence that it rests on is missing.
    """
    states, whys = checker_states(evidence)
    could_not = {name: whys[name] for name in states if states[name] == "could not run"}
    reasons = [
        f"The checker {name} could not run: {why}." for name, why in could_not.items()
    ] + list(evidence.found.crashes)
    return judged(
        reasons,
        ran=sum(state == "ran" for state in states.values()),
        skipped={name: whys[name] for name in states if states[name] == "skipped"},
        could_not_run=could_not,
        crashed=[name for name, state in states.items() if state == "crashed"],
    )


def checker_states(evidence: Evidence) -> tuple[dict[str, str], dict[str, str]]:
    """Return what became of each checker, and why it did not run, both by name.

    Returns:
        "ran", "skipped", "could not run" or "crashed"; and for the second and third the reason.
    """
    absent = absences(evidence)
    states: dict[str, str] = {}
    whys: dict[str, str] = {}
    for name, outcome in evidence.found.checkers.items():
        needed = NEEDED.intersection(frames_wanted(CHECKERS[name]))
        missing = [absent[frame] for frame in sorted(needed) if frame in absent]
        if outcome == "crashed" or not missing:
            states[name] = outcome
            continue
        why: Absence = max(missing, key=lambda absence: absence.is_missing)
        states[name] = "could not run" if why.is_missing else "skipped"
        whys[name] = why.why
    return states, whys
