"""The command `kafka-chaos up`: a cluster for clients of somebody else, which is being broken."""

from typing import Annotated

import typer

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, Store, experiments, new_seed
from harness.cli.process import stoppable
from harness.cli.settings import Flags, scenario_of

_SCENARIO = "up"


@experiments
def up(
    given: Flags,
    topic: Annotated[
        str, typer.Option("--topic", help="A topic to create, which targets speak of.")
    ] = "orders",
    print_bootstrap: Annotated[
        bool,
        typer.Option(
            "--print-bootstrap", help="Print host:port,… on stdout once the cluster answers."
        ),
    ] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Start a cluster for your own clients, and break it with --faults until Ctrl-C.

    Without --faults nothing is broken. What was done, with evidence, lies in faults.csv of the
    run's folder, by the clock on the wall.
    """
    from harness.run.context import RunContext
    from harness.run.open_run import OpenRun
    from harness.run.runner import Runner

    asked = any(given[name] is not None for name in ("scenario", "faults", "targets", "patterns"))
    steps = {} if asked else {"steps": ()}
    scenario = scenario_of(
        {**given, **steps, "scenario": given["scenario"] or _SCENARIO}, topic=topic
    )
    seed = new_seed() if given["seed"] is None else given["seed"]

    def ready(context: RunContext) -> None:
        bootstrap = context.cluster.bootstrap
        console.say(f"Kafka answers at {bootstrap}, topic {topic}. Ctrl-C heals and removes it.")
        if print_bootstrap:
            typer.echo(bootstrap)
        if properties := context.cluster.access.properties:
            console.say(f"Clients get in with {properties}.")

    first = "SIGNAL: everything is healed, and the cluster removed. Again: heal only."
    with stoppable(first) as stop, console.live_progress() as progress:
        progress.say(f"scenario {scenario.name} · kafka {scenario.cluster.kafka} · seed {seed}")
        run = OpenRun(scenario, ready)
        runner = Runner(run=run, seed=seed, store=store, progress=progress, stop=stop)
        run_dir = runner.execute()
    console.say(f"What was broken: {run_dir.path / 'faults.csv'}")
