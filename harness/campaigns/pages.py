"""What the pages of campaigns have in common."""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from verifiers.report.templates import page_template

MARKS = {"VALID": "✓", "CONFIRMED": "✓", "INVALID": "✗", "REFUTED": "✗", "UNKNOWN": "?"}


def render(template: str, **values: Any) -> str:  # noqa: ANN401 (what the template shows)
    """Return a page of this folder's templates; HTML is escaped, and no value may be missing."""
    page = page_template(Path(__file__).with_name(template))
    return page.render(marks=MARKS, **values)


def tally(what: str, found: Sequence[Enum], kinds: type[Enum]) -> str:
    """Return how many of something ended how: "3 runs: 2 VALID, 1 UNKNOWN, 0 INVALID"."""
    counts = Counter(found)
    plural = "" if len(found) == 1 else "s"
    ends = ", ".join(f"{counts[kind]} {kind.name}" for kind in kinds)
    return f"{len(found)} {what}{plural}: {ends}"
