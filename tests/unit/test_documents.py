"""What README, CONTRIBUTING and the pages of docs/ name is there: files, commands, public names."""

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import kafka_chaos
from harness.cli.main import app
from harness.core.cluster import Lease
from harness.core.fault import FAULTS
from tests.documented import DOCUMENTS, NOT_RUN, ROOT, shown, why_not_run
from tests.unit.fake_cluster import FakeCluster

FOLDERS = "kafka_chaos|harness|faults|workloads|verifiers|compose|docs|examples|tests|\\.github"

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def _commands(text: str) -> list[list[str]]:
    """Return the words of each call of kafka-chaos, in code blocks and within sentences."""
    lines = re.findall(r"^ {4}(?:\$ )?((?:\S+=\S+ )?kafka-chaos .*)$", text, re.MULTILINE)
    lines += re.findall(r"`((?:\S+=\S+ )?kafka-chaos [^`]*)`", text)
    calls = []
    for line in lines:
        call = re.split(r"\s+[#&>|;]\s?|\s{3,}", line.partition("kafka-chaos ")[2])[0]
        calls.append(shlex.split(call))
    return calls


def _options_of_bench(name: str) -> set[str]:
    source = ROOT / "tests" / "bench" / f"{name.replace('-', '_')}.py"
    return set(re.findall(r'add_argument\(\s*"(--[\w-]+)"', source.read_text(encoding="utf-8")))


def _python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


@each_document
def test_what_a_document_links_to_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]

    missing = [
        target
        for target in targets
        if target and "://" not in target and not (document.parent / target).exists()
    ]

    assert missing == []


@each_document
def test_the_files_that_a_document_names_are_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(rf"(?<![\w./-])((?:{FOLDERS})/[\w./-]*\w)(?![\w/]*[<*…])", text)

    missing = [name for name in named if not (ROOT / name).exists()]

    assert missing == []


@each_document
def test_the_commands_that_a_document_shows_can_be_called(document: Path) -> None:
    group: Any = typer.main.get_command(app)
    unknown = []
    for words in _commands(document.read_text(encoding="utf-8")):
        command = group
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        if command is group.commands["bench"]:
            options |= _options_of_bench(words[0])
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        if command is group and words:
            unknown.append(words[0])
        unknown += sorted(given - options - {"--help"})

    assert unknown == []


def test_a_command_is_run_by_a_test_or_something_says_why_not() -> None:
    reasons = [(pattern, command) for pattern in NOT_RUN for command in shown()
               if re.fullmatch(pattern, command)]  # fmt: skip

    assert {pattern for pattern, _ in reasons} == NOT_RUN.keys(), "a reason for nothing"
    assert why_not_run("kafka-chaos run --seed 7") is None
    assert why_not_run("kafka-chaos nightly --budget 8h") is not None
    # Whatever the documents begin with is run.
    assert {command.split()[1] for command in shown() if why_not_run(command) is None} >= {
        "run", "plan", "verify", "report", "matrix", "claims", "doctor", "list", "prune",
    }  # fmt: skip


@each_document
def test_examples_import_the_public_package_alone(document: Path) -> None:
    wrong = []
    for block in _python_blocks(document.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.ImportFrom):
                continue
            package = (node.module or "").partition(".")[0]
            if package in ("harness", "faults", "workloads", "verifiers"):
                wrong.append(node.module)
            if node.module == "kafka_chaos":
                wrong += [name.name for name in node.names if name.name not in dir(kafka_chaos)]

    assert wrong == []


def test_the_fault_of_the_documents_works_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS.load()
    monkeypatch.setattr(FAULTS, "_entries", dict(FAULTS._entries))
    (block,) = _python_blocks((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
    exec(compile(block, "docs/extending.md", "exec"), {"__name__": "my_chaos.rolling_restart"})  # noqa: S102 (the page is ours)
    fault = FAULTS["rolling_restart"]()
    cluster = FakeCluster().leased(Lease(fault_id="1", hold_s=1, limit_s=60))

    injected = fault.inject(cluster, cluster.brokers)

    assert injected.observed
    assert fault.heal(cluster, cluster.brokers).observed
