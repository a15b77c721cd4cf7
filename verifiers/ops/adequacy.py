"""Whether an op history holds enough for a VALID, by the rules of run folders where they apply."""

from verifiers.adequacy.rule import RULES, Answer, judged, not_applicable
from verifiers.ops.checking import OpChecked, OpFound
from verifiers.ops.cycles import EMPTY
from verifiers.ops.description import Described

FEWEST_POLLED = 2
"""One value that was read once has nothing that it could be compared with: neither order nor a skip
nor a second copy can show. Whoever wants more than that asks for it by the counts: none lost among
n acknowledged values allows, with 95 % confidence, that 3/n are (the rule of three).
"""

_SILENT = {
    "files-complete": "An op history is one file; a torn line is a problem of its own.",
    "log-read-whole": "Values that nobody polled are an anomaly of their own, unseen.",
    "timeline-witnessed": "An op history says nothing about leaders.",
    "losses-explained": "An op history has no contract: every loss is forbidden.",
    "one-clock": "An op history does not say whose clocks its times were read from.",
}

LOSSES = ("lost-write", "unseen")
"""Without a timeline one cannot tell kinds of losses; and what nobody read may as well be lost."""


def answers(
    described: Described, found: OpFound, checked: OpChecked, *, contract: bool = False
) -> dict[str, Answer]:
    """Return what became of each rule of adequacy in one history, by name.

    With a `contract` losses may be permitted, and then nothing in the history explains them.
    """
    known = {
        "load-met-damage": _sent(described, found),
        "readers-read": _polled(described),
        "checkers-ran": judged(checked.crashes, ran=len(checked.checkers) - len(checked.crashes)),
        "one-value-one-fate": _unique(found),
    }
    silent = {name: not_applicable(why) for name, why in _SILENT.items()}
    if contract:
        known["losses-explained"] = _explained(found)
    every = silent | known
    return {name: every[name] for name in RULES if name in every}


def _explained(found: OpFound) -> Answer:
    lost = sum(found.counts.get(name, 0) for name in LOSSES)
    reasons = [
        f"{lost} acknowledged values were lost, or read by nobody. The contract may permit that, "
        "but an op history says nothing about damage that would explain it."
    ]
    return judged(reasons if lost else (), lost=lost)


def _sent(described: Described, found: OpFound) -> Answer:
    acked = described.counts.get(("send", "ok"), 0)
    reasons = []
    if not described.lines:
        reasons.append("The history is empty: nothing happened in it.")
    elif not acked:
        reasons.append("No op that is ok sent anything: there was nothing to lose.")
    if EMPTY in found.counts:
        reasons.append("No op depends on another (empty-transaction-graph): nothing was shown.")
    return judged(reasons, acked=acked)


def _polled(described: Described) -> Answer:
    polled = described.counts.get(("poll", "ok"), 0)
    reasons = []
    if described.lines and described.counts.get(("send", "ok")) and polled < FEWEST_POLLED:
        reasons.append(
            "No op that is ok polled a value: what was sent was never looked at."
            if not polled
            else "Ops that are ok polled one value only: nothing is there that it could be "
            "compared with. Poll at least two."
        )
    return judged(reasons, polled=polled)


def _unique(found: OpFound) -> Answer:
    reasons = [
        f"Values were sent more than once to one key ({found.repeated} of them): the anomalies "
        "are defined for values that are unique within their key."
    ] if found.repeated else []  # fmt: skip
    return judged(reasons, sent_more_than_once=found.repeated)
