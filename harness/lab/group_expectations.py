"""What claims on consumer groups expect, as tests of what was seen.

A group's records are named by their places: (partition, offset). What a member had in hand when it
was killed is a fact that the script has noted by `note_hand`; what became of it, the verifier says.
"""

from harness.lab.claim import Finding, Outcome, Test
from harness.lab.lab import Lab
from harness.lab.recorded import Seen

_ANOMALIES = ("consume-skip", "consume-repeat")

Places = frozenset[tuple[int, int]]


def note_hand(lab: Lab, group: str, places: Places) -> None:
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

    def test(seen: Seen) -> Finding:
        hand = _hand(seen, group)
        if hand is None:
            return _unknown(f"Nothing of group {group} was in hand.")
        again, skipped = _found(seen, group, "consume-repeat"), _found(seen, group, "consume-skip")
        words = (
            f"Group {group}: {len(again & hand)} of the {len(hand)} records in hand were processed "
            f"again, {len(again - hand)} others, and {len(skipped)} were passed over."
        )
        if again - hand or skipped:
            return Finding(outcome=Outcome.REFUTED, words=words)
        return _sure(seen, words)

    return test


def repeats_nothing_committed(group: str) -> Test:
    """Expect that a group resumes at its last commit: behind it nothing again, and no gap."""

    def test(seen: Seen) -> Finding:
        hand = _hand(seen, group)
        if not hand:
            return _unknown(f"Nothing of group {group} was in hand.")
        again, skipped = _found(seen, group, "consume-repeat"), _found(seen, group, "consume-skip")
        back = _found(seen, group, "consume-repeat", kind="committed")
        words = (
            f"Group {group}: {len(again)} records were processed again, {len(again & hand)} of the "
            f"{len(hand)} in hand among them, {len(back)} of them behind an acknowledged commit; "
            f"{len(skipped)} were passed over."
        )
        if back or skipped:
            return Finding(outcome=Outcome.REFUTED, words=words)
        return _sure(seen, words)

    return test


def _exactly(group: str, anomaly: str, done: str, other: str, not_done: str) -> Test:
    def test(seen: Seen) -> Finding:
        hand = _hand(seen, group)
        if not hand:
            return _unknown(f"Nothing of group {group} was in hand.")
        found, others = _found(seen, group, anomaly), _found(seen, group, other)
        words = (
            f"Group {group}: {len(found & hand)} of the {len(hand)} records in hand were {done}, "
            f"{len(found - hand)} others, and {len(others)} were {not_done}."
        )
        if found - hand or others:
            return Finding(outcome=Outcome.REFUTED, words=words)
        if found == hand:
            return _sure(seen, words)
        return _refuted_if_checked(seen, words)

    return test


def _hand(seen: Seen, group: str) -> Places | None:
    noted = seen.facts(f"in hand: {group}")
    if not noted:
        return None
    return frozenset(
        (partition, offset)
        for stretches in noted
        for partition, first, end in stretches
        for offset in range(first, end)
    )


def _found(seen: Seen, group: str, anomaly: str, *, kind: str | None = None) -> Places:
    ours = f"-{group}"
    return frozenset(
        (row["partition"], row["offset"])
        for row in seen.anomalies(anomaly)
        if str(row["detail"].get("group", "")).endswith(ours) and kind in (None, row["kind"])
    )


def _unknown(words: str) -> Finding:
    return Finding(outcome=Outcome.UNKNOWN, words=words)


def _sure(seen: Seen, words: str) -> Finding:
    if ignored := [name for name in _ANOMALIES if seen.did_not_look_for(name)]:
        return _unknown(f"{words} Nobody looked for {', '.join(ignored)}.")
    if seen.unchecked:
        return _unknown(f"{words} Not everything could be checked: {'; '.join(seen.unchecked)}.")
    return Finding(outcome=Outcome.CONFIRMED, words=words)


def _refuted_if_checked(seen: Seen, words: str) -> Finding:
    if seen.unchecked:
        return _sure(seen, words)
    return Finding(outcome=Outcome.REFUTED, words=words)
