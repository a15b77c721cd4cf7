"""What claims expect, as tests of a recorded run.

Each function returns a test for `Expectation`. A test that looks for something is sure once it has
found it; a test for absence is UNKNOWN where something could not be checked.

A record of a consumer group is named by its partition and offset. The script notes by `note_hand`
which records a member had in hand when it was killed; the verifier says what became of them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from harness.lab.claim import Finding, Outcome, Test
from harness.lab.lab import Lab
from harness.lab.recorded import RecordedRun, Row

_GROUP_ANOMALIES = ("consume-skip", "consume-repeat")

Offsets = frozenset[tuple[int, int]]
"""Records of a topic, each by partition and offset."""


def _confirmed(words: str) -> Finding:
    return Finding(outcome=Outcome.CONFIRMED, words=words)


def _refuted(words: str) -> Finding:
    return Finding(outcome=Outcome.REFUTED, words=words)


def _unknown(words: str) -> Finding:
    return Finding(outcome=Outcome.UNKNOWN, words=words)


def _unsure(run: RecordedRun, *anomalies: str) -> Finding | None:
    """Return why the absence of these anomalies proves nothing, or None if it does."""
    if without_checker := [name for name in anomalies if run.did_not_look_for(name)]:
        return _unknown(f"Nobody looked for {', '.join(without_checker)}.")
    if run.unchecked:
        return _unknown(f"Not everything could be checked: {'; '.join(run.unchecked)}.")
    return None


def loses(*batches: str) -> Test:
    """Expect that exactly the acknowledged records of these batches are lost."""
    return _loses(batches, wholly=True)


def loses_some(*batches: str) -> Test:
    """Expect that acknowledged records of these batches are lost, and none of any others."""
    return _loses(batches, wholly=False)


def _loses(batches: Collection[str], *, wholly: bool) -> Test:
    def test(run: RecordedRun) -> Finding:
        doomed = _acked(run, batches)
        others = run.lost - doomed
        found = len(run.lost & doomed)
        words = f"{found} of the {len(doomed)} acknowledged records of {_names(batches)} were lost"
        if others:
            return _refuted(f"{words}, and {len(others)} others besides.")
        if found and (not wholly or found == len(doomed)):
            return _confirmed(f"{words}, and no others{_where(run)}.")
        return _unsure(run) or _refuted(f"{words}.")

    return test


def keeps_all(*, at_least: int = 1) -> Test:
    """Expect that no acknowledged record is lost, and that there were so many at least."""

    def test(run: RecordedRun) -> Finding:
        acked = sum(len(batch.acked) for batch in run.batches.values())
        if run.lost:
            return _refuted(
                f"{len(run.lost)} of {acked} acknowledged records were lost{_where(run)}."
            )
        if unsure := _unsure(run):
            return unsure
        if acked < at_least:
            return _unknown(f"Only {acked} of at least {at_least} records were acknowledged.")
        return _confirmed(f"All {acked} acknowledged records are there.")

    return test


def finds(anomaly: str) -> Test:
    """Expect that the verifier finds an anomaly."""

    def test(run: RecordedRun) -> Finding:
        found = run.anomalies(anomaly)
        if found:
            return _confirmed(f"{anomaly}: {len(found)}, the first {_record(found[0])}.")
        return _unsure(run, anomaly) or _refuted(f"There was no {anomaly}.")

    return test


def finds_no(*anomalies: str) -> Test:
    """Expect that the verifier finds none of these anomalies."""

    def test(run: RecordedRun) -> Finding:
        found = {name: rows for name in anomalies if (rows := run.anomalies(name))}
        if found:
            listed = "; ".join(
                f"{name}: {len(rows)}, the first {_record(rows[0])}" for name, rows in found.items()
            )
            return _refuted(f"{listed}.")
        return _unsure(run, *anomalies) or _confirmed(f"There was no {' and no '.join(anomalies)}.")

    return test


def repeats(*batches: str) -> Test:
    """Expect that records of each of these batches, and no others, lie in the log twice."""

    def test(run: RecordedRun) -> Finding:
        found = _repeated(run)
        hit = {name: len(found & _values(run, [name])) for name in batches}
        others = len(found) - sum(hit.values())
        words = ", ".join(f"{count} records of {name!r}" for name, count in hit.items())
        if others:
            return _refuted(f"{words} lie twice, and {others} others besides.")
        if all(hit.values()):
            return _confirmed(f"{words} lie twice.")
        return _unsure(run, "duplicate") or _refuted(f"{words} lie twice.")

    return test


def repeats_only(*batches: str, never: Collection[str]) -> Test:
    """Expect that the damage repeats records of some batches, and none of others.

    Where it repeats nothing at all it has shown nothing: the outcome is UNKNOWN.
    """

    def test(run: RecordedRun) -> Finding:
        found = _repeated(run)
        hit, meant = found & _values(run, batches), _values(run, never)
        if unexpected := found & meant:
            return _refuted(f"{len(unexpected)} of the {len(meant)} of {_names(never)} lie twice.")
        if unsure := _unsure(run, "duplicate"):
            return unsure
        if not hit:
            return _unknown(f"The damage repeated none of {_names(batches)} either.")
        if not meant:
            return _unknown(f"Nothing of {_names(never)} was sent.")
        return _confirmed(
            f"{len(hit)} records of {_names(batches)} lie twice, none of the {len(meant)} of "
            f"{_names(never)}."
        )

    return test


def reorders(*batches: str) -> Test:
    """Expect that records of these batches lie before some that their producer sent earlier."""

    def test(run: RecordedRun) -> Finding:
        rows = _reordered(run, batches)
        if rows:
            return _confirmed(
                f"Of {_names(batches)} {len(rows)} passed earlier ones, the first "
                f"{_record(rows[0])}."
            )
        return _unsure(run, "nonmonotonic-send") or _refuted(
            f"Nothing of {_names(batches)} passed what was sent before it."
        )

    return test


def keeps_order(*batches: str) -> Test:
    """Expect that no record of these batches lies before one that its producer sent earlier.

    Batches that a script sends to some versions only may be missing.
    """

    def test(run: RecordedRun) -> Finding:
        rows, sent = _reordered(run, batches), _values(run, batches)
        if rows:
            return _refuted(
                f"Of {_names(batches)} {len(rows)} passed earlier ones, the first "
                f"{_record(rows[0])}."
            )
        if unsure := _unsure(run, "nonmonotonic-send"):
            return unsure
        if not sent:
            return _unknown(f"Nothing of {_names(batches)} was sent.")
        return _confirmed(f"All {len(sent)} records of {_names(batches)} lie in order.")

    return test


def refuses(batch: str, *errors: str) -> Test:
    """Expect that no record of a batch was acknowledged, and that none is in the log.

    Args:
        batch: its name.
        errors: those that its producer may have met, by their names; none given: any.
    """

    def test(run: RecordedRun) -> Finding:
        sent = run.batches.get(batch)
        if sent is None:
            return _unknown(f"The batch {batch!r} was not sent.")
        there = len(sent.values & run.final)
        words = (
            f"Of the {len(sent.values)} records of {batch!r} {len(sent.acked)} were acknowledged "
            f"and {there} are in the log ({_errors(sent.errors)})."
        )
        if sent.acked or there or (errors and set(sent.errors) - set(errors)):
            return _refuted(words)
        return _unsure(run) or _confirmed(words)

    return test


def appends_in_doubt(batch: str, error: str) -> Test:
    """Expect that a producer met this error for every record of a batch, and that all are there.

    The history must hold such records as INFO: an error that is not definite is no failure.
    """

    def test(run: RecordedRun) -> Finding:
        sent = run.batches.get(batch)
        if sent is None:
            return _unknown(f"The batch {batch!r} was not sent.")
        there = len(sent.values & run.final)
        words = (
            f"Of the {len(sent.values)} records of {batch!r} {len(sent.unknown)} are in doubt "
            f"({_errors(sent.errors)}) and {there} are in the log."
        )
        if sent.unknown == sent.values and set(sent.errors) == {error}:
            if there == len(sent.values):
                return _confirmed(words)
            if unsure := _unsure(run):
                return unsure
        return _refuted(words)

    return test


def follows(first: str, second: str) -> Test:
    """Expect that one batch lies right behind another: nothing was appended between them."""

    def test(run: RecordedRun) -> Finding:
        before, after = (_offsets(run, name) for name in (first, second))
        if not before or not after:
            return _unknown(f"The offsets of {_names((first, second))} are not known.")
        words = f"{second!r} begins at offset {min(after)}, {first!r} ends at {max(before)}."
        return _confirmed(words) if min(after) == max(before) + 1 else _refuted(words)

    return test


def sees(fact: str, holds: Callable[[Any], bool], words: str) -> Test:
    """Expect that every sample of a fact holds.

    Args:
        fact: the name under which the script has noted it.
        holds: whether one sample is as expected.
        words: what is expected of it: "a shrink within 1.5 times the limit".
    """

    def test(run: RecordedRun) -> Finding:
        samples = run.facts(fact)
        if not samples:
            return _unknown(f"{fact} was not observed.")
        bad = [sample for sample in samples if not holds(sample)]
        shown = ", ".join(str(sample) for sample in samples[:24])
        if bad:
            return _refuted(f"{words}: {len(samples) - len(bad)} of {len(samples)} ({shown}).")
        return _confirmed(f"{words}: {len(samples)} of {len(samples)} ({shown}).")

    return test


def all_of(*tests: Test) -> Test:
    """Expect several things at once."""

    def test(run: RecordedRun) -> Finding:
        findings = [expected(run) for expected in tests]
        words = " ".join(finding.words for finding in findings)
        for outcome in (Outcome.REFUTED, Outcome.UNKNOWN):
            if any(finding.outcome is outcome for finding in findings):
                return Finding(outcome=outcome, words=words)
        return _confirmed(words)

    return test


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


def skips_hand(group: str) -> Test:
    """Expect that a group passes over exactly the records in hand, and processes none again."""
    return _exactly(group, "consume-skip", "passed over", "consume-repeat", "processed again")


def repeats_hand(group: str) -> Test:
    """Expect that a group processes exactly the records in hand again, and passes none over."""
    return _exactly(group, "consume-repeat", "processed again", "consume-skip", "passed over")


def repeats_at_most_hand(group: str) -> Test:
    """Expect that a group processes again only what was in hand, and passes nothing over."""

    def test(run: RecordedRun) -> Finding:
        hand = _in_hand(run, group)
        if hand is None:
            return _unknown(f"Nothing of group {group} was in hand.")
        again, skipped = (
            _consumed(run, group, "consume-repeat"),
            _consumed(run, group, "consume-skip"),
        )
        words = (
            f"Group {group}: {len(again & hand)} of the {len(hand)} records in hand were processed "
            f"again, {len(again - hand)} others, and {len(skipped)} were passed over."
        )
        if again - hand or skipped:
            return _refuted(words)
        return _unsure(run, *_GROUP_ANOMALIES) or _confirmed(words)

    return test


def repeats_nothing_committed(group: str) -> Test:
    """Expect that a group resumes at its last commit: behind it nothing again, and no gap."""

    def test(run: RecordedRun) -> Finding:
        hand = _in_hand(run, group)
        if not hand:
            return _unknown(f"Nothing of group {group} was in hand.")
        again, skipped = (
            _consumed(run, group, "consume-repeat"),
            _consumed(run, group, "consume-skip"),
        )
        back = _consumed(run, group, "consume-repeat", kind="committed")
        words = (
            f"Group {group}: {len(again)} records were processed again, {len(again & hand)} of the "
            f"{len(hand)} in hand among them, {len(back)} of them behind an acknowledged commit; "
            f"{len(skipped)} were passed over."
        )
        if back or skipped:
            return _refuted(words)
        return _unsure(run, *_GROUP_ANOMALIES) or _confirmed(words)

    return test


def _exactly(group: str, anomaly: str, done: str, other: str, not_done: str) -> Test:
    def test(run: RecordedRun) -> Finding:
        hand = _in_hand(run, group)
        if not hand:
            return _unknown(f"Nothing of group {group} was in hand.")
        found, others = _consumed(run, group, anomaly), _consumed(run, group, other)
        words = (
            f"Group {group}: {len(found & hand)} of the {len(hand)} records in hand were {done}, "
            f"{len(found - hand)} others, and {len(others)} were {not_done}."
        )
        if found - hand or others:
            return _refuted(words)
        if found == hand:
            return _unsure(run, *_GROUP_ANOMALIES) or _confirmed(words)
        return _unsure(run, *_GROUP_ANOMALIES) or _refuted(words)

    return test


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
