"""The command `kafka-chaos prune`: what passing runs take on the disk."""

from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, Store
from harness.core.duration import parse_duration_s
from harness.core.errors import UsageError
from harness.core.run_dir import canonical_json
from harness.core.size import parse_size_bytes


def prune(
    older: Annotated[
        str | None,
        typer.Option("--older", metavar="DURATION", help="Passing runs that are older: 12h, 30d."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max",
            metavar="SIZE",
            help="Further ones, the oldest first, until all runs take no more than this: 20GB.",
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Reduce passing runs to verdict, report, plan and faults; others keep everything."""
    from harness.campaigns.prune import prune as prune_store

    if older is None and max_size is None:
        raise UsageError("Say which runs: --older 30d, --max 20GB, or both.")
    if not store.is_dir():
        raise UsageError(f"There is no store {store}: name the folder of the runs with --store.")
    done = prune_store(
        store.resolve(),
        older_s=None if older is None else parse_duration_s(older),
        max_bytes=None if max_size is None else parse_size_bytes(max_size),
        dry_run=dry_run,
    )
    console.print_lines(done.lines(dry_run=dry_run))
    if as_json:
        typer.echo(canonical_json(done.document()), nl=False)
    raise typer.Exit(4 if done.failures else 0)
