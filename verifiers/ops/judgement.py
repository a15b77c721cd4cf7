"""The judgement of op histories: which anomalies are permitted, and the verdict."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness.core.contract import Contract
from harness.core.run_dir import SCHEMA
from harness.core.verdict import Verdict
from verifiers.adequacy.rule import Answer, reasons_of
from verifiers.ops.adequacy import LOSSES, answers
from verifiers.ops.checking import OpChecked, OpExample
from verifiers.ops.cycles import EMPTY
from verifiers.ops.description import Described
from verifiers.ops.measured import Measured
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.table import rule

_ALWAYS = dict.fromkeys(
    ("int-send-skip", "G0", "G0-process", "G0-realtime", "PL-1-cycle-exists",
     "strong-PL-1-cycle-exists"),
    "Kafka's transactions do not isolate their writes from each other",
)  # fmt: skip
_SUBSCRIBED = dict.fromkeys(
    ("poll-skip", "nonmonotonic-poll"), "under --subscribe a rebalance may move a consumer"
)
_LOG_ORDER = dict.fromkeys(
    ("G1c", "G1c-process", "G1c-realtime", "PL-2-cycle-exists", "strong-PL-2-cycle-exists"),
    "with --ww-deps writes that mix close such cycles",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpOptions:
    """The options that permit further anomalies.

    With `subscribe` rebalances could move consumers between ops; with `ww_deps` a write depends on
    the one before it in the log; a `contract` permits what it permits in a run of the newest Kafka
    in which no fault destroyed data on disk.
    """

    subscribe: bool = False
    ww_deps: bool = False
    contract: Contract | None = None

    def permits(self, name: str, kinds: Iterable[str | None] = (None,)) -> str | None:
        """Return why an anomaly does not make a history INVALID; None if it does.

        Args:
            name: of the anomaly.
            kinds: those of its offences.
        """
        permitted = _ALWAYS | (_SUBSCRIBED if self.subscribe else {})
        permitted |= _LOG_ORDER if self.ww_deps else {}
        if name in permitted or self.contract is None:
            return permitted.get(name)
        circumstances = Circumstances.planned(self.contract, "", destroys=False)
        rulings = (
            [rule(LOSSES[0], None, circumstances)]
            if name in LOSSES
            else [rule(name, kind, circumstances) for kind in kinds]
        )
        return str(rulings[0].why) if all(ruling.permitted for ruling in rulings) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFinding:
    """All offences of one anomaly in a history, whether they are permitted and why, or why not.

    At most 32 are examples.
    """

    count: int
    permitted: bool
    why: str
    examples: tuple[OpExample, ...]

    def naming(self, record_of: Callable[[int], str | None]) -> "OpFinding":
        """Return the finding with `record` in each example whose value has a name."""
        named = tuple(
            example
            if example.value is None or (record := record_of(example.value)) is None
            else replace(example, detail={**example.detail, "record": record})
            for example in self.examples
        )
        return replace(self, examples=named)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in the document."""
        fields = {name: getattr(self, name) for name in ("count", "permitted", "why")}
        return fields | {"examples": [example.to_json() for example in self.examples]}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryVerdict:
    """The verdict on one op history, and everything that supports it.

    Attributes:
        history: the file, as it was named.
        verdict: VALID, INVALID or UNKNOWN.
        reasons: why it is not VALID; what is forbidden comes first.
        described: what is known of the file.
        options: what was permitted on request.
        timing_s: seconds by phase, of all histories that were verified together.
        anomalies: what was found, by name.
        checkers: "ran" or "crashed", by name; empty if the file cannot be judged.
        measured: metrics, which have no part in the verdict; None if the file cannot be judged.
        adequacy: what became of each rule of adequacy; empty if the file cannot be judged.
    """

    history: str
    verdict: Verdict
    reasons: tuple[str, ...]
    described: Described
    options: OpOptions
    timing_s: Mapping[str, float]
    anomalies: Mapping[str, OpFinding] = field(default_factory=dict)
    checkers: Mapping[str, str] = field(default_factory=dict)
    measured: Measured | None = None
    adequacy: Mapping[str, Answer] = field(default_factory=dict)

    @property
    def malformed(self) -> bool:
        """Whether the file could not be judged."""
        return bool(self.described.problems)

    @property
    def values(self) -> frozenset[int]:
        """The values of all examples."""
        examples = (e for finding in self.anomalies.values() for e in finding.examples)
        return frozenset(e.value for e in examples if e.value is not None)

    def naming(self, record_of: Callable[[int], str | None]) -> "HistoryVerdict":
        """Return the verdict with `record` in each example whose value stands for a record.

        Args:
            record_of: takes a value; returns how its user knows the record, None if by the value.
        """
        named = {name: finding.naming(record_of) for name, finding in self.anomalies.items()}
        return replace(self, anomalies=named)

    def to_json(self) -> dict[str, Any]:
        """Return the document of an op history (docs/op-history.md)."""
        anomalies = {name: self.anomalies[name].to_json() for name in sorted(self.anomalies)}
        return {
            "schema": SCHEMA,
            "history": self.history,
            "run": self.described.path.stem,
            "scenario": None,
            "seed": None,
            "kafka": None,
            "verdict": self.verdict.name,
            "reasons": list(self.reasons),
            "anomalies": anomalies,
            "error-types": sorted(self.anomalies),
            "bad-error-types": [n for n in sorted(anomalies) if not self.anomalies[n].permitted],
            "problems": [asdict(problem) for problem in self.described.problems],
            "counts": _counts(self.described),
            "faults": [],
            "metrics": {} if self.measured is None else self.measured.to_json(),
            "checkers": dict(self.checkers),
            "adequacy": {name: answer.to_json() for name, answer in self.adequacy.items()},
            "options": {
                "subscribe": self.options.subscribe,
                "ww-deps": self.options.ww_deps,
                "contract": None if (given := self.options.contract) is None else asdict(given),
            },
            "replicas": {},
            "timing_s": dict(self.timing_s),
        }


def judge_history(
    history: str,
    run: int,
    described: Described,
    checked: OpChecked,
    options: OpOptions,
    timing_s: Mapping[str, float],
) -> HistoryVerdict:
    """Return the verdict on one history, by what is known of its file and was found in it.

    `history` is its name, `run` its position among those that were checked.
    """
    if described.problems:
        return HistoryVerdict(
            history=history,
            verdict=Verdict.UNKNOWN,
            reasons=_malformed(history, described),
            described=described,
            options=options,
            timing_s=timing_s,
        )
    found = checked.found_in(run)
    permits = {name: options.permits(name, found.kinds.get(name, (None,))) for name in found.counts}
    anomalies = {
        name: OpFinding(
            count=count,
            permitted=permits[name] is not None,
            why=permits[name] or _unknown(name, options),
            examples=found.examples.get(name, ()),
        )
        for name, count in found.counts.items()
    }
    bad = [name for name in sorted(anomalies) if not anomalies[name].permitted and name != EMPTY]
    reasons = tuple(f"{name}: {anomalies[name].count} found." for name in bad)
    adequacy = answers(described, found, checked, contract=options.contract is not None)
    reasons += tuple(reasons_of(adequacy))
    verdict = Verdict.INVALID if bad else Verdict.UNKNOWN if reasons else Verdict.VALID
    return HistoryVerdict(
        history=history,
        verdict=verdict,
        reasons=reasons,
        anomalies=anomalies,
        described=described,
        checkers=checked.checkers,
        adequacy=adequacy,
        options=options,
        timing_s=timing_s,
        measured=Measured(records=found.measured, crashes=checked.unmeasured),
    )


def _unknown(name: str, options: OpOptions) -> str:
    if name == EMPTY:
        return "nothing depends on anything: nothing was shown"
    return "never permitted" if options.contract is None else "not permitted by the contract"


def _malformed(history: str, described: Described) -> tuple[str, ...]:
    sentences = [
        f"{history}: {problem.words}."
        if problem.line is None
        else f"{history}, line {problem.line}, {problem.words}."
        for problem in described.problems
    ]
    more = described.problem_count - len(sentences)
    if more > 0:
        sentences.append(f"{more} more lines of {history} have problems.")
    return tuple(sentences)


def _counts(described: Described) -> dict[str, int]:
    counts = described.counts
    ops, sends, polls = (
        {kind: counts.get((what, kind), 0) for kind in ("ok", "fail", "info")}
        for what in ("op", "send", "poll")
    )
    return {
        "lines": described.lines,
        "ops": sum(ops.values()) + described.open,
        "ok": ops["ok"],
        "fail": ops["fail"],
        "info": ops["info"] + described.open,
        "sends": sum(sends.values()) + described.pending,
        "acked": sends["ok"],
        "failed": sends["fail"],
        "indeterminate": described.indeterminate,
        "reserved": 0,
        "read": sum(polls.values()),
        "final": 0,
    }
