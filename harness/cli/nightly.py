"""The command `kafka-chaos nightly`: runs until a budget of time is spent, one summary."""

from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import (
    DEFAULT_STORE,
    Client,
    Duration,
    Json,
    Kafka,
    Master,
    Resume,
    Seed,
    Store,
    WorkloadName,
    new_seed,
)
from harness.cli.process import INTERRUPTED, stoppable
from harness.cli.settings import option
from harness.core.duration import parse_duration_s
from harness.core.run_dir import canonical_json


def nightly(
    budget: Annotated[str, option("--budget", help="How long it may take: 20m, 8h.")] = "20m",
    kafka: Kafka = None,
    workload: WorkloadName = None,
    client: Client = None,
    duration: Duration = None,
    seed: Seed = None,
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Run contracts and seeds until the budget is spent, the must-lose control among them."""
    from harness.campaigns.campaign import Session
    from harness.campaigns.nights import Night, spend_night

    night = Night(
        kafka=kafka,
        workload=workload,
        client=client,
        duration_s=None if duration is None else parse_duration_s(duration),
        # Without a seed any night of this kind goes on.
        seed=new_seed() if seed is None and not resume else seed,
    )
    budget_s = parse_duration_s(budget)
    with stoppable() as stop, console.live_progress() as progress:
        session = Session(
            store=store, resume=resume, master=master, progress=progress, stop=stop,
            budget_s=budget_s,
        )  # fmt: skip
        summary = spend_night(night, session)
    console.print_lines(summary.lines())
    if as_json:
        typer.echo(canonical_json(summary.document()), nl=False)
    raise typer.Exit(INTERRUPTED if stop.is_set() else summary.verdict.exit_code)
