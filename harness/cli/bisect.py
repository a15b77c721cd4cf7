"""The command `kafka-chaos bisect`: the release of Kafka that mended, or brought, a finding."""

from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Anomaly, Json, Master, Resume, RunFolder, Store
from harness.cli.session import campaign_session, end
from harness.cli.settings import option
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict


def bisect(
    path: RunFolder,
    good: Annotated[
        str, typer.Option("--good", metavar="VERSION", help="A release that does not show it.")
    ],
    bad: Annotated[
        str | None,
        typer.Option(
            "--bad", metavar="VERSION", help="A release that shows it; default: that of the run."
        ),
    ] = None,
    anomaly: Anomaly = None,
    budget: Annotated[str, option("--budget", help="How long it may take: 30m, 2h.")] = "2h",
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Find the first release of Kafka without what a run has found, or the first with it.

    The run is repeated on the bad release, on the good one, and on those halfway between, each
    until it is clear whether it shows the finding. Good may be older or newer than bad.
    """
    from harness.campaigns.bisect import Bisect, on_release, run_bisect
    from harness.campaigns.configure import repeated
    from harness.campaigns.trials import Finding
    from harness.machine.images import kafka_versions
    from verifiers.run_folder.result import read_verdict

    run_dir = RunDir.open(path)
    scenario, seed = repeated(run_dir)
    finding = Finding.of(run_dir, read_verdict(run_dir), anomaly)
    bad = bad or scenario.cluster.kafka
    for version in (bad, good):
        on_release(scenario, version)  # What cannot be run there is refused at once.
    bisected = Bisect(
        scenario=scenario, seed=seed, finding=finding, releases=kafka_versions(console.say),
        bad=bad, good=good,
    )  # fmt: skip
    with campaign_session(store=store, resume=resume, master=master, budget=budget) as session:
        summary = run_bisect(bisected, run_dir.name, session)
    console.print_lines(summary.lines())
    verdict = Verdict.VALID if bisected.is_answered else Verdict.UNKNOWN
    end(session, summary.document(), verdict.exit_code, as_json=as_json)
