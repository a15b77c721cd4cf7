"""Whole experiments, run and verified, and verdicts on what was recorded before."""

import logging
import secrets
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.campaigns.conduct import RunResult, conduct, judge
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.stored_runs import Named, kind_of, name_or_path, open_run
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.progress import Progress, Say
from harness.core.scenario import Scenario
from harness.run.runner import KeepCluster, Runner
from harness.run.scenario_run import ScenarioRun
from kafka_chaos.records import Read, RecordHistory, Sent

if TYPE_CHECKING:
    from verifiers.ops.judgement import HistoryVerdict
    from verifiers.run_folder.result import Report

_LOG = logging.getLogger(__name__)


def run(
    scenario: Scenario | str = "mixed",
    *,
    seed: int | None = None,
    store: Path | str = "runs",
    keep_cluster: KeepCluster = "never",
    say: Say = _LOG.info,
    **overrides: Any,  # noqa: ANN401 (each field of Overrides has a type of its own)
) -> RunResult:
    """Run an experiment on a cluster of its own, verify what was recorded, and write its report.

    Args:
        scenario: what to run, or the name of a registered scenario.
        seed: draws the plan; None draws a new one.
        store: the folder under which the run's folder is made.
        keep_cluster: "failed" leaves the cluster running if the run could not be made, "always"
            in any case; `kafka-chaos clean` removes it.
        say: called with sentences about how far the run is.
        overrides: what to change in a registered scenario, by the fields of
            `harness.campaigns.configure.Overrides`: cluster, contract, workload_name, workload,
            faults, duration_s, max_at_once, available_within_s.

    Returns:
        The run's folder (`run_dir`), its `verdict` and its whole `report`.

    Raises:
        UsageError: the experiment cannot be; nothing was started.
        EnvironmentBroken: the machine lacks something, or the cluster did not start.
        HealFailed: a fault could not be taken back.
    """
    if isinstance(scenario, str):
        scenario = configure(scenario, Overrides(**overrides))
    elif overrides:
        raise UsageError(
            f"Only a registered scenario is changed by {', '.join(sorted(overrides))}: "
            "use dataclasses.replace for one of your own."
        )
    chosen_seed = secrets.randbelow(1_000_000) if seed is None else seed
    runner = Runner(
        run=ScenarioRun(scenario),
        seed=chosen_seed,
        store=Path(store),
        keep_cluster=keep_cluster,
        progress=Progress(say=say),
    )
    return conduct(runner)


def verify(  # noqa: PLR0913 (what may be verified, and how)
    path: Path | str | None = None,
    *,
    sent: Iterable[Sent] | None = None,
    read: Iterable[Read] | None = None,
    contract: Contract | None = None,
    master: str | None = None,
    exact: bool = False,
    subscribe: bool = False,
    ww_deps: bool = False,
    say: Say = _LOG.info,
) -> "Report | HistoryVerdict":
    """Return the verdict on a run folder, an op history, or records; no cluster is needed.

    The verdict and the report in a run folder are written again.

    Args:
        path: the folder of a run, or an op history in JSON lines (docs/op-history.md); a text may
            be the URI of one (docs/scaling.md).
        sent: in place of a path: all records that were sent to some topics, those of each producer
            in the order in which it sent them. Two of one value in one partition leave the verdict
            UNKNOWN.
        read: with `sent`: the records that were read there, those of each consumer in the order in
            which it was given them. What is not among them counts as not read, so some consumer
            must have read everything.
        contract: of an op history or records: what producers were promised. Anomalies that it
            permits leave the verdict VALID; None permits none. A loss that it permits by damage is
            permitted whether or not there was any. A run folder has a contract of its own.
        master: a Spark master; None is this machine.
        exact: look at every record, however long the history is.
        subscribe: of an op history or records: a rebalance may have moved consumers.
        ww_deps: of an op history: a write depends on the one before it in the log.
        say: called with sentences about what is being done.

    Returns:
        `verdict`, its `reasons`, and `anomalies` by name, each with its count and examples. An
        example of records has the `record`'s own value.

    Raises:
        UsageError: there is no such path, the folder is none of a run, or what is asked for does
            not go together.
        HistoryUnreadable: what was recorded in the run folder is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """

    def judged(history: Named) -> "HistoryVerdict":
        from verifiers.ops.job import verify_histories
        from verifiers.ops.judgement import OpOptions

        options = OpOptions(subscribe=subscribe, ww_deps=ww_deps, contract=contract)
        (verdict,) = verify_histories(
            [history], options=options, master=master, exact=exact, say=say
        )
        return verdict

    if path is None:
        if sent is None or read is None:
            raise UsageError(
                "verify takes the path of what was recorded, or both sent= and read=: records that "
                "were sent, and what was read."
            )
        records = RecordHistory(sent, read)
        with TemporaryDirectory(prefix="kafka-chaos-records-") as folder:
            verdict = judged(records.write(Path(folder) / "records.jsonl"))
            return verdict.naming(records.record_of)
    if sent is not None or read is not None:
        raise UsageError("verify takes a path, or sent= and read=, not both.")
    named = name_or_path(path)
    kind = kind_of(named, master=master)
    if kind == "folder":
        if contract is not None:
            raise UsageError(f"{path} is the folder of a run, which has a contract of its own.")
        with TemporaryDirectory(prefix="kafka-chaos-run-") as fetched:
            run_dir = open_run(named, Path(fetched))
            return judge(run_dir, master=master, progress=Progress(say=say), exact=exact).report
    if kind is None:
        raise UsageError(f"There is no file or folder {path}.")
    return judged(named)
