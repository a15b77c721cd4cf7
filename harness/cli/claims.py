"""The commands about claims: `kafka-chaos claims`, `claims run`, `claims page`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, KafkaList, Keep, Master, Resume, Store
from harness.cli.process import INTERRUPTED, stoppable
from harness.cli.settings import option
from harness.cli.sources import ConfiguredCommand, RunningCommand
from harness.core.errors import UsageError

claims = typer.Typer(
    help="Sentences about Kafka as experiments: what there is, and what came of it.",
    invoke_without_command=True,
)

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID…", help="Names or numbers of claims.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Every claim there is.")]


@claims.callback()
def default(context: typer.Context) -> None:
    """List the claims, unless a command follows."""
    if context.invoked_subcommand is None:
        list_claims()


@claims.command("list", cls=ConfiguredCommand)
def list_claims(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Say what each claim claims, of which versions, and what came of it last."""
    from harness.campaigns.claim_result import trials_in
    from harness.lab.claim import CLAIMS

    last = {(trial.claim, trial.kafka): trial for trial in trials_in(store)}
    found = []
    for name, make in sorted(CLAIMS.items(), key=lambda entry: entry[1]().number):
        claim = make()
        found.append(
            {
                "claim": name,
                "number": claim.number,
                "sentence": claim.sentence,
                "source": claim.source,
                "expects": claim.spoken_of(),
                "last": {
                    kafka: str(trial.outcome)
                    for (known, kafka), trial in last.items()
                    if known == name
                },
            }
        )
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for entry in found:
        typer.echo(f"{entry['number']:>3}  {entry['claim']}")
        typer.echo(f"     {entry['sentence']}")
        for versions, words in entry["expects"].items():  # type: ignore[attr-defined]  # a dict
            typer.echo(f"     {versions}: {words}")
        told = " · ".join(f"{k} {o}" for k, o in entry["last"].items())  # type: ignore[attr-defined]  # a dict
        typer.echo(f"     last: {told or 'never tried'}")


@claims.command("run", cls=RunningCommand)
def run(
    ids: Ids = None,
    every: All = False,
    kafka: KafkaList = None,
    seed: Annotated[int, option("--seed", help="Of every run.", min=0)] = 1,
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    keep_cluster: Keep = "never",
    as_json: Json = False,
) -> None:
    """Put claims to the test on versions of Kafka; ends in one page, HTML and Markdown."""
    from harness.campaigns.claims import Matrix, run_matrix
    from harness.lab.claim import CLAIMS, find_claim
    from harness.machine.images import DEFAULT_KAFKA, reject_unknown_kafka

    if bool(ids) == every:
        raise UsageError("Name the claims to run, or give --all: `kafka-chaos claims` lists them.")
    chosen = dict(find_claim(word) for word in ids or list(CLAIMS))
    versions = tuple(word.strip() for word in (kafka or DEFAULT_KAFKA).split(",") if word.strip())
    with stoppable() as stop, console.live_progress() as progress:
        for version in versions:
            reject_unknown_kafka(version, say=progress.say)
        matrix = Matrix(
            claims=chosen,
            versions=versions,
            seed=seed,
            store=store,
            master=master,
            keep_cluster=keep_cluster,
        )
        tally = run_matrix(matrix, resume=resume, progress=progress, stop=stop)
    for trial in tally.trials:
        console.say(f"{trial.outcome:<9} {trial.number:>3} {trial.claim} · Kafka {trial.kafka}")
        console.say(f"              expected: {trial.expected}. {trial.words}")
    console.say(f"the matrix: {tally.folder / 'matrix.html'}")
    if as_json:
        typer.echo(json.dumps(tally.document(), indent=2, ensure_ascii=False))
    raise typer.Exit(INTERRUPTED if stop.is_set() else tally.exit_code)


@claims.command("page", cls=ConfiguredCommand)
def page(
    markdown: Annotated[Path, typer.Argument(help="The page to write, as docs/claims.md.")],
    measured: Annotated[
        Path | None,
        typer.Option(help="JSON lines of earlier trials; new ones are added.", show_default=False),
    ] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write one page of everything that was tried in a store, and of what was measured before."""
    from harness.campaigns.claim_page import markdown_page
    from harness.campaigns.claim_result import merged
    from harness.core.run_dir import write_atomically

    trials = merged(store, measured)
    if not trials:
        raise UsageError(f"No claim has been tried in {store} yet: `kafka-chaos claims run --all`.")
    if measured is not None:
        lines = [json.dumps(t.document(), sort_keys=True, ensure_ascii=False) for t in trials]
        write_atomically(measured, "\n".join(lines) + "\n")
    write_atomically(markdown, markdown_page(trials, runs=""))
    console.say(f"{len(trials)} trials are told in {markdown}.")
