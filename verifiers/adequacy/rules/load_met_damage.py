"""Load met damage."""

from collections.abc import Iterator

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, named, rule

FEWEST_ACKED = 100
"""A run with fewer acknowledged sends proves nothing, unless run.json names another number: none
lost among 100 still allows, with 95 % confidence, that 3 % are lost (the rule of three).
"""
LEAST_KEPT = 0.1
"""A contract was hardly tried if a smaller share of all sends was acknowledged or, as it promises,
refused.
"""


@rule("load-met-damage")
def load_met_damage(evidence: Evidence) -> Answer:
    """Sends were under way during each fault, and acknowledged after the last one was healed.

    At least 100 sends were acknowledged, and at least a tenth of all were acknowledged, or refused
    for want of in-sync replicas as the contract demands. The script of a claim decides by itself
    what is sent when.
    """
    counts = evidence.counts
    reasons = list(_too_few(evidence))
    attempted = dict(evidence.events.sends.attempted)
    figures = {
        "acked": counts.acked,
        "sends": counts.sends,
        "refused": evidence.events.sends.refused,
        "attempted": attempted,
        "acked_after_healing": evidence.events.sends.acked_after_healing,
    }
    if evidence.is_claim or not evidence.events.faults:
        return judged(reasons, **figures)
    idle = [fault for fault in evidence.events.faults if not attempted.get(fault.id)]
    if idle:
        reasons.append(
            f"Nothing was sent while {named(f'{f.name} ({f.id})' for f in idle)} was in force: "
            "damage without load shows nothing. Send faster, or hold faults longer."
        )
    if counts.acked and not evidence.events.sends.acked_after_healing:
        reasons.append(
            "Nothing was acknowledged after the last fault was healed: that the cluster works "
            "again was not seen. Let the run last longer after its faults."
        )
    return judged(reasons, **figures)


def _too_few(evidence: Evidence) -> Iterator[str]:
    counts = evidence.counts
    fewest = int(evidence.run.meta.get("fewest_acked", FEWEST_ACKED))
    if counts.acked == 0:
        yield "No record was acknowledged: there was nothing to lose."
    elif counts.acked < fewest:
        yield (
            f"Only {counts.acked} records were acknowledged; below {fewest} a run shows "
            "nothing: let it run longer, or send faster."
        )
    refused = evidence.events.sends.refused
    kept = counts.acked + refused
    if not evidence.is_claim and counts.acked and kept < LEAST_KEPT * counts.sends:
        yield (
            f"Of {counts.sends:,} sends only {counts.acked:,} were acknowledged, and "
            f"{refused:,} refused: the contract was hardly tried. Leave the "
            "cluster more brokers, or more time between faults."
        )
