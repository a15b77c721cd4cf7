"""The command `verify`: run folders and op histories, in any mix, each with its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli import console
from harness.core.errors import KafkaChaosError, UsageError
from harness.core.run_dir import SCHEMA, RunDir
from harness.core.verdict import Verdict

if TYPE_CHECKING:
    from harness.campaigns.conduct import RunResult
    from verifiers.ops.judgement import HistoryVerdict, OpOptions

MALFORMED = 2
"""The exit code if one of the paths is nothing that could be judged."""

_GRAVITY = (0, Verdict.UNKNOWN.exit_code, MALFORMED, Verdict.INVALID.exit_code)
"""Exit codes of single paths; of several, the last one here counts."""

_MOST_REASONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of one path.

    Attributes:
        document: as in verdict.json.
        code: the exit code that it alone would have.
    """

    document: dict[str, Any]
    code: int


def judge_paths(
    paths: Sequence[Path],
    *,
    subscribe: bool,
    ww_deps: bool,
    master: str | None,
    exact: bool = False,
    plots: Path | None = None,
) -> tuple[Judged, ...]:
    """Verify run folders and op histories, and say on stderr what came of each, in order.

    A path that cannot be judged is UNKNOWN and says why; it spoils no other. A single one raises.

    Args:
        paths: folders of runs, and op histories in JSON lines.
        subscribe: in op histories, rebalances may move consumers.
        ww_deps: in op histories, a write depends on the one before it in the log.
        master: a Spark master; None is this machine.
        exact: look at every record, however long the history is, and in order at a first look.
        plots: a folder to draw op histories into; None draws nothing.

    Raises:
        UsageError: there is no such path; or the only one is no run folder; or plots are asked
            for, and none of them is an op history, or there is no room for plots.
        HistoryUnreadable: the only path is a run folder whose history is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    if plots is not None and paths and all(path.is_dir() for path in paths):
        raise UsageError(
            "--plots draws op histories, and no path is one: what happened in a run stands in its "
            "report.html."
        )
    if len(paths) == 1 and not paths[0].is_file():
        return (_judge_folder(paths[0], master, exact=exact),)
    if not any(path.exists() for path in paths):
        raise UsageError(f"There is no file or folder {', '.join(map(str, paths))}.")
    judged: dict[int, Judged] = {}
    # A path that is not there is told of as an op history is: nothing says what it was to be.
    files = [at for at, path in enumerate(paths) if not path.is_dir()]
    if files:
        from verifiers.ops.judgement import OpOptions

        options = OpOptions(subscribe=subscribe, ww_deps=ww_deps)
        found = _histories([paths[at] for at in files], options, master, plots, exact=exact)
        judged |= dict(zip(files, found, strict=True))
    folders = [at for at in range(len(paths)) if at not in judged]
    found_there = _folders([paths[at] for at in folders], master, exact=exact)
    judged |= dict(zip(folders, found_there, strict=True))
    return tuple(judged[at] for at in range(len(paths)))


def worst(judged: Sequence[Judged]) -> int:
    """Return the exit code of all: INVALID, then what is malformed, then UNKNOWN."""
    return max((one.code for one in judged), key=_GRAVITY.index)


def _histories(
    paths: Sequence[Path],
    options: "OpOptions",
    master: str | None,
    plots: Path | None,
    *,
    exact: bool,
) -> list[Judged]:
    from verifiers.ops.job import verify_histories

    verdicts = verify_histories(
        paths, options=options, master=master, say=console.say, exact=exact, plots=plots
    )
    judged = []
    for verdict in verdicts:
        _say_history(verdict)
        code = MALFORMED if verdict.malformed else verdict.verdict.exit_code
        judged.append(Judged(document=verdict.to_json(), code=code))
    return judged


def _say_history(verdict: "HistoryVerdict") -> None:
    lines = [f"{verdict.verdict.name:<7}  {verdict.history}"]
    for name, finding in sorted(verdict.anomalies.items()):
        permitted = f", permitted: {finding.why}" if finding.permitted else ""
        example = f", as {_shown(finding.examples[0].to_json())}" if finding.examples else ""
        lines.append(f"         {name}: {finding.count}{example}{permitted}")
    told = [reason for reason in verdict.reasons if not reason.endswith(" found.")]
    lines += [f"         {reason}" for reason in told[:_MOST_REASONS]]
    measured = None if verdict.measured is None else verdict.measured.sentence
    lines += [f"         measured: {measured}"] if measured else []
    console.print_lines(lines)


def _shown(example: dict[str, Any]) -> str:
    return " ".join(f"{name}={what}" for name, what in example.items() if name != "steps")


def _judge_folder(path: Path, master: str | None, *, exact: bool) -> Judged:
    from harness.campaigns.conduct import judge

    run_dir = RunDir.open(path)
    with console.live_progress() as progress:
        outcome = judge(run_dir, master=master, progress=progress, exact=exact)
    return _told(outcome)


def _folders(paths: Sequence[Path], master: str | None, *, exact: bool) -> list[Judged]:
    """Judge run folders together; say of one that cannot be judged why."""
    from harness.campaigns.conduct import judge_all

    judged: dict[Path, Judged] = {}
    opened: dict[Path, RunDir] = {}
    for path in paths:
        try:
            opened[path] = RunDir.open(path)
        except KafkaChaosError as error:
            judged[path] = _why_not(path, error)
    with console.live_progress() as progress:
        outcomes = judge_all(list(opened.values()), master=master, progress=progress, exact=exact)
    for path, outcome in zip(opened, outcomes, strict=True):
        if isinstance(outcome, KafkaChaosError):
            judged[path] = _why_not(path, outcome)
        else:
            judged[path] = _told(outcome)
    return [judged[path] for path in paths]


def _told(outcome: "RunResult") -> Judged:
    import json

    from verifiers.report import console_summary

    path = outcome.run_dir.path
    console.print_lines(console_summary(path))
    document = json.loads((path / "verdict.json").read_text(encoding="utf-8"))
    return Judged(document=document, code=outcome.verdict.exit_code)


def _why_not(path: Path, error: KafkaChaosError) -> Judged:
    console.print_lines([f"UNKNOWN  {path}", f"         {error}"])
    document = {
        "schema": SCHEMA,
        "run": path.name,
        "verdict": Verdict.UNKNOWN.name,
        "reasons": [str(error)],
        "anomalies": {},
    }
    return Judged(document=document, code=error.exit_code)
