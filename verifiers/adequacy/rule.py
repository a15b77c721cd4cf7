"""What a rule of adequacy is, and how all of them are applied to the evidence of a run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.core.registry import Registry
from verifiers.adequacy.evidence import Evidence

MOST_NAMED = 5
"""So many partitions, clients or faults are named in one sentence."""


class State(StrEnum):
    """Whether the evidence of a run keeps a rule."""

    HELD = "held"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one rule in one run.

    Attributes:
        state: held, broken, or not applicable.
        reasons: if it is broken, why the run is not VALID; if it is not applicable, why it is not.
            Sentences that say what to do.
        figures: what was counted, by name; JSON values.
    """

    state: State
    reasons: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as it stands in verdict.json."""
        return {
            "state": str(self.state),
            "reasons": list(self.reasons),
            "figures": dict(self.figures),
        }


def judged(reasons: Iterable[str], **figures: Any) -> Answer:  # noqa: ANN401  (JSON values)
    """Return that a rule is broken for these reasons, or held if there is none."""
    why = tuple(reasons)
    return Answer(state=State.BROKEN if why else State.HELD, reasons=why, figures=figures)


def not_applicable(why: str) -> Answer:
    """Return that a rule says nothing about this run, and why."""
    return Answer(state=State.NOT_APPLICABLE, reasons=(why,))


Rule = Callable[[Evidence], Answer]
"""One rule of adequacy: what the evidence must hold before a run may be called VALID.

The first sentence of its docstring says what it asks for, as `kafka-chaos list rules` prints it;
the rest says how that is decided.
"""

RULES: Registry[Rule] = Registry("rule", "verifiers.adequacy.rules")
rule = RULES.register


def apply_rules(evidence: Evidence) -> dict[str, Answer]:
    """Return what became of each rule, by name."""
    return {name: RULES[name](evidence) for name in RULES}


def reasons_of(answers: Mapping[str, Answer]) -> list[str]:
    """Return, in sentences, why a run with these answers is not VALID."""
    return [
        reason
        for answer in answers.values()
        if answer.state is State.BROKEN
        for reason in answer.reasons
    ]


def named(names: Iterable[object]) -> str:
    """Return names as a sentence has them, the first few: orders-0, orders-1 and 3 more."""
    every = [str(name) for name in names]
    more = len(every) - MOST_NAMED
    shown = ", ".join(every[:MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
