"""What claims expect, as tests of what was seen.

Each returns a test for `Expectation`. A test that looks for something is sure once it has found
it; a test for absence is UNKNOWN where something could not be checked.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from harness.lab.claim import Finding, Outcome, Test
from harness.lab.recorded import Row, Seen


def _confirmed(words: str) -> Finding:
    return Finding(outcome=Outcome.CONFIRMED, words=words)


def _refuted(words: str) -> Finding:
    return Finding(outcome=Outcome.REFUTED, words=words)


def _unknown(words: str) -> Finding:
    return Finding(outcome=Outcome.UNKNOWN, words=words)


def _say_unchecked(seen: Seen) -> Finding:
    return _unknown(f"Not everything could be checked: {'; '.join(seen.unchecked)}.")


def _unsure(seen: Seen, anomaly: str) -> Finding | None:
    """Return why the absence of an anomaly proves nothing, or None if it does."""
    if seen.did_not_look_for(anomaly):
        return _unknown(f"Nobody looked for {anomaly}.")
    return _say_unchecked(seen) if seen.unchecked else None


def loses(*batches: str) -> Test:
    """Expect that exactly the acknowledged records of these batches are lost."""
    return _loses(batches, wholly=True)


def loses_some(*batches: str) -> Test:
    """Expect that acknowledged records of these batches are lost, and none of any others."""
    return _loses(batches, wholly=False)


def _loses(batches: Collection[str], *, wholly: bool) -> Test:
    def test(seen: Seen) -> Finding:
        doomed = _acked(seen, batches)
        others = seen.lost - doomed
        found = len(seen.lost & doomed)
        words = f"{found} of the {len(doomed)} acknowledged records of {_names(batches)} were lost"
        if others:
            return _refuted(f"{words}, and {len(others)} others besides.")
        if found and (not wholly or found == len(doomed)):
            return _confirmed(f"{words}, and no others{_where(seen)}.")
        return _say_unchecked(seen) if seen.unchecked else _refuted(f"{words}.")

    return test


def keeps_all(*, at_least: int = 1) -> Test:
    """Expect that no acknowledged record is lost, and that there were so many at least."""

    def test(seen: Seen) -> Finding:
        acked = sum(len(batch.acked) for batch in seen.batches.values())
        if seen.lost:
            return _refuted(
                f"{len(seen.lost)} of {acked} acknowledged records were lost{_where(seen)}."
            )
        if seen.unchecked:
            return _say_unchecked(seen)
        if acked < at_least:
            return _unknown(f"Only {acked} of at least {at_least} records were acknowledged.")
        return _confirmed(f"All {acked} acknowledged records are there.")

    return test


def finds(anomaly: str) -> Test:
    """Expect that the verifier finds an anomaly."""

    def test(seen: Seen) -> Finding:
        found = seen.anomalies(anomaly)
        if found:
            return _confirmed(f"{anomaly}: {len(found)}, the first {_place(found[0])}.")
        return _unsure(seen, anomaly) or _refuted(f"There was no {anomaly}.")

    return test


def finds_no(*anomalies: str) -> Test:
    """Expect that the verifier finds none of these anomalies."""

    def test(seen: Seen) -> Finding:
        found = {name: rows for name in anomalies if (rows := seen.anomalies(name))}
        if found:
            told = "; ".join(
                f"{name}: {len(rows)}, the first {_place(rows[0])}" for name, rows in found.items()
            )
            return _refuted(f"{told}.")
        if ignored := [name for name in anomalies if seen.did_not_look_for(name)]:
            return _unknown(f"Nobody looked for {', '.join(ignored)}.")
        if seen.unchecked:
            return _say_unchecked(seen)
        return _confirmed(f"There was no {' and no '.join(anomalies)}.")

    return test


def repeats(*batches: str) -> Test:
    """Expect that records of each of these batches, and no others, lie in the log twice."""

    def test(seen: Seen) -> Finding:
        found = _repeated(seen)
        hit = {name: len(found & _values(seen, [name])) for name in batches}
        others = len(found) - sum(hit.values())
        words = ", ".join(f"{count} records of {name!r}" for name, count in hit.items())
        if others:
            return _refuted(f"{words} lie twice, and {others} others besides.")
        if all(hit.values()):
            return _confirmed(f"{words} lie twice.")
        return _unsure(seen, "duplicate") or _refuted(f"{words} lie twice.")

    return test


def repeats_only(*batches: str, never: Collection[str]) -> Test:
    """Expect that the damage repeats records of some batches, and none of others.

    Where it repeats nothing at all it has shown nothing: the outcome is UNKNOWN.
    """

    def test(seen: Seen) -> Finding:
        found = _repeated(seen)
        hit, meant = found & _values(seen, batches), _values(seen, never)
        if strange := found & meant:
            return _refuted(f"{len(strange)} of the {len(meant)} of {_names(never)} lie twice.")
        if unsure := _unsure(seen, "duplicate"):
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

    def test(seen: Seen) -> Finding:
        rows = _reordered(seen, batches)
        if rows:
            return _confirmed(
                f"Of {_names(batches)} {len(rows)} passed earlier ones, the first "
                f"{_place(rows[0])}."
            )
        return _unsure(seen, "nonmonotonic-send") or _refuted(
            f"Nothing of {_names(batches)} passed what was sent before it."
        )

    return test


def keeps_order(*batches: str) -> Test:
    """Expect that no record of these batches lies before one that its producer sent earlier.

    Batches that a script sends to some versions only may be missing.
    """

    def test(seen: Seen) -> Finding:
        rows, sent = _reordered(seen, batches), _values(seen, batches)
        if rows:
            return _refuted(
                f"Of {_names(batches)} {len(rows)} passed earlier ones, the first "
                f"{_place(rows[0])}."
            )
        if unsure := _unsure(seen, "nonmonotonic-send"):
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

    def test(seen: Seen) -> Finding:
        sent = seen.batches.get(batch)
        if sent is None:
            return _unknown(f"The batch {batch!r} was not sent.")
        there = len(sent.values & seen.final)
        words = (
            f"Of the {len(sent.values)} records of {batch!r} {len(sent.acked)} were acknowledged "
            f"and {there} are in the log ({_errors(sent.errors)})."
        )
        if sent.acked or there or (errors and set(sent.errors) - set(errors)):
            return _refuted(words)
        return _say_unchecked(seen) if seen.unchecked else _confirmed(words)

    return test


def appends_in_doubt(batch: str, error: str) -> Test:
    """Expect that a producer met this error for every record of a batch, and that all are there.

    The history must hold such records as INFO: an error that is not definite is no failure.
    """

    def test(seen: Seen) -> Finding:
        sent = seen.batches.get(batch)
        if sent is None:
            return _unknown(f"The batch {batch!r} was not sent.")
        there = len(sent.values & seen.final)
        words = (
            f"Of the {len(sent.values)} records of {batch!r} {len(sent.unknown)} are in doubt "
            f"({_errors(sent.errors)}) and {there} are in the log."
        )
        if sent.unknown == sent.values and set(sent.errors) == {error}:
            if there == len(sent.values):
                return _confirmed(words)
            if seen.unchecked:
                return _say_unchecked(seen)
        return _refuted(words)

    return test


def follows(first: str, second: str) -> Test:
    """Expect that one batch lies right behind another: nothing was appended between them."""

    def test(seen: Seen) -> Finding:
        before, after = (_offsets(seen, name) for name in (first, second))
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

    def test(seen: Seen) -> Finding:
        samples = seen.facts(fact)
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

    def test(seen: Seen) -> Finding:
        findings = [one(seen) for one in tests]
        words = " ".join(finding.words for finding in findings)
        for outcome in (Outcome.REFUTED, Outcome.UNKNOWN):
            if any(finding.outcome is outcome for finding in findings):
                return Finding(outcome=outcome, words=words)
        return _confirmed(words)

    return test


def _acked(seen: Seen, batches: Collection[str]) -> frozenset[int]:
    return frozenset().union(
        *(seen.batches[name].acked for name in batches if name in seen.batches)
    )


def _values(seen: Seen, batches: Collection[str]) -> frozenset[int]:
    return frozenset().union(
        *(seen.batches[name].values for name in batches if name in seen.batches)
    )


def _repeated(seen: Seen) -> frozenset[int]:
    """Return the values that lie in the log more than once."""
    rows = seen.anomalies("duplicate")
    return frozenset(int(row["value"]) for row in rows if row["kind"] == "log")


def _reordered(seen: Seen, batches: Collection[str]) -> list[Row]:
    values = _values(seen, batches)
    return [row for row in seen.anomalies("nonmonotonic-send") if row["value"] in values]


def _offsets(seen: Seen, batch: str) -> list[int]:
    found = seen.batches.get(batch)
    return [offset for offset in found.offsets.values() if offset is not None] if found else []


def _errors(errors: Mapping[str, int]) -> str:
    told = ", ".join(f"{name} {count} times" for name, count in sorted(errors.items()))
    return told or "no error"


def _names(batches: Collection[str]) -> str:
    return " and ".join(repr(name) for name in batches)


def _place(row: Any) -> str:  # noqa: ANN401 (a row)
    return f"at {row['topic']}-{row['partition']} offset {row['offset']}"


def _where(seen: Seen) -> str:
    """Return who cut the lost records away, as the verifier located it; may be empty."""
    rows = seen.anomalies("lost-write")
    cut = sorted({str(row["detail"]["cut_by"]) for row in rows if row["detail"].get("cut_by")})
    return f" (cut by {', '.join(cut)})" if cut else ""
