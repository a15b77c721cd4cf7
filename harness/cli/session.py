"""How a command makes many runs: a session that Ctrl-C ends in order, and how it ends."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import typer

from harness.cli import console
from harness.cli.process import INTERRUPTED, stoppable
from harness.core.duration import parse_duration_s
from harness.core.run_dir import canonical_json

if TYPE_CHECKING:
    from harness.campaigns.campaign import Session


@contextmanager
def campaign_session(
    *,
    store: Path,
    resume: bool,
    master: str | None,
    keep_cluster: Literal["never", "failed", "always"] = "never",
    budget: str | None = None,
) -> "Iterator[Session]":
    """Yield a session that shows its progress, and that Ctrl-C or SIGTERM stops.

    Args:
        store: where run folders and the folder of the campaign lie.
        resume: whether to go on with the newest campaign that was asked the same.
        master: the Spark master; None is this machine.
        keep_cluster: whether the containers stay.
        budget: how long it may take, as a person writes it; None: as long as it takes.

    Raises:
        UsageError: the budget is no duration.
    """
    from harness.campaigns.campaign import Session

    budget_s = None if budget is None else parse_duration_s(budget)
    with stoppable() as stop, console.live_progress() as progress:
        yield Session(
            store=store, resume=resume, master=master, keep_cluster=keep_cluster,
            progress=progress, stop=stop, budget_s=budget_s,
        )  # fmt: skip


def end(session: "Session", document: Mapping[str, Any], code: int, *, as_json: bool) -> NoReturn:
    """End the command with its exit code, 130 if it was interrupted.

    Args:
        session: of its runs.
        document: what came of them, printed if `as_json`.
        code: what they mean.
        as_json: whether --json was given.
    """
    if as_json:
        typer.echo(canonical_json(document), nl=False)
    raise typer.Exit(INTERRUPTED if session.stop.is_set() else code)
