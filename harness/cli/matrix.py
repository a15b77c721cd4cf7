"""The command `kafka-chaos matrix`: the same damage under many contracts, one table."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, Keep, Master, Resume, Store, contracts
from harness.cli.process import INTERRUPTED, stoppable
from harness.cli.settings import BY_NAME, Flags, scenario_of

if TYPE_CHECKING:
    from harness.campaigns.contracts import Choice, Tally

_SEED = 1
"""A matrix that nobody gave a seed: the same every time, so that it can be resumed."""

_DEFAULTS = {
    "kafka": None,
    "acks": "0,1,all",
    "min_isr": "1,2",
    "idempotence": "on,off",
    "unclean_election": "off",
    "max_in_flight": None,
}
"""What a matrix varies, and by which values; None leaves the scenario's own."""


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
        name: BY_NAME[name].words(given[name] or default) or [None]
        for name, default in _DEFAULTS.items()
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
                keep_cluster=keep_cluster,
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
