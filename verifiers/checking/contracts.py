"""The contracts as text: docs/contracts.md, and the lines of `kafka-chaos list contracts`.

`python -m verifiers.checking.contracts docs/contracts.md` writes the page.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.contract import Contract
from verifiers.checking.checker import CHECKERS
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.row import Chapter, Row
from verifiers.oracle.table import TABLE

COMMAND = "python -m verifiers.checking.contracts docs/contracts.md"
"""What writes the page."""

_NEW = "4.3.1"
_SAFE = Contract(idempotence=True)


def _at(contract: Contract, kafka: str = _NEW, *, destroyed: bool = False) -> Circumstances:
    return Circumstances.planned(contract, kafka, destroys=destroyed)


COLUMNS: Mapping[str, Circumstances] = {
    "acks=0": _at(Contract(acks="0")),
    "acks=1": _at(Contract(acks="1")),
    "acks=all, idempotence off": _at(Contract(idempotence=False)),
    "the same, 1 in flight": _at(Contract(idempotence=False, max_in_flight=1)),
    "acks=all, idempotence on": _at(_SAFE),
    "the same, unclean election": _at(Contract(idempotence=True, unclean_election=True)),
    "acks=all, idempotence on, min ISR 1": _at(Contract(idempotence=True, min_isr=1)),
    "the same, power lost": _at(Contract(idempotence=True, min_isr=1), destroyed=True),
    "acks=all, idempotence on, power lost": _at(_SAFE, destroyed=True),
    "the same, Kafka 3.6": _at(_SAFE, "3.6.2", destroyed=True),
    "acks=all, Kafka 0.10.2": _at(Contract(), "0.10.2.2"),
}
"""The contracts of the overview; replication factor 3 and min.insync.replicas 2 where not said."""

_INTRODUCTION = f"""# Contracts

Written by `{COMMAND}` from the table in `verifiers/oracle/`, and from the chapters that
checkers bring themselves; a test demands that it is up to date.

Which anomalies a contract permits: acks × min.insync.replicas × replication factor × idempotence ×
retries × requests in flight × unclean election × version of Kafka × whether a fault destroyed data
on disk. How a reader reads (`isolation.level`, subscribed or not, how a group commits) is told by
the kind of the anomaly, since one run has readers of several kinds. What was found and is permitted
leaves a run VALID; what is forbidden makes it INVALID; of what is UNKNOWN nobody can tell whether
Kafka broke a promise, and it leaves the verdict UNKNOWN. What no row speaks of is forbidden.
[anomalies.md](anomalies.md) tells a story of each anomaly.

Some rows forbid and say what is known: a bug or a weakness of the version is an explanation, and no
excuse.

## Overview

● permitted · ◐ permitted of some kinds · empty: forbidden or UNKNOWN. Replication factor 3,
min.insync.replicas=2, five requests in flight and endless retries where nothing else is said;
*power lost* stands for any fault that destroys data on disk.
"""


def chapters() -> list[Chapter]:
    """Return every chapter: those of the table, then those that checkers bring themselves."""
    known = {chapter.anomaly for chapter in TABLE}
    return [*TABLE, *(CHECKERS[name].chapter for name in CHECKERS if name not in known)]


def markdown_page() -> str:
    """Return the page of all contracts as Markdown."""
    lines = [_INTRODUCTION, *_overview()]
    for chapter in chapters():
        lines += ["", f"## {chapter.anomaly}", "", chapter.means, ""]
        if chapter.kinds:
            lines += [f"Kinds: {', '.join(f'`{kind}`' for kind in chapter.kinds)}.", ""]
        lines += _rows(chapter)
    return "\n".join(lines) + "\n"


def in_a_line(chapter: Chapter) -> str:
    """Return what permits an anomaly, in one line."""
    permits = list(dict.fromkeys(row.permits for row in chapter.rows if row.permits))
    if permits:
        return f"{chapter.means} Permitted by {', '.join(permits)}; else forbidden."
    if chapter.rows[-1].permitted or all(row.undecided for row in chapter.rows):
        return f"{chapter.means} No offence: it leaves the verdict UNKNOWN."
    return f"{chapter.means} Never permitted.".strip()


def _overview() -> list[str]:
    return [
        f"| | {' | '.join(COLUMNS)} |",
        f"|---|{'---|' * len(COLUMNS)}",
        *(
            f"| [{chapter.anomaly}](#{chapter.anomaly.lower()}) | "
            + " | ".join(_mark(chapter, at) for at in COLUMNS.values())
            + " |"
            for chapter in chapters()
        ),
    ]


def _mark(chapter: Chapter, at: Circumstances) -> str:
    kinds = chapter.kinds or (None,)
    permitted = [chapter.rule(kind, at).permitted for kind in kinds]
    return "●" if all(permitted) else "◐" if any(permitted) else ""


def _rows(chapter: Chapter) -> list[str]:
    """Return the rows of a chapter as a table; the first row that fits decides."""
    lines = ["| kind | if | is | because | source |", "|---|---|---|---|---|"]
    for number, row in enumerate(chapter.rows):
        kinds = ", ".join(f"`{kind}`" for kind in chapter.kinds if kind in row.kinds) or "any"
        before = any(_overlap(row, earlier) for earlier in chapter.rows[:number])
        given = row.given.words or ("else" if before else "always")
        lines.append(
            f"| {kinds} | {given} | **{row.ruling}** | {row.why.sentence} | {row.why.source} |"
        )
    return lines


def _overlap(row: Row, other: Row) -> bool:
    return not row.kinds or not other.kinds or not row.kinds.isdisjoint(other.kinds)


def main(arguments: Sequence[str]) -> int:
    """Write the page to the file named by the one argument; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write(f"Say where to: {COMMAND}\n")
        return 2
    Path(arguments[0]).write_text(markdown_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
