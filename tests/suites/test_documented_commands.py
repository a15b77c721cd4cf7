"""The commands of README and docs, run one after the other as a reader would, in one folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import documented

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

JUDGED = {0, 1, 3}
"""VALID, INVALID and UNKNOWN: short runs, and those of findings, end in any of them."""
HISTORIES = documented.ROOT / "tests" / "spark" / "histories"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the documents speak of, and `examples` and `tests` of the checkout."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "tests"):
        (folder / name).symlink_to(documented.ROOT / name)
    history = min(HISTORIES.glob("*.jsonl"))
    for name in ("history", "a", "b"):
        shutil.copyfile(history, folder / f"{name}.jsonl")
    return folder


@pytest.mark.parametrize("command", documented.run())
def test_a_command_that_a_document_shows_does_what_it_is_for(
    command: str, folder: Path, foreign_image: str
) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        pytest.skip("there is no jq")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "CI": "1", "KAFKA_IMAGE": foreign_image}
    if re.match(r"kafka-chaos run( --|$)", command) and not re.search(
        r"--(duration|again|plan) ", command
    ):
        # A minute of each would be too long.
        variables["KAFKA_CHAOS_DURATION"] = "20s"

    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip

    assert done.returncode in JUDGED, done.stderr[-3000:] + done.stdout[-3000:]
    assert "Traceback" not in done.stderr
