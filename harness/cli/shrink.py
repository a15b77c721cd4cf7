"""The command `kafka-chaos shrink`: the smallest experiment that shows what a run has found."""

from typing import Annotated

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Anomaly, Json, Master, Resume, RunFolder, Store
from harness.cli.session import campaign_session, end
from harness.cli.settings import option
from harness.core.run_dir import RunDir, write_atomically
from harness.core.verdict import Verdict


def shrink(
    path: RunFolder,
    anomaly: Anomaly = None,
    budget: Annotated[str, option("--budget", help="How long it may take: 30m, 2h.")] = "30m",
    resume: Resume = False,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Make what a run has found smaller: fewer steps, shorter holds, less load, fewer brokers.

    Every candidate is run until it is clear whether it still shows the finding. The smallest is
    left as a plan and as a scenario file, with how often it shows the finding.
    """
    from harness.campaigns.configure import repeated
    from harness.campaigns.shrink import Shrink, run_shrink, suspects
    from harness.campaigns.trials import Finding
    from harness.cli.scenario_file import scenario_text
    from verifiers.run_folder.result import read_verdict

    run_dir = RunDir.open(path)
    scenario, seed = repeated(run_dir)
    report = read_verdict(run_dir)
    finding = Finding.of(run_dir, report, anomaly)
    console.say(f"looking for {finding} in ever smaller experiments")
    shrunk = Shrink(
        scenario=scenario, seed=seed, finding=finding,
        suspects=suspects(report, finding, run_dir.meta().get("origin_ns")),
    )  # fmt: skip
    with campaign_session(store=store, resume=resume, master=master, budget=budget) as session:
        summary, folder = run_shrink(shrunk, run_dir.name, session)
    console.print_lines(summary.lines())
    if (smallest := shrunk.smallest) is not None:
        file = folder / "shrunk.yaml"
        write_atomically(file, scenario_text(smallest.scenario, seed))
        console.say(f"  again: kafka-chaos run {file}")
    verdict = Verdict.VALID if summary.is_reproduced else Verdict.UNKNOWN
    end(session, summary.document(), verdict.exit_code, as_json=as_json)
