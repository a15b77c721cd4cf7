"""Break dangerous lines one at a time, and demand that the quick tests notice each.

Run as a program: `python -m tests.mutants [--only WORDS] [--jobs 2]`. `mutants.toml` names the
file, what the line says, what it is to say instead, and the tests that must fail then: those of
`make quick`, and of them only the related ones. A copy of the tree is broken, never the tree. It
ends with 1 if a mutant survives, and with 2 if one cannot be tried: its line is gone, or its tests
fail without it.
"""

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = Path(__file__).with_name("mutants.toml")
LIMIT_S = 600
_FAILED = 1
"""How pytest ends if tests failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A dangerous line, broken.

    Attributes:
        what: what goes wrong with it, a sentence.
        file: where the line stands, below the root.
        before: the text, which must stand there once.
        after: what is put in its place.
        tests: what must fail, as arguments for pytest.
    """

    what: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def reason_not_to_try(self, tree: Path) -> str | None:
        """Return why it cannot be tried in a tree, or None."""
        path = tree / self.file
        if not path.is_file():
            return f"{self.file} is gone"
        times = path.read_text().count(self.before)
        if times != 1:
            return f"{self.file} has the text {times} times: {self.before.strip()!r}"
        missing = [test for test in self.tests if not (tree / test.partition("::")[0]).exists()]
        return f"{', '.join(missing)} is gone" if missing else None

    @contextmanager
    def broken_in(self, tree: Path) -> Iterator[None]:
        """Break the line for as long as the context lasts."""
        path = tree / self.file
        whole = path.read_text()
        path.write_text(whole.replace(self.before, self.after))
        try:
            yield
        finally:
            path.write_text(whole)


def read_mutants() -> list[Mutant]:
    """Return all mutants.

    Raises:
        TypeError: an entry lacks a field, or has one that is none.
    """
    document = tomllib.loads(MUTANTS.read_text())
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in document["mutant"]]


def copy_tree(target: Path) -> Path:
    """Copy what git knows, and what it would take in, to a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source := ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def run_tests(tree: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run tests in a copy until the first fails; None if they came to no end."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "compose" / "agent")]),
        # Two versions of a file within one second have the same bytecode cache.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def failure_of(tree: Path, mutant: Mutant) -> str | None:
    """Return what noticed the mutant; None if nothing did.

    Raises:
        RuntimeError: pytest could not run the tests.
    """
    with mutant.broken_in(tree):
        ended = run_tests(tree, mutant.tests)
    if ended is None:
        return f"the tests hung for {LIMIT_S} s"
    if ended.returncode == 0:
        return None
    lines = ended.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode != _FAILED or not failed:
        raise RuntimeError(f"pytest ended with {ended.returncode}: {ended.stdout[-2000:]}")
    return failed[0].partition(" ")[2].partition(" - ")[0]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", metavar="WORDS", help="those whose text has them")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at a time")
    asked = parser.parse_args(arguments)
    mutants = [m for m in read_mutants() if asked.only in f"{m.file} {m.what} {m.tests}"]
    survivors: list[Mutant] = []
    troubles: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-mutants-") as folder:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(asked.jobs):
            trees.put(copy_tree(Path(folder) / str(number)))

        def attempt(mutant: Mutant) -> None:
            tree = trees.get()
            try:
                noticed_by = failure_of(tree, mutant)
            except RuntimeError as error:
                troubles.append(mutant)
                say(f"no answer  {mutant.what}: {error}")
            else:
                if noticed_by is None:
                    survivors.append(mutant)
                    say(f"SURVIVED   {mutant.what} ({mutant.file})")
                else:
                    say(f"noticed    {mutant.what}: {noticed_by}")
            finally:
                trees.put(tree)

        ready = []
        for mutant in mutants:
            if (reason := mutant.reason_not_to_try(ROOT)) is None:
                ready.append(mutant)
            else:
                troubles.append(mutant)
                say(f"not tried  {mutant.what}: {reason}")
        tree = trees.get()
        whole = run_tests(tree, sorted({test for mutant in ready for test in mutant.tests}))
        trees.put(tree)
        if whole is None:
            say(f"The tests hang for {LIMIT_S} s without any mutant.")
            return 2
        if whole.returncode != 0:
            say(f"The tests fail without any mutant: {whole.stdout[-3000:]}")
            return 2
        with ThreadPoolExecutor(asked.jobs) as pool:
            list(pool.map(attempt, ready))
    say(f"{len(mutants)} mutants, {len(survivors)} survived, {len(troubles)} could not be tried")
    return 1 if survivors else 2 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
