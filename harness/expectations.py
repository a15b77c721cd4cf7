"""What claims expect, as tests of what was seen.

Each returns a test for `Expectation`. A test that looks for something is sure once it has found
it; a test for absence is UNKNOWN where something could not be checked.
"""

from collections.abc import Callable, Collection
from typing import Any

from harness.claim import Finding, Outcome, Test
from harness.seen import Seen


def _confirmed(words: str) -> Finding:
    return Finding(outcome=Outcome.CONFIRMED, words=words)


def _refuted(words: str) -> Finding:
    return Finding(outcome=Outcome.REFUTED, words=words)


def _unknown(words: str) -> Finding:
    return Finding(outcome=Outcome.UNKNOWN, words=words)


def _say_unchecked(seen: Seen) -> Finding:
    return _unknown(f"Not everything could be checked: {'; '.join(seen.unchecked)}.")


def loses(*batches: str) -> Test:
    """Expect that exactly the acknowledged records of these batches are lost."""

    def test(seen: Seen) -> Finding:
        doomed = _acked(seen, batches)
        others = seen.lost - doomed
        found = len(seen.lost & doomed)
        words = f"{found} of the {len(doomed)} acknowledged records of {_names(batches)} were lost"
        if others:
            return _refuted(f"{words}, and {len(others)} others besides.")
        if found == len(doomed) > 0:
            return _confirmed(f"{words}, and no others{_where(seen)}.")
        if seen.unchecked:
            return _say_unchecked(seen)
        return _refuted(f"{words}.")

    return test


def loses_some(*batches: str) -> Test:
    """Expect that acknowledged records of these batches are lost, and none of any others."""

    def test(seen: Seen) -> Finding:
        doomed = _acked(seen, batches)
        others = seen.lost - doomed
        found = len(seen.lost & doomed)
        words = f"{found} of the {len(doomed)} acknowledged records of {_names(batches)} were lost"
        if others:
            return _refuted(f"{words}, and {len(others)} others besides.")
        if found:
            return _confirmed(f"{words}{_where(seen)}.")
        return _say_unchecked(seen) if seen.unchecked else _refuted(f"{words}.")

    return test


def keeps_all() -> Test:
    """Expect that no acknowledged record is lost."""

    def test(seen: Seen) -> Finding:
        acked = sum(len(batch.acked) for batch in seen.batches.values())
        if seen.lost:
            return _refuted(
                f"{len(seen.lost)} of {acked} acknowledged records were lost{_where(seen)}."
            )
        if seen.unchecked:
            return _say_unchecked(seen)
        if not acked:
            return _unknown("Nothing was acknowledged, so nothing could be lost.")
        return _confirmed(f"All {acked} acknowledged records are there.")

    return test


def finds(anomaly: str) -> Test:
    """Expect that the verifier finds an anomaly."""

    def test(seen: Seen) -> Finding:
        found = seen.anomalies(anomaly)
        if found:
            return _confirmed(f"{anomaly}: {len(found)}, the first {_place(found[0])}.")
        if seen.did_not_look_for(anomaly):
            return _unknown(f"Nobody looked for {anomaly}.")
        return _say_unchecked(seen) if seen.unchecked else _refuted(f"There was no {anomaly}.")

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


def _names(batches: Collection[str]) -> str:
    return " and ".join(repr(name) for name in batches)


def _place(row: Any) -> str:  # noqa: ANN401 (a row)
    return f"at {row['topic']}-{row['partition']} offset {row['offset']}"


def _where(seen: Seen) -> str:
    """Return who cut the lost records away, as the verifier located it; may be empty."""
    rows = seen.anomalies("lost-write")
    cut = sorted({str(row["detail"]["cut_by"]) for row in rows if row["detail"].get("cut_by")})
    return f" (cut by {', '.join(cut)})" if cut else ""
