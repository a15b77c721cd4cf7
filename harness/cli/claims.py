"""The commands about claims: `kafka-chaos claims`, `claims show`, `claims run`, `claims page`."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from inspect import getsource, getsourcefile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Json, KafkaList, Keep, Master, Resume, Store
from harness.cli.session import campaign_session, end
from harness.cli.settings import SETTINGS, option, pair
from harness.cli.sources import ConfiguredCommand, RunningCommand
from harness.core.cluster import ClusterSpec
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.lab.claim import Claim
    from harness.lab.lab import Lab
    from harness.lab.variation import Variation


class ClaimsCommand(RunningCommand):
    """Of a project only the cluster concerns a claim: contract, load and faults are its own."""

    must_honour = {each.name for each in SETTINGS if each.owner is ClusterSpec} - {"kafka"}


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
        group: Any = context.command
        command = group.commands["list"]
        with command.make_context("list", [], parent=context) as of_list:
            command.invoke(of_list)


@claims.command("list", cls=ConfiguredCommand)
def list_claims(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Say what each claim claims, of which versions, and what came of it last."""
    from harness.lab.claim import claims_by_subject

    last, grouped = _last(store), claims_by_subject()
    if as_json:
        documents = [
            _document(name, claim, last)
            for named in grouped.values()
            for name, claim in named.items()
        ]
        typer.echo(json.dumps(documents, indent=2, ensure_ascii=False))
        return
    for subject, named in grouped.items():
        typer.echo(f"\n{subject[:1].upper()}{subject[1:]}\n")
        for name, claim in named.items():
            typer.echo(f"{claim.number:>3}  {name}")
            typer.echo(f"     {claim.sentence}")
            for line in _outlook(claim, last.get(name, {})):
                typer.echo(f"     {line}")


@claims.command("show", cls=ConfiguredCommand)
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Name or number of a claim.")],
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Say everything of one claim: what it rests on, what is set up, and its script, to read."""
    from harness.lab.claim import find_claim
    from harness.machine.images import DEFAULT_KAFKA

    found, claim = find_claim(name)
    last = _last(store)
    script = getsource(claim.script)
    config = dict(claim.config(DEFAULT_KAFKA))
    if as_json:
        document = {
            **_document(found, claim, last),
            "contract": asdict(claim.contract),
            "assignment": claim.assignment,
            "brokers": claim.brokers,
            "config": config,
            "script": script,
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{claim.number} · {found}\n\n{claim.sentence}\n")
    typer.echo(f"source    {claim.source}")
    typer.echo(f"subject   {claim.subject}")
    typer.echo(f"contract  {claim.contract}")
    replicas = " and ".join(", ".join(map(str, nodes)) for nodes in claim.assignment)
    typer.echo(f"cluster   {claim.brokers} brokers; replicas on {replicas}, the first one leads")
    for key, value in config.items():
        typer.echo(f"          {key}={value}")
    typer.echo("expects   " + "\n          ".join(_outlook(claim, last.get(found, {}))))
    typer.echo(f"script    {getsourcefile(claim.script)}\n\n{script}")


def _last(store: Path) -> dict[str, dict[str, str]]:
    """Return what came of each claim last, by its name and by version."""
    from harness.campaigns.claim_result import results_in

    last: dict[str, dict[str, str]] = {}
    for result in results_in(store):
        if result.varied:
            continue
        last.setdefault(result.claim, {})[result.kafka] = str(result.outcome)
    return last


def _outlook(claim: "Claim", last: Mapping[str, str]) -> list[str]:
    """Return what is expected of which versions, and what came of it last, a line each."""
    outcomes = " · ".join(f"{kafka} {outcome}" for kafka, outcome in last.items())
    expected = [f"{versions}: {words}" for versions, words in claim.spoken_of().items()]
    return [*expected, f"last: {outcomes or 'never tried'}"]


def _document(name: str, claim: "Claim", last: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        "claim": name,
        "number": claim.number,
        "subject": claim.subject,
        "sentence": claim.sentence,
        "source": claim.source,
        "expects": claim.spoken_of(),
        "last": last.get(name, {}),
    }


@claims.command("run", cls=ClaimsCommand)
def run(
    ids: Ids = None,
    every: All = False,
    kafka: KafkaList = None,
    seed: Annotated[int, option("--seed", help="Of every run.", min=0)] = 1,
    varied_acks: Annotated[
        Literal["0", "1", "all"] | None,
        typer.Option("--acks", help="Instead of what the claim and its script say: to see."),
    ] = None,
    varied_min_isr: Annotated[
        int | None, typer.Option("--min-isr", help="Likewise.", min=1)
    ] = None,
    varied_config: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A broker property, likewise; repeatable."),
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="Wait for a key before each thing the script does.")
    ] = False,
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    keep_cluster: Keep = "never",
    as_json: Json = False,
) -> None:
    """Put claims to the test on versions of Kafka; ends in one page, HTML and Markdown."""
    from harness.campaigns.claims import run_claims
    from harness.lab.claim import CLAIMS, find_claim
    from harness.machine.images import DEFAULT_KAFKA, reject_unknown_kafka

    if bool(ids) == every:
        raise UsageError("Name the claims to run, or give --all: `kafka-chaos claims` lists them.")
    variation = _variation(varied_acks, varied_min_isr, varied_config or [])
    if variation and not ids:
        raise UsageError(f"Name the claims whose experiment is to be varied by {variation}.")
    if step and not sys.stdin.isatty():
        raise UsageError("--step waits for a key at each step: run it in a terminal.")
    chosen = {
        name: claim.varied(variation)
        for name, claim in (find_claim(word) for word in ids or list(CLAIMS))
    }
    versions = tuple(word.strip() for word in (kafka or DEFAULT_KAFKA).split(",") if word.strip())
    with campaign_session(
        store=store, resume=resume, master=master, keep_cluster=keep_cluster
    ) as session:
        for version in versions:
            reject_unknown_kafka(version, say=session.progress.say)
        before = _wait_for_key if step else _pass_by
        folder, matrix = run_claims(chosen, versions, session, seed=seed, before=before)
    for result in matrix.results:
        varied = f" · varied: {variation}" if variation else ""
        which = f"{result.number:>3} {result.claim} · Kafka {result.kafka}{varied}"
        console.say(f"{result.outcome:<9} {which}")
        console.say(f"              expected: {result.expected}. {result.words}")
    console.say(f"the matrix: {folder / 'matrix.html'}")
    end(session, matrix.document(folder), matrix.exit_code, as_json=as_json)


def _variation(acks: str | None, min_isr: int | None, config: Sequence[str]) -> "Variation":
    from harness.lab.variation import Variation

    contract = {"acks": acks, "min_isr": min_isr}
    return Variation(
        contract={name: value for name, value in contract.items() if value is not None},
        config=dict(pair("--set", text) for text in config),
    )


def _pass_by(lab: "Lab", what: str) -> None:
    """Go on at once."""


def _wait_for_key(lab: "Lab", what: str) -> None:
    """Show what the cluster is like, and what comes next, and wait for the Enter key."""
    console.say(lab.look())
    console.say(f"next: {what}   (Enter)")
    sys.stdin.readline()


@claims.command("page", cls=ConfiguredCommand)
def page(
    markdown: Annotated[Path, typer.Argument(help="The page to write, as docs/claims.md.")],
    measured: Annotated[
        Path | None,
        typer.Option(help="JSON lines of earlier results; new ones are added.", show_default=False),
    ] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write one page of everything that was tried in a store, and of what was measured before."""
    from harness.campaigns.claim_result import merge_results
    from harness.campaigns.claims import ClaimMatrix
    from harness.core.run_dir import write_atomically

    results = merge_results(store, measured)
    if not results:
        raise UsageError(f"No claim has been tried in {store} yet: `kafka-chaos claims run --all`.")
    if measured is not None:
        lines = [json.dumps(r.document(), sort_keys=True, ensure_ascii=False) for r in results]
        write_atomically(measured, "\n".join(lines) + "\n")
    write_atomically(markdown, ClaimMatrix(results).markdown())
    console.say(f"{len(results)} results are shown in {markdown}.")
