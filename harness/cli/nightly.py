"""The command `kafka-chaos nightly`: runs until a budget of time is spent, one summary."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli import console
from harness.cli.options import (
    DEFAULT_STORE,
    Client,
    Duration,
    Json,
    Kafka,
    KnownFile,
    Master,
    Resume,
    Seed,
    Store,
    WorkloadName,
    new_seed,
)
from harness.cli.session import campaign_session, end
from harness.cli.settings import Flags, option
from harness.core.duration import parse_duration_s
from harness.core.errors import KafkaChaosError, UsageError
from harness.core.run_dir import SCHEMA

if TYPE_CHECKING:
    from harness.campaigns.night_matrix import NightMatrix
    from harness.campaigns.nights import Asked


def nightly(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE.yaml]",
            help="The matrix of the night, as `kafka-chaos init` writes one; default: contracts.",
        ),
    ] = None,
    budget: Annotated[str, option("--budget", help="How long it may take: 20m, 8h.")] = "20m",
    kafka: Kafka = None,
    workload: WorkloadName = None,
    client: Client = None,
    duration: Duration = None,
    seed: Seed = None,
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    known: KnownFile = None,
    keep: Annotated[
        Literal["all", "failed"],
        option(
            "--keep",
            help="Which runs keep everything; others keep verdict, report, plan and faults.",
        ),
    ] = "failed",
    on_finish: Annotated[
        str | None,
        option(
            "--on-finish",
            metavar="COMMAND",
            help="Run at the end, with the night's JSON on its stdin; its failure changes nothing.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run contracts, or a matrix of your own, until the budget is spent; the control first."""
    from harness.campaigns.nights import Asked, Night, last_asked, spend_night
    from harness.cli.known_file import known_findings
    from harness.cli.on_finish import command_of, give

    findings = known_findings(known)
    command = command_of(on_finish)
    # Without a seed any night of this kind goes on.
    seed = new_seed() if seed is None and not resume else seed
    night: Asked
    given = {"kafka": kafka, "workload": workload, "client": client, "duration": duration}
    beside = _beside(context, given)
    if file is not None:
        night = _night_of(file, beside, given, seed)
    elif resume and not beside and (asked := last_asked(store)):
        night = _night_again(asked, seed)
    else:
        duration_s = None if duration is None else parse_duration_s(duration)
        night = Night(
            kafka=kafka, workload=workload, client=client, duration_s=duration_s, seed=seed
        )
    with campaign_session(store=store, resume=resume, master=master, budget=budget) as session:
        try:
            summary = spend_night(night, session, known=findings, keeps_all=keep == "all")
        except KafkaChaosError as error:
            # Where nothing was started, whoever started it is told by the exit code.
            if command is not None and not isinstance(error, UsageError):
                told = {"schema": SCHEMA, "verdict": None, "error": str(error)}
                give(told, command, say=session.progress.say)
            raise
    console.print_lines(summary.lines())
    if command is not None:
        give(summary.document(), command, say=console.say)
    end(session, summary.document(), summary.verdict.exit_code, as_json=as_json)


def _beside(context: typer.Context, given: Flags) -> list[str]:
    """Return the flags that stand on the command line, or in the environment."""
    sources = {name: context.get_parameter_source(name) for name in given}
    return [
        f"--{name}"
        for name, source in sources.items()
        if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")
    ]


def _night_again(asked: Mapping[str, Any], seed: int | None) -> "Asked":
    """Return the night that was asked for before.

    Raises:
        UsageError: what was asked is damaged, or was written by another version.
    """
    from harness.campaigns.night_matrix import NightMatrix
    from harness.campaigns.nights import Night
    from harness.cli.settings import scenario_of

    try:
        if "matrix" not in asked:
            return Night.read(asked, seed)
        return NightMatrix.read(asked, scenario_of, seed)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"What the last night was asked for cannot be read ({error!r}): give its file, or its "
            "flags, with --resume."
        ) from error


def _night_of(file: Path, beside: list[str], given: Flags, seed: int | None) -> "NightMatrix":
    """Return the night of a file, below which settings of pyproject.toml count.

    Raises:
        UsageError: something is wrong in the file, or a flag contradicts it.
    """
    from harness.cli.night_file import read_night

    if beside:
        raise UsageError(f"{file} says what is run: leave out {', '.join(beside)}.")
    below = {name: value for name, value in given.items() if value is not None}
    night = read_night(file, below=below, seed=seed)
    for line in night.left_out_lines():
        console.say(line)
    return night
