"""Fingerprints of findings: what tells a finding from another one, whatever run it was found in."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.core.contract import Contract
from verifiers.run_folder.result import AnomalyFinding, JudgedFault, OffenceExample, Report
from verifiers.situations.loss_causes import kind_of_cause
from verifiers.situations.situation import AFTERMATH_NS

CONTROL_PREFIX = "control-"
"""How the name of a finding begins that was made in a run which must lose: it is never known."""

_UNEXPLAINED = "nothing known"
_SEVERAL = "one of several faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What is the same of a finding in every run that shows it.

    It holds no seed, time, offset, broker or version: two runs that show one thing share it.

    Attributes:
        anomaly: what was found, and is forbidden.
        kind: refines the anomaly; empty if it has none.
        workload: what the clients did.
        contract: the class of the contract, as `contract_class` returns it.
        explained_by: the damage that explains it.
        control: the scenario, if its damage must cause an anomaly; else empty.
    """

    anomaly: str
    kind: str = ""
    workload: str = ""
    contract: str = ""
    explained_by: str = ""
    control: str = ""

    @property
    def text(self) -> str:
        """The finding in a line."""
        what = f"{self.anomaly} ({self.kind})" if self.kind else self.anomaly
        control = f"control {self.control}" if self.control else ""
        return " · ".join(
            filter(None, (what, control, self.workload, self.contract, self.explained_by))
        )

    @property
    def id(self) -> str:
        """A name for it: the anomaly, and eight hexadecimal digits of everything."""
        digits = hashlib.sha256(self.text.encode()).hexdigest()[:8]
        return f"{CONTROL_PREFIX if self.control else ''}{self.anomaly}-{digits}"

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"id": self.id, "text": self.text, **asdict(self)}


def fingerprints(
    report: Report,
    *,
    contract: Contract,
    workload: str,
    control: str = "",
    origin_ns: int | None = None,
) -> tuple[Fingerprint, ...]:
    """Return a fingerprint for each thing that a run shows and its contract forbids.

    Args:
        report: on the run.
        contract: of the run.
        workload: what its clients did.
        control: the scenario, if its damage must cause an anomaly.
        origin_ns: the zero of the report's seconds; None if unknown, and no offence is then laid to
            a fault by its time.

    Returns:
        One for each anomaly, forbidden kind of it, and damage that explains it: for lost records
        what the verifier says has lost them, else the fault in force at the time.
    """
    found = [
        Fingerprint(
            anomaly=name,
            kind=kind,
            workload=workload,
            contract=contract_class(contract),
            explained_by=damage,
            control=control,
        )
        for name, finding in report.anomalies.items()
        if finding.forbidden
        for kind in forbidden_kinds(finding)
        for damage in _explanations(report, finding, kind, origin_ns)
    ]
    return tuple(dict.fromkeys(found))


def forbidden_kinds(finding: AnomalyFinding) -> tuple[str, ...]:
    """Return the kinds of a forbidden anomaly that the contract forbids; "" stands for no kind."""
    return finding.forbidden_kinds or tuple(finding.kinds) or ("",)


def contract_class(contract: Contract) -> str:
    """Return what of a contract decides how much may go wrong, without its exact figures."""
    in_sync = "one in sync suffices" if contract.min_isr == 1 else "several must be in sync"
    parts = (
        f"acks={contract.acks}",
        in_sync if contract.acks == "all" else "",
        "idempotent" if contract.idempotent else "not idempotent",
        "unclean election" if contract.unclean_election else "",
        "a single replica" if contract.replication_factor == 1 else "",
    )
    return ", ".join(filter(None, parts))


def _explanations(
    report: Report, finding: AnomalyFinding, kind: str, origin_ns: int | None
) -> list[str]:
    """Return each damage that explains a kind of an anomaly; one that says so if none is known."""
    if kind == "unexplained":
        return [_UNEXPLAINED]
    examples = [each for each in finding.examples if (each.kind or "") == kind]
    causes = {kind_of_cause(cause) for each in examples if (cause := each.detail.get("lost_by"))}
    if causes:
        return sorted(causes)
    faults = _faults_at(report, examples, origin_ns)
    if faults:
        # An offence late in a run may meet a fault by chance: what most of them met explains them.
        return [min(faults, key=lambda name: (-faults[name], name))]
    return [_of_run(report)]


def _faults_at(
    report: Report, examples: list[OffenceExample], origin_ns: int | None
) -> Counter[str]:
    """Return under which faults offences happened, and how many of them under each."""
    if origin_ns is None:
        return Counter()
    found = Counter[str]()
    for example in examples:
        if example.time_ns is None:
            continue
        at_s = (example.time_ns - origin_ns) / 1e9
        around = [fault for fault in report.faults if covers(fault, at_s)]
        if around:
            found[max(around, key=lambda fault: fault.injected_at_s or 0.0).name] += 1
    return found


def covers(fault: JudgedFault, at_s: float) -> bool:
    """Return whether a fault was in force at a time of the run, or had just been healed."""
    if fault.injected_at_s is None or fault.injected_at_s > at_s:
        return False
    return fault.healed_at_s is None or at_s <= fault.healed_at_s + AFTERMATH_NS / 1e9


def _of_run(report: Report) -> str:
    """Return the damage of a run that explains what has no time, such as differing replicas.

    What lost most records of the run counts first, then faults that take data from disks, then the
    only kind of fault that there was.
    """
    lost: Mapping[str, int] = report.replicas.get("located", {}).get("causes", {})
    if lost:
        weights = Counter[str]()
        for words, count in lost.items():
            weights[kind_of_cause(words)] += count
        return min(weights, key=lambda cause: (-weights[cause], cause))
    injected = [fault for fault in report.faults if fault.injected_at_s is not None]
    destroying = sorted({fault.name for fault in injected if fault.destroys_data})
    names = destroying or sorted({fault.name for fault in injected})
    if not names:
        return _UNEXPLAINED
    return names[0] if len(names) == 1 else _SEVERAL
