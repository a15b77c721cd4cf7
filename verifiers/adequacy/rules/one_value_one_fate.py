"""One value, one fate."""

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, rule


@rule("one-value-one-fate")
def one_value_one_fate(evidence: Evidence) -> Answer:
    """Every value was sent once, by one client, and has one outcome.

    A value that was sent or acknowledged twice, or by two clients, makes every answer to "is it in
    the log" ambiguous: the history contradicts itself.
    """
    twice = evidence.counted.fates.twice
    reasons = [
        f"{twice:,} values have more than one outcome, or were sent by more than one client: the "
        "history contradicts itself. Look at history/send."
    ] if twice else []  # fmt: skip
    return judged(reasons, sent_more_than_once=twice)
