"""Why a frame that a checker needs is empty: nothing to look at, or no evidence.

The tables below answer for frames of `verifiers.checking.checker.NEEDED`; a frame that they do not
name is taken to be empty because there was nothing to look at.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.core.version import numbers
from verifiers.adequacy.evidence import Evidence
from verifiers.situations.events import RunEvents
from verifiers.timeline.frames import MONOTONE_SINCE, asking_all, unbound

_ASKED_WITHIN_NS = 10_000_000_000
"""A leader that is well, and whose ISR is too small for so long, is seen by the monitor (twice a
second) and asked by the sampler (once a second), also on a machine that is busy."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a frame is empty.

    Attributes:
        why: in a few words, as behind a colon.
        is_missing: whether there should be something: the checker could not run.
    """

    why: str
    is_missing: bool = False


def absences(evidence: Evidence) -> dict[str, Absence]:
    """Return, by frame, why it is empty; the frames that are not are left out."""
    found = {name: why(evidence) for name, why in _WHY.items()}
    for name, why in _WHY_NO_ROWS.items():
        if not evidence.timeline.rows[name]:
            found[name] = why if isinstance(why, Absence) else why(evidence)
    return {name: absence for name, absence in found.items() if absence is not None}


def _processing(evidence: Evidence) -> Absence | None:
    if evidence.run.group is not None:
        if evidence.run.group.processed:
            return None
        return Absence("the group processed nothing", is_missing=True)
    # Scripts of claims may have groups of their own.
    return None if evidence.is_claim else Absence("the run has no group that processes records")


def _txns(evidence: Evidence) -> Absence | None:
    return None if evidence.history.files["txn"] else Absence("there were no transactions")


def _old(evidence: Evidence) -> Absence | None:
    known = numbers(evidence.run.kafka)
    if known and known < MONOTONE_SINCE:
        return Absence("brokers before 2.2 may take a high watermark back (KIP-207)")
    return None


def _watermarks(evidence: Evidence) -> Absence:
    return _old(evidence) or Absence("no high watermark was sampled", is_missing=True)


def _ceilings(evidence: Evidence) -> Absence:
    if why := unbound(evidence.run):
        return Absence(why)
    if evidence.replicas.reasons:
        # They make the run UNKNOWN by themselves.
        return Absence("where leader epochs begin is not known: not all replicas were compared")
    return _old(evidence) or Absence(
        "no high watermark could be held against a leader's epoch", is_missing=True
    )


def _shortages(evidence: Evidence) -> Absence:
    if not asking_all(evidence.run.path):
        return Absence("no producer asked for acks=all")
    timeline = evidence.timeline.timeline
    counted = any(sample.get("sample") == "isr-count" for sample in timeline.samples)
    if not timeline.states:
        return Absence("the committed ISRs are not known", is_missing=True)
    if not counted and _was_small(evidence.events):
        return Absence("no leader was asked for the size of its ISR", is_missing=True)
    return Absence("no leader said that its ISR was below min.insync.replicas")


def _was_small(events: RunEvents) -> bool:
    """Tell whether a leader that could answer had too small an ISR for long enough to be asked."""
    return any(
        len(state.isr) < events.run.contract.min_isr
        and state.leader is not None
        and state.to_ns - state.from_ns > _ASKED_WITHIN_NS
        and events.fault_on(state.leader, state.from_ns) is None
        for _, states in events.states()
        for state in states
    )


def _demands(evidence: Evidence) -> Absence:
    if evidence.run.meta.get("available_within_s") is None:
        return Absence("the scenario sets no bound (available_within_s)")
    return Absence("at no time did the faults leave enough brokers under load")


def _coordinators(evidence: Evidence) -> Absence:
    return _txns(evidence) or Absence(
        "the logs of the transaction coordinators were not copied", is_missing=True
    )


def _clients(evidence: Evidence) -> Absence | None:
    if any(client["exit_code"] is not None for client in evidence.timeline.rows["clients"]):
        return None
    return Absence("nobody wrote down how the clients ended", is_missing=True)


_WHY: Mapping[str, Callable[[Evidence], Absence | None]] = {
    "processing": _processing,
    "txns": _txns,
    "clients": _clients,
}

_WHY_NO_ROWS: Mapping[str, Callable[[Evidence], Absence] | Absence] = {
    "watermarks": _watermarks,
    "ceilings": _ceilings,
    "shortages": _shortages,
    "demands": _demands,
    "recoveries": Absence(
        "nobody wrote down how the cluster came back at the end", is_missing=True
    ),
    "processes": Absence("nobody asked how the brokers' processes ended", is_missing=True),
    "refusals": Absence("no broker told how many batches it had refused"),
    "elections": Absence("no log tells of an election of a controller"),
    "coordinators": _coordinators,
    "group_ends": Absence("the run has no group whose members come and go"),
    "explanations": Absence("no client has a history", is_missing=True),
}
"""Of frames of the timeline: why they have no rows."""
