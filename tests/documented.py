"""The commands that README and docs show, and those of them that no test runs as they stand."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

HOURS = "takes hours, or a good part of one; tests/suites make the same in less time"
THEIRS = "is about something of the reader's own; tests/suites have some of it"
FOUND = "needs a run that has found something"
UNTIL_CTRL_C = "goes on until Ctrl-C: tests/suites/test_up.py"
STORAGE = "needs HDFS, YARN or S3: tests/suites/test_hdfs.py, test_yarn.py and test_s3.py"
GATE = "is the gate, or a part of it"
ELSEWHERE = "is run by a suite of its own: tests/suites/test_claims.py, test_compose.py"
FINDING = "repeats a finding, on the version and by the seed that had it"

NOT_RUN: Mapping[str, str] = {
    r"make \w.*": GATE,
    r"kafka-chaos (nightly|bench|init)\b.*": HOURS,
    r"kafka-chaos .*--(budget|all)\b.*": HOURS,
    r"kafka-chaos .*--duration 5m.*": HOURS,
    r"kafka-chaos matrix --acks 0,1,all .*": HOURS,
    r"kafka-chaos .*--compose docker-compose\.yml.*": THEIRS,
    r"kafka-chaos .*--bootstrap .*": THEIRS,
    r"kafka-chaos (shrink|bisect|compare) .*": FOUND,
    r"kafka-chaos index": "needs a night: tests/suites/test_runs.py",
    r"kafka-chaos up\b.*": UNTIL_CTRL_C,
    r"kafka-chaos claims run kip101-hw-truncation-loss --kafka .*": ELSEWHERE,
    r"kafka-chaos run --compose examples/compose.yaml --duration 48s .*": ELSEWHERE,
    r"kafka-chaos run --rate 0 --record-size 1000 .*": FINDING,
    r"kafka-chaos run --seed 940199": FINDING,
    r"kafka-chaos run --workload transactional .*--duration [34]0s.*": FINDING,
    r"kafka-chaos run search --delivery-timeout .*": FINDING,
    r"kafka-chaos search --kafka .* --seed .*": FINDING,
    r"kafka-chaos claims run .*--step.*": "waits for a key before each step",
    r"kafka-chaos claims (run|show) orderly-handover": "is of the claim that the tutorial writes",
    r"kafka-chaos .*(hdfs://|s3://|yarn).*": STORAGE,
    r"kafka-chaos heal": "would heal what other tests break",
    r"kafka-chaos clean": "would remove what other tests use",
}
"""Why a command is not run, by what all of it looks like."""


def shown() -> Iterator[str]:
    """Yield each command that a code block shows, once, without its comment."""
    seen = set()
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for line in re.findall(r"^ {4}(?:\$ )?((?:make|kafka-chaos) .*)$", text, re.MULTILINE):
            command = re.split(r"\s+#\s|\s{3,}", line)[0].strip()
            if command not in seen:
                seen.add(command)
                yield command


def why_not_run(command: str) -> str | None:
    """Return why no test runs a command as it stands; None: one does."""
    for pattern, why in NOT_RUN.items():
        if re.fullmatch(pattern, command):
            return why
    return None


def run() -> list[str]:
    """Return the commands that are run, as they follow each other in the documents."""
    return [command for command in shown() if why_not_run(command) is None]
