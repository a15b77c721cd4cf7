"""The command `kafka-chaos matrix`: the same damage under many contracts, one table."""

from collections.abc import Sequence
from typing import Any

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, VARIED, Json, Keep, Master, Resume, Store, contracts
from harness.cli.session import campaign_session, end
from harness.cli.settings import BY_NAME, Flags, scenario_of

_SEED = 1
"""A matrix that nobody gave a seed: the same every time, so that it can be resumed."""


@contracts
def matrix(
    given: Flags,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    keep_cluster: Keep = "never",
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Do the same damage under each of many contracts; ends in one table, linked to the runs."""
    from harness.campaigns.configure import DEFAULT_SCENARIO as DEFAULT_MIX
    from harness.campaigns.contracts import DEFAULT_SCENARIO, combine, run_contracts
    from harness.machine.versions import reject_unknown_versions

    seed = _SEED if given["seed"] is None else given["seed"]
    default = DEFAULT_SCENARIO if given["faults"] is None else DEFAULT_MIX
    common = {**given, "seed": seed, "scenario": given["scenario"] or default}
    dimensions: dict[str, Sequence[Any]] = {
        name: BY_NAME[name].words(given[name] or default) or [None]
        for name, default in VARIED.items()
    }
    scenarios, left_out = combine(
        dimensions, lambda choice: scenario_of({**common, **choice}), seed=seed
    )
    with campaign_session(
        store=store, resume=resume, master=master, keep_cluster=keep_cluster
    ) as session:
        say = session.progress.say
        for choice, why in left_out.items():
            say(f"left out: {choice}: {why}")
        for each in {each.cluster.kafka: each for each in scenarios}.values():
            reject_unknown_versions(each.cluster, each.client, say=say)
        folder, run = run_contracts(scenarios, left_out, session, seed=seed)
    console.print_table(run.heads, [run.cells(result) for result in run.results])
    console.say(f"{run.verdict.name}  {run.tally}, of {run.wanted} contracts")
    for reason in run.reasons():
        console.say(f"  {reason}")
    console.say(f"  table: {folder / 'matrix.html'}")
    end(session, run.document(folder), run.verdict.exit_code, as_json=as_json)
