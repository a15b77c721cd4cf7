"""The command `kafka-chaos compare`: two runs, two nights or two versions side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, Store
from harness.core.run_dir import canonical_json

if TYPE_CHECKING:
    from harness.campaigns.comparison import AnomalyRow, Comparison, QuantityRow
    from harness.campaigns.sides import Side
    from harness.campaigns.spread import Share, Spread

_NAMED = (
    "a run folder, the folder of a night, of a search or of a matrix, or a version such as 3.9.1: "
    "all its runs in the nights of the store."
)
SideName = Annotated[
    str, typer.Argument(show_default=False, help=f"What is compared with: {_NAMED}")
]
OtherName = Annotated[str, typer.Argument(show_default=False, help="What is compared: likewise.")]


def compare(
    a: SideName,
    b: OtherName,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Compare two runs, two nights or two versions: does B show anything forbidden that A does not?

    Anomalies, times and throughput stand side by side, each with its spread.
    """
    from harness.campaigns.comparison import compare as compare_sides
    from harness.campaigns.sides import read_side

    comparison = compare_sides(read_side(a, store), read_side(b, store))
    _print(comparison)
    if as_json:
        typer.echo(canonical_json(comparison.document()), nl=False)
    raise typer.Exit(comparison.verdict.exit_code)


def _print(comparison: "Comparison") -> None:
    a, b = comparison.a, comparison.b
    heads = [a.name, b.name]
    sides = [_about(side) for side in (a, b)]
    console.print_table(["", *heads], [[name, sides[0][name], sides[1][name]] for name in sides[0]])
    console.say("")
    console.print_table(
        ["over runs that are alike", *heads, "B/A", ""],
        [_quantity(row) for row in comparison.quantities],
    )
    rows = [*comparison.findings, *comparison.permitted]
    if rows:
        console.say("")
        console.print_table(
            ["in how many judged runs that are alike", *heads, ""],
            [_anomaly(row, comparison) for row in rows],
        )
    if comparison.left_out:
        console.print_lines(["", "Not compared:", *(f"  {each}" for each in comparison.left_out)])
    console.print_lines(["", f"{comparison.verdict.name}  {comparison.answer}"])


def _about(side: "Side") -> dict[str, str]:
    from verifiers.report import units

    left = ", ".join(f"{count} {why}" for why, count in side.not_compared.items() if count)
    return {
        "compared": side.tally,
        "left out": left or "none",
        "Kafka": ", ".join(side.kafka),
        "under load": units.span(side.load_s),
        "under fault": units.span(side.under_fault_s),
    }


def _quantity(row: "QuantityRow") -> list[str]:
    from verifiers.report import units

    def words(spread: "Spread | None") -> str:
        if spread is None:
            return "—"
        median, low, high = map(row.quantity.say, (spread.median, spread.low, spread.high))
        runs = units.counted(spread.runs, "run")
        return f"{median} ({low} to {high}), {spread.n} in {runs}"

    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.quantity.name, words(row.a), words(row.b), ratio, row.words]


def _anomaly(row: "AnomalyRow", comparison: "Comparison") -> list[str]:
    def words(share: "Share") -> str:
        if not share.of:
            return "no such run"
        low, high = share.interval
        return f"{share.count} of {share.of} ({low:.0%} to {high:.0%})"

    name = comparison.a.name if row.shown_by.endswith("A") else comparison.b.name
    named = row.shown_by if row.shown_by == "both" else f"{row.shown_by[:-1]}{name}"
    text = f"{row.id}: {row.text}" if row.forbidden else row.text
    kind = f"FORBIDDEN, {named}" if row.forbidden else "permitted"
    return [text, words(row.a), words(row.b), kind]
