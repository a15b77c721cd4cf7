"""The command `kafka-chaos compare`: two runs, two nights or two versions side by side."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, KnownFile, Store
from harness.core.run_dir import canonical_json

_NAMED = (
    "a run folder, the folder of a night, of a search or of a matrix, or a version such as 3.9.1: "
    "all its runs in the nights of the store."
)
SideName = Annotated[
    str, typer.Argument(show_default=False, help=f"What is compared with: {_NAMED}")
]
OtherName = Annotated[str, typer.Argument(show_default=False, help="What is compared: likewise.")]
Page = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FILE.html", help="Write it as one page, which needs no network."
    ),
]


def compare(
    a: SideName,
    b: OtherName,
    store: Store = DEFAULT_STORE,
    known: KnownFile = None,
    page: Page = None,
    as_json: Json = False,
) -> None:
    """Compare two runs, two nights or two versions: does B show anything forbidden that A does not?

    Anomalies, times and throughput stand side by side, each with its spread.
    """
    from harness.campaigns.comparison import compare as compare_sides
    from harness.campaigns.sides import read_side
    from harness.cli.known_file import known_findings

    findings = known_findings(known)
    comparison = compare_sides(read_side(a, store), read_side(b, store), findings)
    names = [comparison.a.name, comparison.b.name]
    console.print_table(["", *names], comparison.about())
    console.say("")
    console.print_table(
        ["over runs that are alike", *names, "B/A", ""],
        [row.cells() for row in comparison.quantities],
    )
    if anomalies := comparison.anomalies():
        console.say("")
        heads = ["in how many judged runs that are alike", *names, ""]
        console.print_table(heads, anomalies)
    if comparison.left_out:
        console.print_lines(["", "Not compared:", *(f"  {each}" for each in comparison.left_out)])
    console.print_lines(["", f"{comparison.verdict.name}  {comparison.answer}"])
    if page is not None:
        comparison.write_page(page)
        console.say(f"page: {page}")
    if as_json:
        typer.echo(canonical_json(comparison.document()), nl=False)
    raise typer.Exit(comparison.verdict.exit_code)
