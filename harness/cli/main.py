"""The command line. Human text goes to stderr; with --json, one JSON document to stdout."""

import json
import logging
import os
import sys
import traceback
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from harness.cli import console
from harness.cli.bisect import bisect
from harness.cli.claims import claims
from harness.cli.compare import compare
from harness.cli.index import index
from harness.cli.matrix import matrix
from harness.cli.nightly import nightly
from harness.cli.options import (
    DEFAULT_STORE,
    Archived,
    Exact,
    Json,
    KafkaList,
    Keep,
    Master,
    Plots,
    ReplicaLimit,
    RunFolder,
    SelfTest,
    Store,
    Subscribe,
    Verified,
    WwDeps,
    experiment,
)
from harness.cli.process import INTERRUPTED, is_wrong_usage, stoppable
from harness.cli.prune import prune
from harness.cli.search import search
from harness.cli.shrink import shrink
from harness.cli.sources import ConfiguredCommand, RunningCommand
from harness.cli.up import up
from harness.core.errors import KafkaChaosError, UsageError
from harness.core.registry import Registry, first_sentence
from harness.core.run_dir import REPLICA_LIMIT_BYTES, RunDir, canonical_json
from harness.core.scenario import Scenario

app = typer.Typer(
    name="kafka-chaos",
    help="Breaks a real Kafka cluster, and says whether it kept what it acknowledged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERNAL = 70


_BENCHMARKS = Path(__file__).resolve().parents[2] / "tests" / "bench"
"""They lie in a checkout, not in the installed package."""

app.add_typer(claims, name="claims")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kafka-chaos {version('kafka-chaos')}")
        raise typer.Exit


@app.callback()
def kafka_chaos(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Say the version."),
    ] = False,
) -> None:
    """Break a real Kafka cluster, and say whether it kept what it acknowledged."""


@app.command(cls=RunningCommand)
@experiment
def run(
    scenario: Scenario,
    seed: int,
    store: Store = DEFAULT_STORE,
    master: Master = None,
    keep_cluster: Keep = "never",
    replica_limit_mib: ReplicaLimit = REPLICA_LIMIT_BYTES // 1024**2,
    as_json: Json = False,
) -> None:
    """Run an experiment: cluster, load, faults, healing, final reads, verdict, report."""
    from harness.campaigns.conduct import conduct
    from harness.run.runner import Runner
    from harness.run.scenario_run import ScenarioRun

    with stoppable() as stop, console.live_progress() as progress:
        client = "" if scenario.client is None else f" · {scenario.client}"
        progress.say(
            f"scenario {scenario.name} · kafka {scenario.cluster.kafka}{client} · seed {seed}"
        )
        progress.say(str(scenario.contract))
        runner = Runner(
            run=ScenarioRun(scenario),
            seed=seed,
            store=store,
            keep_cluster=keep_cluster,
            replica_limit_mib=replica_limit_mib,
            progress=progress,
            stop=stop,
        )
        result = conduct(runner, master=master)
    console.print_lines(result.summary)
    if as_json:
        typer.echo(canonical_json(result.report.to_json()), nl=False)
    raise typer.Exit(INTERRUPTED if stop.is_set() else result.verdict.exit_code)


@app.command(cls=ConfiguredCommand)
@experiment
def plan(scenario: Scenario, seed: int, as_json: Json = False) -> None:
    """Show the schedule that a seed gives; nothing is started. With --json: plan.json."""
    from harness.run.nemesis import plan as steps_of
    from harness.run.nemesis import plan_json

    if as_json:
        typer.echo(plan_json(scenario, seed), nl=False)
        return
    console.say(f"scenario {scenario.name} · seed {seed} · {scenario.duration_s:g} s")
    heads = ["", "when", "fault", "target", "for"]
    steps = enumerate(steps_of(scenario, seed), start=1)
    console.print_table(
        heads, [[str(number), *step.words()] for number, step in steps], to_stdout=True
    )


@app.command(cls=ConfiguredCommand)
@experiment
def validate(scenario: Scenario, seed: int) -> None:
    """Say what is wrong in a scenario file, by line and column; nothing is started."""
    from harness.run.nemesis import plan as steps_of

    console.say(f"In order: {scenario.name}, {len(steps_of(scenario, seed))} steps.")


app.command("matrix", cls=RunningCommand)(matrix)


@app.command(cls=ConfiguredCommand)
def verify(
    paths: Verified,
    master: Master = None,
    subscribe: Subscribe = False,
    ww_deps: WwDeps = False,
    exact: Exact = False,
    plots: Plots = None,
    self_test: SelfTest = False,
    as_json: Json = False,
) -> None:
    """Verify run folders again, without a cluster, and op histories in JSON lines."""
    from harness.cli.verify import judge_paths, try_verifier, worst

    if self_test:
        if subscribe or ww_deps:
            raise UsageError("--subscribe and --ww-deps are for op histories, not for --self-test.")
        if plots is not None:
            raise UsageError("--plots is for op histories, not for --self-test.")
        raise typer.Exit(try_verifier(paths, master=master, exact=exact, as_json=as_json))
    judged = judge_paths(
        paths, subscribe=subscribe, ww_deps=ww_deps, master=master, exact=exact, plots=plots
    )
    if as_json:
        documents = [path.document for path in judged]
        typer.echo(canonical_json(documents[0] if len(paths) == 1 else documents), nl=False)
    raise typer.Exit(worst(judged))


@app.command()
def archive(paths: Archived, as_json: Json = False) -> None:
    """Copy sealed runs to another storage, where `verify` can judge them.

    The last name is that of the folder they are copied into, such as hdfs://name/runs or
    s3://bucket/runs.
    """
    from verifiers.run_folder.remote import archive_run
    from verifiers.spark import storage

    *runs, store = paths
    if not runs:
        raise UsageError("archive takes runs and, last, the folder that they are copied into.")
    opened = [RunDir.open(Path(run)) for run in runs]
    copies = {}
    for run in opened:
        copies[run.name] = archive_run(run, storage.name_of(store))
        console.say(f"{run.name} is archived as {copies[run.name]}")
    if as_json:
        typer.echo(canonical_json(copies), nl=False)


@app.command()
def report(path: RunFolder) -> None:
    """Write report.html, junit.xml and summary.md of a verified run again."""
    from verifiers.report import write_report

    run_dir = RunDir.open(path)
    if not (run_dir.path / "verdict.json").is_file():
        raise UsageError(f"{path} has no verdict yet: `kafka-chaos verify {path}` gives it one.")
    run_dir.reject_pruned()
    console.print_lines(write_report(run_dir.path))


Kind = Literal[
    "faults",
    "scenarios",
    "workloads",
    "checkers",
    "targets",
    "events",
    "patterns",
    "claims",
    "contracts",
    "rules",
    "situations",
]

_REGISTRIES: dict[Kind, tuple[str, str]] = {
    "faults": ("harness.core.fault", "FAULTS"),
    "scenarios": ("harness.core.scenario", "SCENARIOS"),
    "workloads": ("harness.core.workload", "WORKLOADS"),
    "checkers": ("verifiers.checking.checker", "CHECKERS"),
    "targets": ("harness.core.fault", "TARGETS"),
    "events": ("harness.core.event", "EVENTS"),
    "patterns": ("harness.core.pattern", "PATTERNS"),
    "claims": ("harness.lab.claim", "CLAIMS"),
    "rules": ("verifiers.adequacy.rule", "RULES"),
    "situations": ("verifiers.situations.situation", "SITUATIONS"),
}
"""Module and name of each registry: only the one that is asked for is imported."""


@app.command("list")
def list_(kind: Kind, as_json: Json = False) -> None:
    """List what there is of a kind, a line each, with its meaning."""
    meanings = _meanings(kind)
    if as_json:
        typer.echo(json.dumps(meanings, indent=2, ensure_ascii=False))
        return
    width = max(map(len, meanings), default=0)
    for name, meaning in meanings.items():
        typer.echo(f"{name:<{width}}  {meaning}")


def _meanings(kind: Kind) -> dict[str, str]:
    if kind == "contracts":
        from verifiers.checking.contracts import chapters, in_a_line

        return {chapter.anomaly: in_a_line(chapter) for chapter in chapters()}
    module, name = _REGISTRIES[kind]
    registry: Registry[Any] = getattr(import_module(module), name)
    return {name: first_sentence(entry) for name, entry in registry.items()}


@app.command()
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Install what is missing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Trust what passed before.")] = False,
    kafka: KafkaList = None,
    as_json: Json = False,
) -> None:
    """Try everything that a run needs; say what is missing and how to get it.

    With --kafka the images of these versions are built as well.
    """
    from harness.machine.doctor import diagnose

    versions = [version.strip() for version in (kafka or "").split(",") if version.strip()]
    findings = diagnose(fix=fix, quick=quick, say=console.say, versions=versions)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 4)


@app.command()
def heal() -> None:
    """Heal whatever any run has broken, also of runs that still go on."""
    from harness.cluster import cleanup

    healed = cleanup.heal(say=console.say)
    console.say(f"{len(healed)} healed." if healed else "Nothing was broken.")


@app.command()
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what runs that still go on have made.")
    ] = False,
) -> None:
    """Remove the containers, networks and volumes that runs left behind, with what is broken."""
    from harness.cluster import cleanup

    done = cleanup.clean(everything=everything, say=console.say)
    console.say(
        f"Removed {done.containers} containers, {done.networks} networks, {done.volumes} volumes."
    )


app.command("nightly", cls=RunningCommand)(nightly)


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE.yaml]")] = Path("night.yaml"),
) -> None:
    """Write a file that describes a night, with comments, for `nightly` to read."""
    from harness.cli.night_file import write_template

    write_template(file)
    console.say(f"{file} is written: change it, then `kafka-chaos nightly {file} --budget 8h`.")


app.command("compare", cls=ConfiguredCommand)(compare)
app.command("index", cls=ConfiguredCommand)(index)
app.command("prune", cls=ConfiguredCommand)(prune)
app.command("search", cls=RunningCommand)(search)
app.command("shrink", cls=ConfiguredCommand)(shrink)
app.command("up", cls=ConfiguredCommand)(up)
app.command("bisect", cls=ConfiguredCommand)(bisect)


class _BenchCommand(RunningCommand):
    """Behind a benchmark's name, flags are the benchmark's own: `--help` too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (click's own)
        if args and not args[0].startswith("-"):
            ctx.help_option_names = []
        return super().parse_args(ctx, args)


@app.command(
    cls=_BenchCommand,
    hidden=not _BENCHMARKS.is_dir(),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="verify, verify-small, verify-runs, verify-ops, op-cycles, segments, recording, "
            "throughput, start-up, faults, reactions or power."
        ),
    ],
) -> None:
    """Run one benchmark of tests/bench; its figures are ratios measured in one run."""
    module = name.replace("-", "_")
    if not (_BENCHMARKS / f"{module}.py").is_file():
        known = sorted(path.stem for path in _BENCHMARKS.glob("[a-z]*.py"))
        raise UsageError(
            f"There is no benchmark {name!r}; known here: {', '.join(known) or 'none'}. "
            "Benchmarks lie in a checkout, not in the installed package."
        )
    sys.path.insert(0, str(_BENCHMARKS.parents[1]))
    raise typer.Exit(import_module(f"tests.bench.{module}").main(context.args) or 0)


def main() -> NoReturn:
    """Run the command line and exit with the code that design and errors give."""
    try:
        _configure_logging(os.environ.get("KAFKA_CHAOS_LOG") or "WARNING")
        code = app(prog_name="kafka-chaos", standalone_mode=False) or 0
    except KafkaChaosError as error:
        console.say(f"{type(error).__name__}: {error}")
        code = error.exit_code
    except typer.Exit as exit_:
        code = exit_.exit_code
    except (typer.Abort, KeyboardInterrupt):
        console.say("Interrupted.")
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the outermost frame: whatever nobody foresaw)
        if is_wrong_usage(error):
            sys.exit(2)
        traceback.print_exc()
        console.say(f"An error of kafka-chaos itself, {type(error).__name__}: please report it.")
        code = INTERNAL
    sys.exit(code)


def _configure_logging(level: str) -> None:
    from rich.logging import RichHandler

    if level.upper() not in logging.getLevelNamesMapping():
        raise UsageError(f"KAFKA_CHAOS_LOG={level}: choose DEBUG, INFO, WARNING or ERROR.")
    # Py4J logs every message between Python and Spark's JVM.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    handler = RichHandler(console=console.err, show_path=False)
    logging.basicConfig(level=level.upper(), format="%(message)s", handlers=[handler])


if __name__ == "__main__":
    main()
