"""The sentences of a report, common to the page, the console and the summary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.verdict import Verdict
from verifiers.judging.evidence import in_words, lost_when, spoken
from verifiers.report import fields, units
from verifiers.report.model import FaultRecord, Gap, RunRecord
from verifiers.run_folder.result import AnomalyFinding, OffenceExample
from verifiers.situations.situation import in_a_sentence

_WITNESSES = {
    "process": "process table",
    "process_before": "process table",
    "process_after": "process table",
    "process_state": "process state",
    "exit_status": "exit status",
    "clean_shutdown": "marker of a clean shutdown",
    "listener": "probe of the listener",
    "from_outside": "probe from outside",
    "cut": "log end offsets",
    "files_shorter": "sizes of the log files",
    "probes": "probe connections",
    "dropped_packets": "packet counters",
}

_SHORTEST_GAP_S = 0.5
"""A pause of the clients' own batches is no unavailability."""

_REACTIONS = {
    "shrink_s": "it had left the ISRs",
    "elect_s": "others led what it had led",
    "recover_s": "healed, all ISRs were full",
}

_MOST_CAUSES = 12
_MOST_FAULTS = 60

SIGNS = {Verdict.VALID: "✓", Verdict.UNKNOWN: "?", Verdict.INVALID: "✗"}
_PHASES = ("start", "steady", "faults", "heal", "recover", "final", "stop", "verify")


def headline(record: RunRecord) -> str:
    """Return one or two sentences on how the run ended."""
    report = record.report
    forbidden, undecided = record.ruled("forbidden"), record.ruled("unknown")
    permitted = record.ruled("permitted")
    acked = units.counted(report.counts.acked, "acknowledged record")
    if report.verdict is Verdict.INVALID:
        if not forbidden:
            return "Something that the contract forbids was found."
        return f"{found(*forbidden[0])}.{_besides(forbidden[1:])}"
    if not record.verified:
        return "Nothing is known: this run has no verdict yet."
    if undecided:
        return f"{found(*undecided[0])}.{_besides(undecided[1:])}"
    if permitted:
        name, first = permitted[0]
        by = first.permits or "the contract"
        text = f"{found(name, first)}, as {by} permits{_purpose(record, name)}."
        lost = "lost-write" in dict(permitted)
        if report.verdict is Verdict.VALID and not lost:
            text = f"None of {acked} was lost under {_proven(record)}; {text}"
        text += _besides(permitted[1:])
        more = " A pass needs more proof."
        return text + more if report.verdict is Verdict.UNKNOWN else text
    if report.verdict is Verdict.UNKNOWN:
        return f"Nothing forbidden was found among {acked}, but a pass needs more proof."
    return f"No anomaly among {acked} under {_proven(record)}."


def found(name: str, anomaly: AnomalyFinding) -> str:
    """Return what was found, in words: 3 acknowledged records were lost."""
    if anomaly.phrase:
        return f"{units.count(anomaly.count)} {anomaly.phrase}"
    return f"{name} occurred {units.counted(anomaly.count, 'time')}"


def broken(record: RunRecord) -> str:
    """Return which faults there were, and whether they are proven."""

    def listed(*, proven: bool) -> str:
        names = Counter(
            fault.judged.name for fault in record.faults if fault.judged.proven is proven
        )
        return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in names.items())

    proven, unproven = listed(proven=True), listed(proven=False)
    if not record.faults:
        return "Nothing was broken."
    if not unproven:
        return f"Broken and seen to be: {proven}."
    if not proven:
        return f"Without proof: {unproven}."
    return f"Broken and seen to be: {proven}; without proof: {unproven}."


def _proven(record: RunRecord) -> str:
    return units.counted(sum(fault.judged.proven for fault in record.faults), "proven fault")


def _purpose(record: RunRecord, name: str) -> str:
    if name not in record.provokes:
        return ""
    meant = "lose" if name == "lost-write" else "cause this"
    return f": this damage was meant to {meant}, and did"


def _besides(anomalies: Sequence[tuple[str, AnomalyFinding]]) -> str:
    if not anomalies:
        return ""
    listed = ", ".join(f"{name} ×{units.count(a.count)}" for name, a in anomalies[:4])
    return f" Also {listed}{' and more' if len(anomalies) > 4 else ''}."


def reasons(record: RunRecord) -> tuple[str, ...]:
    """Return why the verdict is what it is: the verifier's reasons, then the run's own."""
    return tuple(dict.fromkeys([*record.report.reasons, *record.run_reasons]))


def contract(record: RunRecord) -> str:
    """Return the contract in one line."""
    terms = record.contract
    if not terms:
        return "The run does not say its contract."

    def switch(key: str) -> str:
        return "on" if terms.get(key) is True else "off"

    return (
        f"acks={terms.get('acks', '?')} · min.insync.replicas={terms.get('min_isr', '?')} · "
        f"replication {terms.get('replication_factor', '?')} · "
        f"idempotence {switch('idempotence')} · unclean election {switch('unclean_election')}"
    )


def counts(record: RunRecord) -> tuple[str, ...]:
    """Return the counts that support the verdict, each with its noun."""
    known, situations = record.report.counts, record.report.situations
    operations = [
        f"{units.count(known.acked)} acknowledged",
        f"{units.count(known.indeterminate)} unknown",
        f"{units.count(known.failed)} refused",
        f"{units.count(known.read)} read meanwhile",
        f"{units.count(known.final)} in the final log",
    ]
    return (
        *(operations if record.verified else ()),
        _proofs(record),
        *([in_a_sentence(situations)] if situations else ()),
        *_members(record),
    )


def loss_causes(record: RunRecord) -> tuple[str, ...]:
    """Return what lost records, the worst first: 4 227 were lost when broker 1 lost the lead."""
    causes = fields.mapping(fields.mapping(record.report.replicas, "located"), "causes")
    return tuple(lost_when({words: int(count) for words, count in causes.items()}, units.count))


def unknown_causes(record: RunRecord) -> list[str]:
    """Return how many sends and transactions each error left unknown, the most frequent first."""
    metric = fields.mapping(record.report.metrics, "info-txn-causes")
    known = fields.mappings(metric, "causes")
    lines = [_unknown_cause(cause) for cause in known[:_MOST_CAUSES]]
    more = (fields.integer(metric, "distinct") or len(known)) - len(lines)
    return [*lines, f"{units.counted(more, 'more error')}: see verdict.json"] if more > 0 else lines


def _unknown_cause(cause: Mapping[str, Any]) -> str:
    error = cause.get("error")
    counts = [
        units.counted(number, noun)
        for name, noun in (("sends", "send"), ("txns", "transaction"))
        if isinstance(number := cause.get(name), int) and number
    ]
    reason = units.visible(error, 200) if isinstance(error, str) else "no error was recorded"
    return f"{reason}: {', '.join(counts)}"


def _members(record: RunRecord) -> tuple[str, ...]:
    """Return who joined and left the group: members: 5 joined, 2 left, 1 killed."""
    group = record.report.group
    if "seen" not in group:
        return ()
    moves = ", ".join(f"{units.count(int(count))} {done}" for done, count in group["seen"].items())
    processed = units.count(int(group.get("processed", 0)))
    return (f"{processed} processed by a group", f"members: {moves}")


def _proofs(record: RunRecord) -> str:
    """Return how many faults are proven, and how many were felt: 4 of 5 faults proven, 3 felt."""
    if not record.faults:
        return "no fault"
    proven = sum(fault.judged.proven for fault in record.faults)
    text = f"{proven} of {units.counted(len(record.faults), 'fault')} proven"
    if not any(fault.judged.felt for fault in record.faults):
        return text
    return f"{text}, {sum(fault.judged.felt == 'felt' for fault in record.faults)} felt"


def witnesses(fault: FaultRecord) -> tuple[str, ...]:
    """Return the names of the witnesses of a fault."""
    keys = (*fault.details("inject"), *fault.details("heal"))
    # Durations such as `wanted_s` are our own bounds and no evidence.
    return tuple(dict.fromkeys(_witness(key) for key in keys if not key.endswith(("_s", "_ms"))))


def _witness(key: str) -> str:
    if key.startswith("broker_") or "pause" in key:
        return "GC log"
    return _WITNESSES.get(key, key.replace("_", " "))


def shortcoming(fault: FaultRecord, *, in_full: bool = True) -> str:
    """Return what an unproven fault lacks, and in full, what was seen; empty for a proven one."""
    if fault.judged.proven:
        return ""
    if fault.judged.error is not None:
        return f"it failed: {fault.judged.error}"
    if fault.injected_s is None:
        return "it was decided, and the journal does not say that it was injected"
    if fault.seen("inject").get("observed") is not True:
        return "no witness saw its effect" + (_instead(fault, "inject") if in_full else "")
    if fault.healed_s is None:
        return "the journal does not say that it was healed"
    return "no witness saw it healed" + (_instead(fault, "heal") if in_full else "")


def _instead(fault: FaultRecord, phase: str) -> str:
    question = fault.seen(phase).get("question")
    return f" ({evidence(fault.details(phase))}{f'; {question}' if question else ''})"


def evidence(details: Mapping[str, Any]) -> str:
    """Return what was seen, as short text: 0 packets were dropped."""
    return units.visible(in_words(details))


def cures(record: RunRecord) -> tuple[str, ...]:
    """Return what an UNKNOWN verdict lacks to become known; nothing for other verdicts."""
    report = record.report
    if report.verdict is not Verdict.UNKNOWN:
        return ()
    lacking = [
        f"Fault {fault.judged.id}, {fault.title}: {shortcoming(fault)}. To count, {fault.proof}."
        for fault in record.faults
        if not fault.judged.proven
    ]
    if not record.faults:
        lacking.append("A fault: nothing was broken, so nothing was shown.")
    crashed = [name for name, state in report.checkers.items() if state.startswith("crashed")]
    if crashed:
        lacking.append(f"A verification in which {', '.join(crashed)} did not crash.")
    if record.verified and not report.counts.acked:
        lacking.append("At least one acknowledged record: there was nothing that could be lost.")
    lacking += [
        f"An occurrence of {name}: this damage has to cause it, so a verifier that sees none "
        "has shown nothing."
        for name in record.provokes
        if name not in report.anomalies
    ]
    if record.state != "complete":
        lacking.append(f"A run that ends by itself: this one is {record.state}.")
    if not report.checkers:
        lacking.append(f"A verification: kafka-chaos verify runs/{record.run}")
    return tuple(lacking)


def unchecked(record: RunRecord) -> tuple[str, ...]:
    """Return what was not checked, and why."""
    states = record.report.checkers
    figures = fields.mapping(record.report.adequacy.get("checkers-ran", {}), "figures")
    whys = fields.mapping(figures, "could_not_run")
    lines = [
        f"{name}: {state}{f' ({whys[name]})' if name in whys else ''}."
        for name, state in states.items()
        if state not in ("ran", "skipped")
    ]
    skipped = [name for name, state in states.items() if state == "skipped"]
    if skipped:
        lines.append(f"Nothing was there for {', '.join(skipped)} to look at.")
    if not states:
        lines.append("No checker has run.")
    if not record.report.replicas.get("compared"):
        lines.append(
            "The logs on the brokers' disks were not compared in full: a replica that differs "
            "where nobody reads would not be seen."
        )
    return (*lines, *record.missing)


def facts(record: RunRecord, example: OffenceExample) -> str:
    """Return the detail of an example; times are on the axis, those before it lengths of time."""
    return evidence(
        {
            name.removesuffix("_ns"): _since(record.origin_ns, fact)
            if name.endswith("_ns")
            else fact
            for name, fact in example.detail.items()
        }
    )


def _since(origin_ns: int, fact: str) -> str:
    if not fact.isdecimal():
        return fact
    time_ns = int(fact)
    if time_ns < origin_ns:
        return units.span(time_ns / 1e9)
    return units.instant((time_ns - origin_ns) / 1e9)


def circumstances(record: RunRecord, example: OffenceExample) -> str:
    """Return which faults were in force at the time of an example, and who led then."""
    at_s = record.at_s(example.time_ns)
    if at_s is None:
        return ""
    active = [fault for fault in record.faults if fault.in_force(at_s)]
    if active:
        text = "Active then: " + ", ".join(
            fault.title + ("" if fault.judged.proven else " (not proven)") for fault in active
        )
    else:
        ended = [f for f in record.faults if f.healed_s is not None and f.healed_s < at_s]
        last = max(ended, key=lambda f: f.healed_s or 0.0, default=None)
        text = "No fault was active then"
        if last is not None and last.healed_s is not None:
            ago = units.span(at_s - last.healed_s)
            text += f"; {last.title} had been healed {ago} before"
    if example.topic is not None and example.partition is not None:
        then = record.leadership_at((example.topic, example.partition), at_s)
        if then is not None:
            leader = "no leader" if then.leader is None else f"leader {then.leader}"
            text += f" · {leader}, ISR {' '.join(map(str, then.isr)) or 'empty'}"
    return text + "."


def timing(record: RunRecord) -> tuple[tuple[str, float], ...]:
    """Return the duration of each phase, in the order of a run."""
    known = record.report.timing_s or {p.name: p.to_s - p.from_s for p in record.phases}

    order = {phase: place for place, phase in enumerate(_PHASES)}
    by_phase = sorted((order.get(name.partition(":")[0], len(order)), name) for name in known)
    return tuple((name, known[name]) for _, name in by_phase)


def called(step: object) -> str:
    """Return a fault or a target of a plan with its parameters: leader_of(topic orders)."""
    if not isinstance(step, Mapping) or "name" not in step:
        return units.visible(spoken(step))
    parameters = step.get("parameters")
    inside = evidence(parameters) if isinstance(parameters, Mapping) and parameters else ""
    return units.visible(f"{step['name']}({inside})" if inside else str(step["name"]))


def widest_gap(record: RunRecord) -> Gap | None:
    """Return the widest stretch without an acknowledgement, if it is long enough to mention."""
    if record.lanes is None or not record.lanes.gaps:
        return None
    widest = record.lanes.gaps[0]
    return widest if widest.width_s >= max(2 * record.lanes.bin_s, _SHORTEST_GAP_S) else None


def liveness_line(record: RunRecord) -> str:
    """Return the verdict on liveness as one line; empty if the run has no bound."""
    judged = record.report.liveness
    bound_s, widest = fields.number(judged, "bound_s"), fields.mapping(judged, "widest")
    if bound_s is None or not widest:
        return ""
    return (
        f"liveness {judged.get('verdict')}: an acknowledgement within {units.span(bound_s)} was "
        f"asked for; the widest time without one was {units.span(float(widest.get('gap_s', 0)))}, "
        f"{widest.get('topic')}/{widest.get('partition')}, "
        f"from {units.instant(float(widest.get('from_s', 0)))}"
    )


def pace(record: RunRecord) -> list[str]:
    """Return how fast ISRs shrank, leaders were elected and ISRs recovered, a sentence a fault."""
    timeline = record.report.timeline
    lines = [line] if (line := liveness_line(record)) else []
    faults = {fault.judged.id: fault for fault in record.faults}
    times = fields.objects(timeline, "faults").items()
    known = [(faults[fault_id], span) for fault_id, span in times if fault_id in faults]
    lines += [_reaction(fault, span) for fault, span in known[:_MOST_FAULTS]]
    lag = fields.mapping(timeline, "widest_lag")
    if (records := fields.integer(lag, "records")) is not None:
        lines.append(
            f"Furthest behind of all replicas that were sampled: {lag.get('topic')}/"
            f"{lag.get('partition')} on broker {lag.get('broker')}, by {records:,} records."
        )
    changes = fields.mappings(timeline, "controllers")[:8]
    if changes:
        names = ", ".join(f"node {each.get('node')} at {each.get('at_utc')}" for each in changes)
        lines.append(f"Active controllers, by their own clocks: {names}.")
    return [units.visible(sentence, 400) for sentence in lines]


def _reaction(fault: FaultRecord, span: Mapping[str, Any]) -> str:
    times = [
        f"{words} after {units.span(after_s)}"
        for key, words in _REACTIONS.items()
        if (after_s := fields.number(span, key)) is not None
    ]
    return f"{fault.title}: {', '.join(times) or 'no leader and no ISR changed'}."
