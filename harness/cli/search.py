"""The command `kafka-chaos search`: unscripted runs until something forbidden is found."""

from typing import Annotated, Any, Literal

import typer

from harness.cli import console
from harness.cli.options import (
    DEFAULT_STORE,
    Json,
    Keep,
    Master,
    Resume,
    Store,
    experiments,
    new_seed,
)
from harness.cli.session import campaign_session, end
from harness.cli.settings import Flags, option, scenario_of
from harness.core.errors import UsageError

_SCENARIO = "search"


@experiments
def search(
    given: Flags,
    budget: Annotated[str, option("--budget", help="How long it may take: 30m, 8h.")] = "30m",
    stop_at_first: Annotated[
        bool,
        typer.Option(
            "--stop-at-first", help="End once something forbidden was found, and tried again."
        ),
    ] = False,
    stop_at: Annotated[
        str | None,
        typer.Option(
            "--stop-at",
            help="End as soon as one of these anomalies, with commas, was found where it is "
            "forbidden; nothing is tried again. `list checkers` names them; one kind only: "
            "lost-write(explained).",
            metavar="ANOMALY,…",
        ),
    ] = None,
    settings: Annotated[
        Literal["drawn", "fixed"],
        option("--settings", help="Whether settings that are not given are drawn for each run."),
    ] = "drawn",
    keep_cluster: Keep = "never",
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Look for what nobody has scripted: short runs with other settings, damage and load each."""
    from harness.campaigns.search import Search, run_search
    from harness.machine.versions import reject_unknown_versions
    from verifiers.checking.checker import CHECKERS
    from verifiers.oracle.table import chapter_of

    flags: dict[str, Any] = {**given, "scenario": given["scenario"] or _SCENARIO}
    seed = new_seed() if given["seed"] is None else given["seed"]
    wanted = frozenset(word.strip() for word in (stop_at or "").split(",") if word.strip())
    for words in wanted:
        anomaly, _, kind = words.removesuffix(")").partition("(")
        CHECKERS[anomaly]  # An unknown name is rejected.
        kinds = chapter_of(anomaly).kinds
        if kind and kind not in kinds:
            raise UsageError(
                f"--stop-at: {anomaly} has no kind {kind!r}; it has {', '.join(kinds) or 'none'}."
            )
    if wanted and stop_at_first:
        raise UsageError(
            "--stop-at-first ends at anything that is forbidden, --stop-at at what it names: "
            "leave out one of them."
        )
    first = scenario_of(flags)
    looked = Search(
        make=lambda flags, topic: scenario_of(flags, topic=topic),
        flags={name: value for name, value in flags.items() if name != "seed"},
        kafka=first.cluster.kafka,
        seed=seed,
        draws=settings == "drawn",
        stop_at_first=stop_at_first,
        stop_at=wanted,
    )
    with campaign_session(
        store=store, resume=resume, master=master, keep_cluster=keep_cluster, budget=budget
    ) as session:
        reject_unknown_versions(first.cluster, first.client, say=session.progress.say)
        summary = run_search(looked, session)
    console.print_lines(summary.lines())
    end(session, summary.document(), summary.verdict.exit_code, as_json=as_json)
