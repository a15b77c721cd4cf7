"""The command `kafka-chaos matrix`: the same damage under many contracts, one table."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from harness.cli import console
from harness.cli.options import (
    DEFAULT_STORE,
    Acks,
    Flags,
    Json,
    Keep,
    Master,
    OnOff,
    Resume,
    Store,
    contracts,
    scenario_of,
)
from harness.cli.process import INTERRUPTED, keep_cluster_of, stoppable
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.campaigns.contracts import Choice, Tally

_SEED = 1
"""A matrix that nobody gave a seed: the same every time, so that it can be resumed."""


@contracts
def matrix(
    given: Flags,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    keep_cluster: Keep = "never",
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Do the same damage under each of many contracts; ends in one table, linked to the runs."""
    from harness.campaigns.conduct import reject_unknown_version
    from harness.campaigns.configure import DEFAULT_SCENARIO as DEFAULT_MIX
    from harness.campaigns.contract_cell import Cell
    from harness.campaigns.contracts import DEFAULT_SCENARIO, Matrix, combine, run_matrix

    seed = _SEED if given["seed"] is None else given["seed"]
    default = DEFAULT_SCENARIO if given["faults"] is None else DEFAULT_MIX
    common = {**given, "seed": seed, "scenario": given["scenario"] or default}

    def make(choice: "Choice") -> Cell:
        flags = {**common, **choice}
        return Cell(scenario=scenario_of(flags))

    dimensions: dict[str, Sequence[Any]] = {
        "kafka": split(given["kafka"], [None]),
        "acks": choices("--acks", given["acks"], Acks, "0,1,all"),
        "min_isr": whole_numbers("--min-isr", given["min_isr"], "1,2"),
        "idempotence": choices("--idempotence", given["idempotence"], OnOff, "on,off"),
        "unclean_election": choices("--unclean-election", given["unclean_election"], OnOff, "off"),
        "max_in_flight": whole_numbers("--max-in-flight", given["max_in_flight"], None),
    }
    chosen, left_out = combine(dimensions, make, seed=seed)
    with stoppable() as stop, console.live_progress() as progress:
        for one in left_out:
            progress.say(f"left out: {one.choice}: {one.why}")
        for spec in {cell.kafka: cell.scenario.cluster for cell in chosen}.values():
            reject_unknown_version(spec, say=progress.say)
        run = run_matrix(
            Matrix(
                cells=chosen, left_out=left_out, seed=seed, store=store, master=master,
                keep_cluster=keep_cluster_of(keep_cluster),
            ),
            resume=resume,
            progress=progress,
            stop=stop,
        )  # fmt: skip
    _print(run)
    if as_json:
        typer.echo(json.dumps(run.document(), indent=2, ensure_ascii=False))
    raise typer.Exit(INTERRUPTED if stop.is_set() else run.verdict.exit_code)


def _print(run: "Tally") -> None:
    from harness.campaigns.contract_page import cells, headers, tally, varied

    shown = list(varied(run.entries))
    console.print_table(headers(run.entries), [cells(entry, shown) for entry in run.entries])
    console.say(f"{run.verdict.name}  {tally(run.entries)}, of {len(run.matrix.cells)} contracts")
    for entry in run.entries:
        for reason in entry.reasons:
            console.say(f"  {entry.contract}: {reason}")
    console.say(f"  table: {run.folder / 'matrix.html'}")


# -- lists -----------------------------------------------------------------------------------------


def split(text: str | None, default: Sequence[str | None]) -> list[str | None]:
    """Return the words of a list with commas, each once."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    return list(dict.fromkeys(words or default))


def choices(flag: str, text: str | None, kind: type[StrEnum], default: str) -> list[StrEnum]:
    """Return the values of a list of choices.

    Raises:
        UsageError: one of them is none.
    """
    known = {str(value): value for value in kind}
    words = split(text, split(default, []))
    strange = [word for word in words if word not in known]
    if strange:
        raise UsageError(f"{flag}: {strange[0]!r} is none of {', '.join(known)}.")
    return [known[str(word)] for word in words]


def whole_numbers(flag: str, text: str | None, default: str | None) -> list[int | None]:
    """Return the values of a list of whole numbers; None alone if there is none.

    Raises:
        UsageError: one of them is none.
    """
    words = split(text, split(default, [None]))
    for word in words:
        if word is not None and not word.isdecimal():
            raise UsageError(f"{flag}: {word!r} is no whole number.")
    return [None if word is None else int(word) for word in words]
