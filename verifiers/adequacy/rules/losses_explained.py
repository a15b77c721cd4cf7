"""A permitted loss must be explained."""

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, not_applicable, rule


@rule("losses-explained")
def losses_explained(evidence: Evidence) -> Answer:
    """Every lost record has a damage, there and then, that can have lost it.

    The checker of lost records looks for it: after the record was sent another leader's log went on
    at or below it, or held another record in its place, or a log was cut there; under acks=0 also a
    fault of a broker that held it. A record without such a cause, or one that every disk still
    holds, is forbidden under every contract. Where the leaders are not known no loss can be
    explained.
    """
    kinds = {k: n for (name, k), n in evidence.found.counts.items() if name == "lost-write"}
    lost = sum(kinds.values())
    if not lost:
        return not_applicable("No acknowledged record was lost.")
    unexplained = kinds.get("unexplained", 0) + kinds.get("unread", 0)
    is_known = bool(evidence.events.timeline.states)
    reasons = [] if is_known else [
        f"{lost:,} acknowledged records were lost, and who led their partitions when is not known: "
        "what lost them cannot be told."
    ]  # fmt: skip
    if unexplained and is_known:
        reasons.append(
            f"{unexplained:,} of {lost:,} lost records have no damage that explains them: no "
            "contract permits that."
        )
    return judged(reasons, lost=lost, explained=lost - unexplained if is_known else 0)
