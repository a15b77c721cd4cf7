"""What claims expect, as tests of a recorded run.

Each function returns a test for `Expectation`. A test that looks for something is sure once it has
found it; a test for absence is UNKNOWN where something could not be checked.

A record of a consumer group is named by its partition and offset. The script notes by `note_hand`
which records a member had in hand when it was killed; the verifier says what became of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness.lab.finding import Finding, Outcome, Test, confirmed, expectation, refuted, unknown
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun, Row

_GROUP_ANOMALIES = {"passed over": "consume-skip", "processed again": "consume-repeat"}

Offsets = frozenset[tuple[int, int]]
"""Records of a topic, each by partition and offset."""


def _unsure(run: RecordedRun, *anomalies: str) -> Finding | None:
    """Return why the absence of these anomalies proves nothing, or None if it does."""
    if without_checker := [name for name in anomalies if run.did_not_look_for(name)]:
        return unknown(f"Nobody looked for {', '.join(without_checker)}.")
    if run.unchecked:
        return unknown(f"Not everything could be checked: {'; '.join(run.unchecked)}.")
    return None


@expectation
def loses(run: RecordedRun, *batches: str) -> Finding:
    """Expect that exactly the acknowledged records of these batches are lost."""
    return _losses(run, batches, wholly=True)


@expectation
def loses_some(run: RecordedRun, *batches: str) -> Finding:
    """Expect that acknowledged records of these batches are lost, and none of any others."""
    return _losses(run, batches, wholly=False)


def _losses(run: RecordedRun, batches: Collection[str], *, wholly: bool) -> Finding:
    doomed = _acked(run, batches)
    others = run.lost - doomed
    found = len(run.lost & doomed)
    words = f"{found} of the {len(doomed)} acknowledged records of {_names(batches)} were lost"
    if others:
        return refuted(f"{words}, and {len(others)} others besides.")
    if found and (not wholly or found == len(doomed)):
        return confirmed(f"{words}, and no others{_where(run)}.")
    return _unsure(run) or refuted(f"{words}.")


@expectation
def keeps_all(run: RecordedRun, *, at_least: int = 1) -> Finding:
    """Expect that no acknowledged record is lost, and that there were so many at least."""
    acked = sum(len(batch.acked) for batch in run.batches.values())
    if run.lost:
        return refuted(f"{len(run.lost)} of {acked} acknowledged records were lost{_where(run)}.")
    if unsure := _unsure(run):
        return unsure
    if acked < at_least:
        return unknown(f"Only {acked} of at least {at_least} records were acknowledged.")
    return confirmed(f"All {acked} acknowledged records are there.")


@expectation
def finds(run: RecordedRun, anomaly: str) -> Finding:
    """Expect that the verifier finds an anomaly."""
    found = run.anomalies(anomaly)
    if found:
        return confirmed(f"{anomaly}: {len(found)}, the first {_record(found[0])}.")
    return _unsure(run, anomaly) or refuted(f"There was no {anomaly}.")


@expectation
def finds_no(run: RecordedRun, *anomalies: str) -> Finding:
    """Expect that the verifier finds none of these anomalies."""
    found = {name: rows for name in anomalies if (rows := run.anomalies(name))}
    if found:
        listed = "; ".join(
            f"{name}: {len(rows)}, the first {_record(rows[0])}" for name, rows in found.items()
        )
        return refuted(f"{listed}.")
    return _unsure(run, *anomalies) or confirmed(f"There was no {' and no '.join(anomalies)}.")


@expectation
def repeats(run: RecordedRun, *batches: str) -> Finding:
    """Expect that records of each of these batches, and no others, lie in the log twice."""
    found = _repeated(run)
    hit = {name: len(found & _values(run, [name])) for name in batches}
    others = len(found) - sum(hit.values())
    words = ", ".join(f"{count} records of {name!r}" for name, count in hit.items())
    if others:
        return refuted(f"{words} lie twice, and {others} others besides.")
    if all(hit.values()):
        return confirmed(f"{words} lie twice.")
    return _unsure(run, "duplicate") or refuted(f"{words} lie twice.")


@expectation
def repeats_only(run: RecordedRun, *batches: str, never: Collection[str]) -> Finding:
    """Expect that the damage repeats records of some batches, and none of others.

    Where it repeats nothing at all it has shown nothing: the outcome is UNKNOWN.
    """
    found = _repeated(run)
    hit, meant = found & _values(run, batches), _values(run, never)
    if unexpected := found & meant:
        return refuted(f"{len(unexpected)} of the {len(meant)} of {_names(never)} lie twice.")
    if unsure := _unsure(run, "duplicate"):
        return unsure
    if not hit:
        return unknown(f"The damage repeated none of {_names(batches)} either.")
    if not meant:
        return unknown(f"Nothing of {_names(never)} was sent.")
    return confirmed(
        f"{len(hit)} records of {_names(batches)} lie twice, none of the {len(meant)} of "
        f"{_names(never)}."
    )


@expectation
def reorders(run: RecordedRun, *batches: str) -> Finding:
    """Expect that records of these batches lie before some that their producer sent earlier."""
    rows = _reordered(run, batches)
    if rows:
        return confirmed(_passed(rows, batches))
    return _unsure(run, "nonmonotonic-send") or refuted(
        f"Nothing of {_names(batches)} passed what was sent before it."
    )


@expectation
def keeps_order(run: RecordedRun, *batches: str) -> Finding:
    """Expect that no record of these batches lies before one that its producer sent earlier.

    Batches that a script sends to some versions only may be missing.
    """
    rows, sent = _reordered(run, batches), _values(run, batches)
    if rows:
        return refuted(_passed(rows, batches))
    if unsure := _unsure(run, "nonmonotonic-send"):
        return unsure
    if not sent:
        return unknown(f"Nothing of {_names(batches)} was sent.")
    return confirmed(f"All {len(sent)} records of {_names(batches)} lie in order.")


@expectation
def refuses(run: RecordedRun, batch: str, *errors: str) -> Finding:
    """Expect that no record of a batch was acknowledged, and that none is in the log.

    Args:
        run: the run.
        batch: its name.
        errors: those that its producer may have met, by their names; none given: any.
    """
    sent = run.batches.get(batch)
    if sent is None:
        return unknown(f"The batch {batch!r} was not sent.")
    there = len(sent.values & run.final)
    words = (
        f"Of the {len(sent.values)} records of {batch!r} {len(sent.acked)} were acknowledged "
        f"and {there} are in the log ({_errors(sent.errors)})."
    )
    if sent.acked or there or (errors and set(sent.errors) - set(errors)):
        return refuted(words)
    return _unsure(run) or confirmed(words)


@expectation
def appends_in_doubt(run: RecordedRun, batch: str, error: str) -> Finding:
    """Expect that a producer met this error for every record of a batch, and that all are there.

    The history must hold such records as INFO: an error that is not definite is no failure.
    """
    sent = run.batches.get(batch)
    if sent is None:
        return unknown(f"The batch {batch!r} was not sent.")
    there = len(sent.values & run.final)
    words = (
        f"Of the {len(sent.values)} records of {batch!r} {len(sent.unknown)} are in doubt "
        f"({_errors(sent.errors)}) and {there} are in the log."
    )
    if sent.unknown != sent.values or set(sent.errors) != {error}:
        return refuted(words)
    if there == len(sent.values):
        return confirmed(words)
    return _unsure(run) or refuted(words)


@expectation
def follows(run: RecordedRun, first: str, second: str) -> Finding:
    """Expect that one batch lies right behind another: nothing was appended between them."""
    before, after = (_offsets(run, name) for name in (first, second))
    if not before or not after:
        return unknown(f"The offsets of {_names((first, second))} are not known.")
    words = f"{second!r} begins at offset {min(after)}, {first!r} ends at {max(before)}."
    return confirmed(words) if min(after) == max(before) + 1 else refuted(words)


@expectation
def sees(run: RecordedRun, fact: str, holds: Callable[[Any], bool], words: str) -> Finding:
    """Expect that every sample of a fact holds.

    Args:
        run: the run.
        fact: the name under which the script has noted it.
        holds: whether one sample is as expected.
        words: what is expected of it: "a shrink within 1.5 times the limit".
    """
    samples = run.facts(fact)
    if not samples:
        return unknown(f"{fact} was not observed.")
    bad = [sample for sample in samples if not holds(sample)]
    shown = ", ".join(str(sample) for sample in samples[:24])
    if bad:
        return refuted(f"{words}: {len(samples) - len(bad)} of {len(samples)} ({shown}).")
    return confirmed(f"{words}: {len(samples)} of {len(samples)} ({shown}).")


@expectation
def all_of(run: RecordedRun, *tests: Test) -> Finding:
    """Expect several things at once."""
    findings = [expected(run) for expected in tests]
    words = " ".join(finding.words for finding in findings)
    for outcome in (Outcome.REFUTED, Outcome.UNKNOWN):
        if any(finding.outcome is outcome for finding in findings):
            return Finding(outcome=outcome, words=words)
    return confirmed(words)


# -- consumer groups ------------------------------------------------------------------------------


def note_hand(lab: Lab, group: str, places: Offsets) -> None:
    """Note which records of a group hang in the balance at a kill; calls add up.

    As stretches: [partition, first offset, the one after the last].
    """
    stretches: list[list[int]] = []
    for partition, offset in sorted(places):
        if stretches and stretches[-1][0] == partition and stretches[-1][2] == offset:
            stretches[-1][2] += 1
        else:
            stretches.append([partition, offset, offset + 1])
    lab.observe(f"in hand: {group}", stretches)


@expectation
def skips_hand(run: RecordedRun, group: str) -> Finding:
    """Expect that a group passes over exactly the records in hand, and processes none again."""
    return _of_hand(run, group, done="passed over", wholly=True)


@expectation
def repeats_hand(run: RecordedRun, group: str) -> Finding:
    """Expect that a group processes exactly the records in hand again, and passes none over."""
    return _of_hand(run, group, done="processed again", wholly=True)


@expectation
def repeats_at_most_hand(run: RecordedRun, group: str) -> Finding:
    """Expect that a group processes again only what was in hand, and passes nothing over."""
    return _of_hand(run, group, done="processed again", wholly=False)


@expectation
def repeats_nothing_committed(run: RecordedRun, group: str) -> Finding:
    """Expect that a group resumes at its last commit: behind it nothing again, and no gap."""
    hand = _in_hand(run, group)
    if not hand:
        return unknown(f"Nothing of group {group} was in hand.")
    skipped, again = (_consumed(run, group, name) for name in _GROUP_ANOMALIES.values())
    back = _consumed(run, group, "consume-repeat", kind="committed")
    words = (
        f"Group {group}: {len(again)} records were processed again, {len(again & hand)} of the "
        f"{len(hand)} in hand among them, {len(back)} of them behind an acknowledged commit; "
        f"{len(skipped)} were passed over."
    )
    if back or skipped:
        return refuted(words)
    return _unsure(run, *_GROUP_ANOMALIES.values()) or confirmed(words)


def _of_hand(run: RecordedRun, group: str, *, done: str, wholly: bool) -> Finding:
    hand = _in_hand(run, group)
    if hand is None or (wholly and not hand):
        return unknown(f"Nothing of group {group} was in hand.")
    by_end = {end: _consumed(run, group, anomaly) for end, anomaly in _GROUP_ANOMALIES.items()}
    found = by_end.pop(done)
    ((not_done, others),) = by_end.items()
    words = (
        f"Group {group}: {len(found & hand)} of the {len(hand)} records in hand were {done}, "
        f"{len(found - hand)} others, and {len(others)} were {not_done}."
    )
    if found - hand or others:
        return refuted(words)
    is_whole = found == hand or not wholly
    unsure = _unsure(run, *_GROUP_ANOMALIES.values())
    return unsure or (confirmed(words) if is_whole else refuted(words))


# -- what the tests share --------------------------------------------------------------------------


def _acked(run: RecordedRun, batches: Collection[str]) -> frozenset[int]:
    return frozenset().union(*(run.batches[name].acked for name in batches if name in run.batches))


def _values(run: RecordedRun, batches: Collection[str]) -> frozenset[int]:
    return frozenset().union(*(run.batches[name].values for name in batches if name in run.batches))


def _repeated(run: RecordedRun) -> frozenset[int]:
    """Return the values that lie in the log more than once."""
    rows = run.anomalies("duplicate")
    return frozenset(int(row["value"]) for row in rows if row["kind"] == "log")


def _reordered(run: RecordedRun, batches: Collection[str]) -> list[Row]:
    values = _values(run, batches)
    return [row for row in run.anomalies("nonmonotonic-send") if row["value"] in values]


def _passed(rows: Sequence[Row], batches: Collection[str]) -> str:
    return f"Of {_names(batches)} {len(rows)} passed earlier ones, the first {_record(rows[0])}."


def _offsets(run: RecordedRun, batch: str) -> list[int]:
    found = run.batches.get(batch)
    return [offset for offset in found.offsets.values() if offset is not None] if found else []


def _errors(errors: Mapping[str, int]) -> str:
    counted = ", ".join(f"{name} {count} times" for name, count in sorted(errors.items()))
    return counted or "no error"


def _names(batches: Collection[str]) -> str:
    return " and ".join(repr(name) for name in batches)


def _record(row: Any) -> str:  # noqa: ANN401 (a row)
    return f"at {row['topic']}-{row['partition']} offset {row['offset']}"


def _where(run: RecordedRun) -> str:
    """Return who cut the lost records away, as the verifier located it; may be empty."""
    rows = run.anomalies("lost-write")
    cut = sorted({str(row["detail"]["cut_by"]) for row in rows if row["detail"].get("cut_by")})
    return f" (cut by {', '.join(cut)})" if cut else ""


def _in_hand(run: RecordedRun, group: str) -> Offsets | None:
    noted = run.facts(f"in hand: {group}")
    if not noted:
        return None
    return frozenset(
        (partition, offset)
        for stretches in noted
        for partition, first, end in stretches
        for offset in range(first, end)
    )


def _consumed(run: RecordedRun, group: str, anomaly: str, *, kind: str | None = None) -> Offsets:
    ours = f"-{group}"
    return frozenset(
        (row["partition"], row["offset"])
        for row in run.anomalies(anomaly)
        if str(row["detail"].get("group", "")).endswith(ours) and kind in (None, row["kind"])
    )
