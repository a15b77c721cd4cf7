"""Clusters with TLS and SASL: clients get in, faults are seen, and no secret is left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from harness.core.wait import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.nightly]


@pytest.mark.parametrize(
    "flags",
    [
        ("--security", "sasl_ssl"),
        ("--security", "sasl_plaintext", "--sasl", "plain", "--kafka", "2.8.1"),
        ("--security", "ssl", "--workload", "transactional"),
    ],
    ids=["sasl_ssl", "sasl_plaintext of ZooKeeper", "ssl"],
)
def test_a_run_on_a_secured_cluster_keeps_no_secret(tmp_path: Path, flags: tuple[str, ...]) -> None:
    private, store = tmp_path / "private", tmp_path / "runs"
    private.mkdir()
    with (tmp_path / "out").open("wb") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", "run", *flags, "--duration", "20s",
             "--faults", "broker_kill,partition,client_link", "--seed", "5", "--json",
             "--store", str(store)],
            stdout=subprocess.PIPE, stderr=out,
            env={**os.environ, "CI": "1", "TMPDIR": str(private)},
        )  # fmt: skip
    with run:
        files = wait_until(
            lambda: list(private.glob("kafka-chaos-clients-*/*.properties")),
            timeout_s=300,
            what="the files of clients",
        )
        secrets = {line for file in files for line in secrets_in(file.read_text())}
        document, _ = run.communicate(timeout=600)

    verdict = json.loads(document)
    assert (run.returncode, verdict["verdict"]) == (0, "VALID"), verdict["reasons"]
    assert verdict["counts"]["acked"] > 100
    assert all(fault["proven"] for fault in verdict["faults"])
    assert not [file for file in files if file.exists()]
    everything = [*store.rglob("*"), tmp_path / "out"]
    assert found(secrets, everything) == []
    assert not found(secrets, [tmp_path / "out"])


def secrets_in(properties: str) -> list[str]:
    """The passwords in a file of client properties; none of a cluster that has TLS alone."""
    return [part.split('"')[0] for part in properties.split('password="')[1:]]


def found(secrets: Collection[str], files: Collection[Path]) -> list[str]:
    """The files that hold a secret."""
    return [
        str(file)
        for file in files
        if file.is_file() and any(secret.encode() in file.read_bytes() for secret in secrets)
    ]
