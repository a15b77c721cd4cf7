"""The command `verify`: run folders and op histories, in any mix, each with its verdict.

With `--self-test` anomalies are planted into copies of a run, and all must be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from harness.campaigns.stored_runs import Named, kind_of, name_or_path, open_run
from harness.cli import console
from harness.core.errors import EnvironmentBroken, KafkaChaosError, UsageError
from harness.core.run_dir import SCHEMA, RunDir, canonical_json
from harness.core.verdict import Verdict

if TYPE_CHECKING:
    from verifiers.ops.judgement import HistoryVerdict, OpOptions
    from verifiers.planting.run_contents import Offence
    from verifiers.planting.self_test import PlantOutcome, SelfTest

_MALFORMED = UsageError.exit_code
_CODES = (0, Verdict.UNKNOWN.exit_code, _MALFORMED, Verdict.INVALID.exit_code)
"""The exit codes of single paths; of several, the one that is last here counts."""

_MOST_REASONS = 5
_MOST_LINES = 4


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
    paths: Sequence[Path | str],
    *,
    subscribe: bool,
    ww_deps: bool,
    master: str | None,
    exact: bool = False,
    plots: Path | None = None,
) -> tuple[Judged, ...]:
    """Verify run folders and op histories; say on stderr what came of each.

    A path that cannot be judged is UNKNOWN and says why; it spoils no other. A single one raises.

    Args:
        paths: folders of runs, and op histories in JSON lines; texts may be URIs of them.
        subscribe: in op histories, rebalances may move consumers.
        ww_deps: in op histories, a write depends on the one before it in the log.
        master: a Spark master; None is this machine.
        exact: look at every record, however long the history is, and in order at a first look.
        plots: a folder to draw op histories into; None draws nothing.

    Returns:
        What came of each path, in the order of the paths.

    Raises:
        UsageError: there is no such path; or the only one is no run folder; or plots are asked
            for, and none of them is an op history, or there is no room for plots.
        HistoryUnreadable: the only path is a run folder whose history is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    named = [name_or_path(path) for path in paths]
    kinds = {name: kind_of(name, master=master) for name in named}
    if plots is not None and all(kind == "folder" for kind in kinds.values()):
        raise UsageError(
            "--plots draws op histories, and no path is one: what happened in a run stands in its "
            "report.html."
        )
    if len(paths) > 1 and not any(kinds.values()):
        raise UsageError(f"There is no file or folder {', '.join(map(str, paths))}.")
    # Nothing says what a path was to be that is not there: among others it counts as a history.
    alone = len(paths) == 1
    folders = [n for n in named if kinds[n] == "folder" or (alone and kinds[n] is None)]
    files = [name for name in named if name not in folders]
    judged: dict[Named, Judged] = {}
    if files:
        from verifiers.ops.judgement import OpOptions

        options = OpOptions(subscribe=subscribe, ww_deps=ww_deps)
        judged |= _judge_histories(files, options, master=master, exact=exact, plots=plots)
    if folders:
        judged |= _judge_runs(folders, alone=alone, master=master, exact=exact)
    return tuple(judged[name] for name in named)


def worst(judged: Sequence[Judged]) -> int:
    """Return the exit code of all: INVALID, then what is malformed, then UNKNOWN."""
    return max((path.code for path in judged), key=_CODES.index)


def _judge_histories(
    paths: Sequence[Named],
    options: "OpOptions",
    *,
    master: str | None,
    exact: bool,
    plots: Path | None,
) -> dict[Named, Judged]:
    from verifiers.ops.job import verify_histories

    verdicts = verify_histories(
        paths, options=options, master=master, say=console.say, exact=exact, plots=plots
    )
    judged: dict[Named, Judged] = {}
    for path, verdict in zip(paths, verdicts, strict=True):
        console.print_lines(_history_lines(verdict))
        code = _MALFORMED if verdict.malformed else verdict.verdict.exit_code
        judged[path] = Judged(document=verdict.to_json(), code=code)
    return judged


def _history_lines(verdict: "HistoryVerdict") -> list[str]:
    lines = [f"{verdict.verdict.name:<7}  {verdict.history}"]
    for name, finding in sorted(verdict.anomalies.items()):
        permitted = f", permitted: {finding.why}" if finding.permitted else ""
        example = f", as {_fields(finding.examples[0].to_json())}" if finding.examples else ""
        lines.append(f"         {name}: {finding.count}{example}{permitted}")
    # What was found has a line already.
    reasons = [reason for reason in verdict.reasons if not reason.endswith(" found.")]
    lines += [f"         {reason}" for reason in reasons[:_MOST_REASONS]]
    measured = None if verdict.measured is None else verdict.measured.sentence
    return [*lines, f"         measured: {measured}"] if measured else lines


def _fields(example: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in example.items() if name != "steps")


def _judge_runs(
    paths: Sequence[Named], *, alone: bool, master: str | None, exact: bool
) -> dict[Named, Judged]:
    """Judge run folders together; one that cannot be judged is UNKNOWN, and says why.

    Raises:
        KafkaChaosError: why, if it was alone.
        EnvironmentBroken: a storage cannot be reached.
    """
    from harness.campaigns.conduct import judge_all

    judged: dict[Named, Judged] = {}
    opened: dict[Named, RunDir] = {}

    def refuse(path: Named, error: KafkaChaosError) -> None:
        if alone:
            raise error
        judged[path] = _without_verdict(path, error)

    with TemporaryDirectory(prefix="kafka-chaos-runs-") as fetched:
        for number, path in enumerate(paths):
            try:
                opened[path] = open_run(path, Path(fetched) / str(number))
            except EnvironmentBroken:
                raise
            except KafkaChaosError as error:
                refuse(path, error)
        with console.live_progress() as progress:
            results = judge_all(
                list(opened.values()), master=master, progress=progress, exact=exact
            )
    for path, result in zip(opened, results, strict=True):
        if isinstance(result, KafkaChaosError):
            refuse(path, result)
        else:
            console.print_lines(result.summary)
            judged[path] = Judged(document=result.report.to_json(), code=result.verdict.exit_code)
    return judged


def _without_verdict(path: Named, error: KafkaChaosError) -> Judged:
    console.print_lines([f"UNKNOWN  {path}", f"         {error}"])
    document = {
        "schema": SCHEMA,
        "run": str(path).rpartition("/")[2],
        "verdict": Verdict.UNKNOWN.name,
        "reasons": [str(error)],
        "anomalies": {},
    }
    return Judged(document=document, code=error.exit_code)


# -- --self-test -----------------------------------------------------------------------------------


def try_verifier(
    paths: Sequence[Path | str], *, master: str | None, exact: bool, as_json: bool
) -> int:
    """Run the self-test on a run folder, show its result, and return the exit code.

    Returns:
        0 if everything that was planted was found and nothing else; else 1.

    Raises:
        UsageError: it was not asked for one run folder.
        HistoryUnreadable: the run's own history is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    if len(paths) != 1 or not Path(paths[0]).is_dir():
        raise UsageError(
            "--self-test takes one run folder, such as runs/latest: it plants anomalies into "
            "copies of it."
        )
    from verifiers.planting.self_test import self_test

    outcome = self_test(Path(paths[0]), master=master, exact=exact, say=console.say)
    _show(outcome)
    if as_json:
        typer.echo(canonical_json(outcome.to_json()), nl=False)
    return 0 if outcome.passed else 1


def _show(outcome: "SelfTest") -> None:
    rows = [
        (plant.name, plant.outcome, str(plant.planted or ""), _implied(plant), plant.told)
        for plant in outcome.plants
    ]
    console.print_table(["plant", "outcome", "planted", "implied", "what was done"], rows)
    failed = [plant for plant in outcome.plants if not plant.passed]
    for plant in failed:
        console.print_lines(
            [
                *_lines(plant.name, "was planted and not found", plant.missed),
                *_lines(plant.name, "was found and not planted", plant.raised),
                *_lines(plant.name, "is in the run and was not found in its copy", plant.gone),
                *(f"{plant.name}: {crash}" for crash in plant.crashes),
            ]
        )
    planted = sum(not plant.not_planted for plant in outcome.plants)
    without = len(outcome.plants) - planted
    console.say(
        f"{planted} anomalies planted into copies of {outcome.run}, {planted - len(failed)} found "
        f"and nothing else, {len(failed)} failed; {without} not planted ({outcome.seconds:.0f} s)."
    )


def _implied(plant: "PlantOutcome") -> str:
    return ", ".join(f"{name} ×{count}" for name, (count, _) in plant.implied.items())


def _lines(plant: str, what: str, offences: "Sequence[Offence]") -> list[str]:
    lines = [f"{plant}: {offence.in_words} {what}" for offence in offences[:_MOST_LINES]]
    more = len(offences) - len(lines)
    return [*lines, f"{plant}: … and {more:,} more"] if more > 0 else lines
