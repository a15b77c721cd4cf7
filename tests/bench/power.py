"""Power: which known bugs an unscripted search finds, how soon, and which it finds where none is.

    kafka-chaos bench power [--bug ID …] [--budget 20m] [--goes 5] [--without PATTERN …]
        [--resume] [--page docs/power.md] [--json] [--store runs/power]

For each bug and seed `kafka-chaos search` is run on a version that has the bug, in a process of its
own, until it is found or the budget is spent; then, as long as the median of that, on the version
that has it fixed, where it must not be found. Every go is a line of power.jsonl in the store, so
that measurements add up over sessions; the figures are those of all lines with the flags of today.
A store holds the goes of one search: after a change of the search, choose another.

Run folders without a finding are removed after each go, but for their verdicts.
"""

import argparse
import functools
import math
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import typer

from harness.campaigns.configure import Overrides, configure
from harness.cli.console import say
from harness.cli.main import app
from harness.cli.process import INTERRUPTED, stoppable
from harness.core.cluster import ClusterSpec
from harness.core.duration import parse_duration_s
from harness.core.errors import (
    EnvironmentBroken,
    HealFailed,
    HistoryUnreadable,
    KafkaChaosError,
    UsageError,
)
from harness.core.fault import describe, phrase
from harness.core.run_dir import SCHEMA, Journal, canonical_json, write_atomically
from harness.core.schedule import Mix
from harness.core.verdict import Verdict
from harness.machine.images import ensure_agent_image, ensure_broker_image
from tests.bench._bugs import BUGS, OTHERS_GOAL_MIN, Bug, Side, bugs_of
from tests.bench._goals import exit_code
from tests.bench._power_figures import (
    Contribution,
    Figures,
    Go,
    contribution_of,
    figures_of,
    goals_of,
    is_same,
    read_goes,
)
from tests.bench._power_page import write_page

BUDGET_S = 20 * 60.0
"""Of a search for a bug with a goal of its own; the others have as long as their goal."""
_ROOT = Path(__file__).resolve().parents[2]
_GOES_FILE = "power.jsonl"
_ASKED_INTERVAL_S = 0.5
_LAST_LINES = 15
_ERRORS: Mapping[int, type[KafkaChaosError]] = {
    2: UsageError,
    4: EnvironmentBroken,
    5: HealFailed,
}


class _Interrupted(Exception):
    """A search was ended from outside; it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A go that is to be made.

    Attributes:
        bug: what is looked for.
        side: whether the version has it.
        seed: of the search.
        budget_s: seconds that it may take.
        without: the pattern that is left out; empty if none is.
    """

    bug: Bug
    side: Side
    seed: int
    budget_s: float
    without: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """The flags of the search but for seed, budget and store."""
        return (*self.bug.arguments(self.side), *_remaining(self.without, self.bug))

    def command(self, store: Path) -> list[str]:
        """Return the search as a command, as a user would give it."""
        return [
            *(sys.executable, "-m", "kafka_chaos", "search"),
            *self.settings,
            *("--budget", f"{math.ceil(self.budget_s)}s"),
            *("--seed", str(self.seed), "--json", "--store", str(store)),
        ]

    def is_made(self, goes: Sequence[Go]) -> bool:
        """Return whether one of some goes is this one, or was given more time."""
        return any(
            is_same(go, bug=self.bug, side=self.side, settings=self.settings)
            and go.seed == self.seed
            and go.budget_s >= self.budget_s
            for go in goes
        )

    def __str__(self) -> str:
        version = self.bug.version(self.side)
        without = f" without {self.without}" if self.without else ""
        return f"{self.bug.id} on {version} ({self.side}), seed {self.seed}{without}"


@functools.cache
def mix(workload: str) -> Mapping[str, str]:
    """Return the patterns that a search deals in with a workload, by name, as flags have them."""
    schedule = configure("search", Overrides(workload_name=workload)).schedule
    assert isinstance(schedule, Mix)
    kinds = map(describe, schedule.dealt)
    return {kind["name"]: phrase(kind) for kind in kinds}


def _remaining(without: str, bug: Bug) -> list[str]:
    """Return the flags that leave out a pattern; none for none."""
    if not without:
        return []
    left = [pattern for name, pattern in mix(bug.workload).items() if name != without]
    return ["--patterns", ",".join(left)]


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kafka-chaos bench power", description=__doc__)
    listed: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument("--bug", metavar="ID", help=f"of {', '.join(BUGS)}; default: all", **listed)
    parser.add_argument(
        "--budget",
        help="of a search on an affected version; default: 20m, of a bug without a goal of its own "
        f"{OTHERS_GOAL_MIN:g}m",
    )
    parser.add_argument(
        "--fixed-budget",
        help="of a search on a fixed version at least; default: the median on the affected one",
    )
    parser.add_argument(
        "--goes", type=int, default=5, help="searches a side; 0: only show what was measured"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first go; the others follow")
    parser.add_argument(
        "--without",
        metavar="PATTERN",
        help="measure on the affected versions only, leaving out each of these patterns in turn",
        **listed,
    )
    parser.add_argument("--resume", action="store_true", help="leave out the goes that were made")
    parser.add_argument("--page", type=Path, help="write this page anew; its notes are kept")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--store", type=Path, default=Path("runs/power"), help="where goes lie")
    given = parser.parse_args(arguments)
    if given.goes < 0 or given.seed < 0:
        raise UsageError("--goes and --seed are counts: give numbers from 0 on.")
    return given


def _refuse_undealt(patterns: Sequence[str], bugs: Sequence[Bug]) -> None:
    """Refuse to leave out a pattern that never comes.

    Raises:
        UsageError: no search of the bugs deals it.
    """
    dealt = dict.fromkeys(name for bug in bugs for name in mix(bug.workload))
    if unknown := sorted(set(patterns) - set(dealt)):
        raise UsageError(
            f"A search deals no pattern {', '.join(unknown)}; it deals {', '.join(dealt)}."
        )


def main(arguments: list[str]) -> int:
    """Measure, and show the figures; return 1 if a goal was missed, 130 if interrupted."""
    given = _arguments(arguments)
    bugs = _reached(bugs_of(given.bug), named=bool(given.bug))
    _refuse_undealt(given.without, bugs)
    bench = Bench(
        store=given.store.resolve(),
        budget_s=parse_duration_s(given.budget) if given.budget else None,
        fixed_budget_s=parse_duration_s(given.fixed_budget) if given.fixed_budget else 0.0,
        seeds=range(given.seed, given.seed + given.goes),
        resume=given.resume,
    )
    with stoppable() as stop:
        with suppress(_Interrupted):
            bench.measure(bugs, without=given.without, stop=stop)
        interrupted = stop.is_set()
    goes = read_goes(bench.goes_file)
    everything = [bench.figures(bug, goes) for bug in BUGS.values()]
    contributions = [
        each
        for bug in BUGS.values()
        for name in mix(bug.workload)
        if (each := contribution_of(name, bug, goes, patterns=_remaining(name, bug)))
    ]
    asked = [figures for figures in everything if figures.bug in bugs]
    those = [
        each
        for each in contributions
        if each.pattern in given.without and each.all_but_it.bug in bugs
    ]
    _show(asked, those)
    if given.page:
        write_page(given.page, everything, contributions=contributions, goes=goes)
    # What a pattern contributes has no goal.
    goals = [] if given.without else goals_of(asked, everything)
    if given.json:
        document = {
            "schema": SCHEMA,
            "commit": commit(),
            "bugs": [figures.document() for figures in asked],
            "contributions": [each.document() for each in those],
            "goals": [
                {
                    "name": goal.name,
                    "measured": goal.measured if math.isfinite(goal.measured) else None,
                    "is_met": goal.is_met,
                }
                for goal in goals
            ],
        }
        sys.stdout.write(canonical_json(document))
    return INTERRUPTED if interrupted else exit_code(goals)


def _reached(bugs: Sequence[Bug], *, named: bool) -> list[Bug]:
    """Return the bugs that a search of this tree can look for.

    Raises:
        UsageError: one that was named cannot be looked for.
    """
    command: Any = typer.main.get_command(app)
    known = {name for each in command.commands["search"].params for name in each.opts}
    reached = []
    for bug in bugs:
        flags = {word for word in bug.arguments("affected") if word.startswith("--")}
        if missing := sorted(flags - known):
            sentence = f"{bug.id} needs a search with {', '.join(missing)}, which there is not"
            if named:
                raise UsageError(f"{sentence}: leave it out.")
            say(f"{sentence}: it is left out.")
        else:
            reached.append(bug)
    return reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How it is measured.

    Attributes:
        store: where goes and their runs lie.
        budget_s: of a search on an affected version, seconds; None: each bug's own.
        fixed_budget_s: of a search on a fixed version at least, seconds.
        seeds: one a go.
        resume: whether goes that were made are left out.
    """

    store: Path
    budget_s: float | None = None
    fixed_budget_s: float = 0.0
    seeds: Sequence[int] = range(1, 6)
    resume: bool = False

    @property
    def goes_file(self) -> Path:
        """The file of JSON lines that holds all goes."""
        return self.store / _GOES_FILE

    def budget_s_of(self, bug: Bug) -> float:
        """Return the budget of a bug on its affected version, seconds."""
        if self.budget_s is not None:
            return self.budget_s
        return BUDGET_S if bug.goal_min is not None else OTHERS_GOAL_MIN * 60

    def figures(self, bug: Bug, goes: Sequence[Go]) -> Figures:
        """Return what goes with all patterns say of a bug."""
        return figures_of(bug, goes, budget_s=self.budget_s_of(bug))

    def measure(
        self, bugs: Sequence[Bug], *, without: Sequence[str], stop: threading.Event
    ) -> None:
        """Make the goes that are wanted; each is in the file once it is done.

        Args:
            bugs: what is looked for.
            without: patterns that are left out in turn, on the affected versions only, where the
                workload has them; empty: none is, and the fixed versions are searched too.
            stop: set from outside to end early; the go that this cuts short does not count.

        Raises:
            _Interrupted: `stop` was set.
            KafkaChaosError: a search could not be made.
        """
        if not self.seeds:
            return
        try:
            self.store.mkdir(parents=True, exist_ok=True)
            _drop_half_a_line(self.goes_file)
            journal = Journal(self.goes_file)
        except OSError as error:
            raise UsageError(
                f"The store {self.store} cannot be written to ({error.strerror}): choose another "
                "with --store."
            ) from error
        try:
            for bug in bugs:
                for name in without or [""]:
                    if not name or name in mix(bug.workload):
                        self._make(self._on_affected(bug, name), journal, stop)
                if not without:
                    self._make(self._on_fixed(bug), journal, stop)
        finally:
            journal.close()

    def _on_affected(self, bug: Bug, without: str) -> Iterator[Wanted]:
        for seed in self.seeds:
            yield Wanted(
                bug=bug, side="affected", seed=seed, budget_s=self.budget_s_of(bug), without=without
            )

    def _on_fixed(self, bug: Bug) -> Iterator[Wanted]:
        median_s = self.figures(bug, read_goes(self.goes_file)).median_s
        needed_s = self.budget_s_of(bug) if median_s is None else median_s
        for seed in self.seeds:
            yield Wanted(
                bug=bug, side="fixed", seed=seed, budget_s=max(needed_s, self.fixed_budget_s)
            )

    def _make(self, wanted: Iterator[Wanted], journal: Journal, stop: threading.Event) -> None:
        there = read_goes(self.goes_file) if self.resume else []
        for each in wanted:
            if stop.is_set():
                raise _Interrupted
            if each.is_made(there):
                say(f"{each}: was measured before.")
                continue
            go = search(each, self.store, stop)
            journal.append(go.document(), sync=True)
            say(f"{each}: {_told(go)}")


def _drop_half_a_line(path: Path) -> None:
    """Take away the end of a file that a killed process left without its newline."""
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            write_atomically(path, text[: text.rfind("\n") + 1])


def search(wanted: Wanted, store: Path, stop: threading.Event) -> Go:
    """Run a search to its end and return what it says.

    Raises:
        _Interrupted: it was ended from outside.
        KafkaChaosError: it could not be made, or made no run that was judged.
    """
    prepare(wanted)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = store / f"{stamp}-{wanted.bug.id}-{wanted.side}-{wanted.seed}"
    folder.mkdir()
    command = wanted.command(folder)
    begun = folder / "asked.json"
    # The time of this file is the beginning, by the clock that those of the verdicts have.
    write_atomically(begun, canonical_json({"command": command, "budget_s": wanted.budget_s}))
    log = folder / "search.log"
    say(f"{wanted}: {wanted.budget_s / 60:.1f} minutes at most; what it says stands in {log}")
    code, out = run_search(command, log, stop)
    if stop.is_set() or code == INTERRUPTED:
        stop.set()
        raise _Interrupted
    if code not in {verdict.exit_code for verdict in Verdict}:
        last = " ".join(
            log.read_text(encoding="utf-8", errors="replace").split("\n")[-_LAST_LINES:]
        )
        error = _ERRORS.get(code, KafkaChaosError)
        raise error(f"The search for {wanted} ended with {code}, see {log}: {last.strip()}")
    document = read_document(out)
    go = go_of(
        wanted,
        document,
        judged_s=functools.partial(_judged_s, folder, begun.stat().st_mtime),
        folder=folder.name,
    )
    if not any(run.get("run") for run in document["runs"]):
        raise EnvironmentBroken(
            f"The search for {wanted} made no run that could be judged, so it says nothing: "
            f"see {log}."
        )
    # Whatever else was found is evidence too.
    remove_runs(folder, keep={Path(run).name for run in (go.run, *(r["run"] for r in go.others))})
    return go


def prepare(wanted: Wanted) -> None:
    """Build the images that a search needs: how long that takes says nothing of the search."""
    kafka = wanted.bug.version(wanted.side).kafka or ClusterSpec().kafka
    ensure_broker_image(kafka, say=say)
    ensure_agent_image(say=say)


def run_search(command: Sequence[str], log: Path, stop: threading.Event) -> tuple[int, str]:
    """Run a search; return its exit code and what it printed.

    It is interrupted once when `stop` is set, and then waited for: it heals first. In a session of
    its own it does not see the terminal's Ctrl-C a second time.
    """
    told = False
    with (
        log.open("a", encoding="utf-8") as errors,
        subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True,
        ) as child,
    ):  # fmt: skip
        while True:
            try:
                out, _ = child.communicate(timeout=_ASKED_INTERVAL_S)
            except subprocess.TimeoutExpired:
                if stop.is_set() and not told:
                    child.send_signal(signal.SIGINT)
                    told = True
            except KeyboardInterrupt:
                # The second Ctrl-C: so is the child's, which then only heals.
                child.send_signal(signal.SIGINT)
                child.wait()
                raise
            else:
                return child.returncode, out


def read_document(out: str) -> dict[str, Any]:
    """Return the JSON document that a search printed.

    Raises:
        HistoryUnreadable: it is none.
    """
    try:
        document = loads(out)
    except JSONDecodeError as error:
        raise HistoryUnreadable(f"The search printed no JSON document ({error}).") from error
    if not isinstance(document, dict):
        raise HistoryUnreadable("The search printed JSON that is no object.")
    return document


def go_of(
    wanted: Wanted,
    document: Mapping[str, Any],
    *,
    judged_s: Callable[[str], float | None],
    folder: str,
) -> Go:
    """Return what the document of a search says of a bug.

    Args:
        wanted: the go.
        document: as `kafka-chaos search --json` prints it.
        judged_s: returns, by name of a run, how many seconds after the beginning of the search it
            was judged; None if nobody knows. A run's own `at_s` goes before.
        folder: name of the go's folder in the store.
    """
    at_s = {run["run"]: run.get("at_s") for run in document["runs"] if run.get("run")}

    def seconds(entry: Mapping[str, Any]) -> float:
        known = (at_s.get(entry["run"]), judged_s(entry["run"]), document["elapsed_s"])
        return float(next(value for value in known if value is not None))

    def of_bug(entry: Mapping[str, Any]) -> dict[str, int]:
        shown = {
            words.partition("(")[0] for words in wanted.bug.anomalies if words in entry["shown"]
        }
        return {name: n for name, n in entry["forbidden"].items() if name in shown}

    found = [entry for entry in document["found"] if of_bug(entry)]
    first = min(found, key=seconds, default=None)
    others = [entry for entry in document["found"] if not of_bug(entry)]
    return Go(
        bug=wanted.bug.id,
        side=wanted.side,
        seed=wanted.seed,
        without=wanted.without,
        settings=wanted.settings,
        budget_s=wanted.budget_s,
        found=first is not None,
        seconds=round(seconds(first), 1) if first else None,
        anomalies=of_bug(first) if first else {},
        run=f"{folder}/{first['run']}" if first else "",
        others=tuple(
            {"run": f"{folder}/{entry['run']}", "anomalies": entry["forbidden"]} for entry in others
        ),
        verdicts=dict(Counter(run["verdict"] for run in document["runs"])),
        situations=sum(map(bool, document["situations"].values())),
        elapsed_s=document["elapsed_s"],
        commit=commit(),
        at_utc=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    )


def _judged_s(folder: Path, begin_s: float, run: str) -> float | None:
    """Return how long after the beginning the verdict of a run was written, seconds."""
    verdict = folder / run / "verdict.json"
    return verdict.stat().st_mtime - begin_s if verdict.is_file() else None


def remove_runs(folder: Path, *, keep: Collection[str]) -> None:
    """Remove what lies in the run folders of a go, but for their verdicts.

    Args:
        folder: of the go.
        keep: names of run folders that stay whole.
    """
    for meta in folder.glob("*/run.json"):
        run = meta.parent
        if run.is_symlink() or run.name in keep:
            continue
        for path in run.iterdir():
            if path.name == "verdict.json":
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@functools.cache
def commit() -> str:
    """Return the commit of this tree, with `+` at its end if there are changes; or "unknown"."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short", "HEAD")
    # The page is one of the documents: to write it changes no search.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return f"{name}{'+' if changed else ''}" if name else "unknown"


def _told(go: Go) -> str:
    anomalies = ", ".join(f"{name} ×{count:,}" for name, count in go.anomalies.items())
    found = (
        f"found after {go.seconds / 60:.1f} minutes, {anomalies}, in {go.run}"
        if go.seconds is not None
        else f"not found in {go.elapsed_s / 60:.1f} minutes"
    )
    return f"{found}; {go.runs} runs, {go.runs - go.known} of them UNKNOWN"


def _show(asked: Sequence[Figures], contributions: Sequence[Contribution]) -> None:
    """Say what was found, a line a bug, and a line a pattern that was left out."""
    for each in asked:
        say(f"{each.bug.id}: {_figures_line(each)}")
    for contribution in contributions:
        without = contribution.all_but_it
        say(
            f"{without.bug.id} without {contribution.pattern}: {_figures_line(without)}, within "
            f"{without.budget_s / 60:.3g}; with all: {_figures_line(contribution.all_patterns)}"
        )


def _figures_line(each: Figures) -> str:
    if not each.affected:
        return "not measured yet"
    parts = [f"found {each.found} of {len(each.affected)}, median {each.median_min} minutes"]
    if each.fixed:
        parts.append(f"false alarms {len(each.false_alarms)} of {len(each.fixed)}")
        parts += [f"  in {go.run}" for go in each.false_alarms]
    return "; ".join(parts)
