"""`verify --self-test`: anomalies are planted into copies of a run, and all must be found."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli import console
from harness.core.errors import UsageError
from harness.core.run_dir import canonical_json

if TYPE_CHECKING:
    from verifiers.planting.plant import Offence
    from verifiers.planting.self_test import PlantOutcome, SelfTest

_MOST_LINES = 4


def try_verifier(paths: Sequence[Path], *, master: str | None, exact: bool, as_json: bool) -> int:
    """Run the self-test on a run folder, show its result, and return the exit code.

    Returns:
        0 if everything that was planted was found and nothing else; else 1.

    Raises:
        UsageError: it was not asked for one run folder.
        HistoryUnreadable: the run's own history is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    if len(paths) != 1 or not paths[0].is_dir():
        raise UsageError(
            "--self-test takes one run folder, such as runs/latest: it plants anomalies into "
            "copies of it."
        )
    from verifiers.planting.self_test import self_test

    outcome = self_test(paths[0], master=master, exact=exact, say=console.say)
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
