#!/usr/bin/env python3
"""Opens or updates one GitHub issue for each finding of a night, with the `gh` program.

    kafka-chaos nightly --budget 8h --on-finish examples/github_issue.py

`gh` must be logged in (GH_TOKEN in a workflow), and know the repository (GH_REPO, or a checkout).
A finding that is known (known.yaml) is left alone. The title of an issue begins with the
fingerprint, so a finding that comes again becomes a comment, and a closed issue is opened again.
"""

import json
import os
import subprocess
import sys


def gh(*words: str) -> str:
    done = subprocess.run(["gh", *words], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603, S607 (gh is found on PATH)
    return done.stdout


def issue_of(fingerprint: str) -> dict | None:
    found = json.loads(
        gh(
            "issue", "list", "--state", "all", "--search", f"{fingerprint} in:title",
            "--json", "number,title,state",
        )
    )  # fmt: skip
    return next((issue for issue in found if issue["title"].startswith(fingerprint)), None)


def body_of(finding: dict, night: dict) -> str:
    lines = [
        f"{finding['text']}",
        "",
        f"**{finding['state']}** in night `{night['night']}`; seen in {finding['nights']} nights, "
        f"first in `{finding['first_night']}`, on Kafka {', '.join(finding['kafka'])}.",
        "",
        "| run | Kafka | seed | again |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {run['run']} | {run['kafka']} | {run['seed']} "
        f"| `kafka-chaos run --again runs/{run['run']}` |"
        for run in finding["tonight"]
    ]
    # The workflow's page has the artifact with the reports.
    if "GITHUB_RUN_ID" in os.environ:
        url = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"
        lines += ["", url.format(**os.environ)]
    return "\n".join(lines)


def main() -> None:
    night = json.load(sys.stdin)
    for finding in night.get("findings", []):
        if finding["known"]:
            continue
        issue, body = issue_of(finding["id"]), body_of(finding, night)
        if issue is None:
            title = f"{finding['id']}: {finding['text']}"
            gh("issue", "create", "--title", title[:250], "--body", body)
            continue
        number = str(issue["number"])
        if issue["state"] == "CLOSED":
            gh("issue", "reopen", number)
        gh("issue", "comment", number, "--body", body)


if __name__ == "__main__":
    main()
