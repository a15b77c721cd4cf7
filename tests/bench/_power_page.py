"""The page of the bench `power`: docs/power.md, whose notes are kept by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.run_dir import write_atomically
from tests.bench._bugs import OTHERS_GOAL_MIN
from tests.bench._power_figures import Contribution, Figures, Go

NOTES_BEGIN = "<!-- The notes begin: what stands from here to their end is kept by hand. -->"
NOTES_END = "<!-- The notes end. -->"
_NOT_YET = "not measured yet"
_NO_NOTES = "Nothing is noted yet."

_INTRODUCTION = f"""\
# Power: which known bugs an unscripted search finds

A search is worth what it finds. `kafka-chaos bench power` looks for bugs that are known, the way
anybody would, with `kafka-chaos search` ([campaigns.md](campaigns.md)): on a version that has the
bug until it is found or the budget is spent, and as long as the median of that on a version that
has it no more, where it must not be found. One mix of damage, settings and load serves all bugs; a
bug's own flags belong to the contract, the workload or the client.

*Found* counts the goes, each with a seed of its own, in which one of the bug's anomalies was found
where the contract forbids it. The time is that from the beginning of the search until the run that
found it was judged; a go without a finding counts as the whole budget. Images are built before. The
goal is for the median; of the bugs without one of their own, some one is to be found within
{OTHERS_GOAL_MIN:g} minutes. *False alarms* are goes that found the bug where it is fixed.

This page is written by the command; all but its notes is written anew:

    kafka-chaos bench power --resume --page docs/power.md
    kafka-chaos bench power --goes 0 --page docs/power.md     # from what was measured before

"""


def write_page(
    path: Path,
    figures: Sequence[Figures],
    *,
    contributions: Sequence[Contribution],
    goes: Sequence[Go],
) -> None:
    """Write the page; the notes that it holds are kept.

    Args:
        path: the page.
        figures: of every bug.
        contributions: of the patterns that were left out.
        goes: all that were measured.
    """
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        path, page(figures, contributions=contributions, goes=goes, notes=notes_of(old))
    )


def notes_of(page: str) -> str:
    """Return the notes in a page; empty if there are none."""
    _, begin, rest = page.partition(NOTES_BEGIN)
    notes, end, _ = rest.partition(NOTES_END)
    return notes.strip() if begin and end else ""


def page(
    figures: Sequence[Figures],
    *,
    contributions: Sequence[Contribution],
    goes: Sequence[Go],
    notes: str,
) -> str:
    """Return the page; arguments as for `write_page`."""
    lines = [
        *_table(figures),
        "",
        *_alarms(figures),
        *_settings(figures, goes),
        "",
        *_contributions(contributions),
        "",
        "## What was tried, and what did not help",
        "",
        NOTES_BEGIN,
        "",
        notes or _NO_NOTES,
        "",
        NOTES_END,
    ]
    return _INTRODUCTION + "\n".join(lines) + "\n"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _head(*names: str) -> list[str]:
    return [_row(*names), f"|{'---|' * len(names)}"]


def _table(figures: Sequence[Figures]) -> list[str]:
    return [
        *_head(
            *("bug", "on", "found", "minutes, median", "goal", "situations, median"),
            *("runs an hour", "fixed in", "false alarms"),
        ),
        *map(_figures_row, figures),
    ]


def _figures_row(each: Figures) -> str:
    bug = each.bug
    measured = (
        (
            f"{each.found} of {len(each.affected)}",
            each.median_min,
            *_goal(each),
            f"{each.situations:g}",
            f"{each.runs_an_hour:.0f}" if each.runs_an_hour is not None else "",
        )
        if each.affected
        else (_NOT_YET, "", *_goal(each), "", "")
    )
    if each.fixed:
        runs = sum(go.runs for go in each.fixed)
        known = sum(go.known for go in each.fixed)
        alarms = (
            f"{len(each.false_alarms)} of {len(each.fixed)} "
            f"({runs} runs, {runs - known} of them UNKNOWN)"
        )
    else:
        alarms = _NOT_YET
    return _row(f"`{bug.id}`", bug.affected, *measured, bug.fixed, alarms)


def _goal(each: Figures) -> tuple[str]:
    return (f"{each.bug.goal_min:g}" if each.bug.goal_min is not None else "one of them",)


def _alarms(figures: Sequence[Figures]) -> list[str]:
    rows = [
        *(
            _row(f"`{go.bug}`", each.bug.fixed, go.seed, _counts(go.anomalies), f"`{go.run}`")
            for each in figures
            for go in each.false_alarms
        ),
        *(
            _row(f"{go.bug}: another finding", each.bug.fixed, go.seed, _counts(run["anomalies"]),
                 f"`{run['run']}`")
            for each in figures
            for go, run in each.others
        ),
    ]  # fmt: skip
    if not rows:
        return []
    return [
        "## What was found on fixed versions",
        "",
        "Run folders are named as in the store of the measurement.",
        "",
        *_head("bug", "version", "seed", "found", "run"),
        *rows,
        "",
    ]


def _counts(anomalies: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{count:,}" for name, count in anomalies.items())


def _settings(figures: Sequence[Figures], goes: Sequence[Go]) -> list[str]:
    counted = [go for each in figures for go in (*each.affected, *each.fixed)]
    commits = sorted({go.commit for go in counted})
    out = len([go for go in goes if not go.without]) - len(counted)
    lines = [
        "## The settings",
        "",
        "What is not given here is drawn for each run.",
        "",
        *_head("bug", "what goes wrong", "found as", "workload", "flags of its own", "budget, min"),
        *(
            _row(
                f"`{each.bug.id}`",
                each.bug.meaning,
                ", ".join(each.bug.anomalies),
                each.bug.workload,
                f"`{' '.join(each.bug.flags)}`" if each.bug.flags else "none",
                f"{each.budget_s / 60:g}",
            )
            for each in figures
        ),
    ]
    if commits:
        ends = sorted(go.at_utc for go in counted)
        lines += ["", f"Measured from {ends[0]} to {ends[-1]}, at commit {', '.join(commits)}."]
    if len(commits) > 1:
        lines[-1] += " The search may have changed between these commits."
    if out:
        lines += ["", f"Goes with other flags or a smaller budget, left out: {out}."]
    return lines


def _contributions(contributions: Sequence[Contribution]) -> list[str]:
    lines = [
        "## What each pattern contributes",
        "",
        "The same search without one pattern, all others being there, and with all of them: in how "
        "many goes the bug was found within so many minutes, and the median.",
        "",
    ]
    if not contributions:
        return [*lines, f"{_NOT_YET.capitalize()}: `--without PATTERN` measures it."]
    rows = [
        _row(
            f"`{each.all_but_it.bug.id}`",
            f"`{each.pattern}`",
            f"{each.all_but_it.budget_s / 60:.3g}",
            _found(each.all_but_it),
            _found(each.all_patterns),
        )
        for each in contributions
    ]
    return [
        *lines,
        *_head("bug", "left out", "within, min", "found without it", "found with all"),
        *rows,
    ]


def _found(each: Figures) -> str:
    if not each.affected:
        return _NOT_YET
    return f"{each.found} of {len(each.affected)}, {each.median_min}"
