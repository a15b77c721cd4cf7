"""Runs and histories on an S3: a server that speaks it, and Spark's s3a."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from harness.core.wait import wait_until
from tests.spark.judging import damaged, environment, kafka_chaos, stored
from tests.spark.standalone import standalone
from tests.suites.hadoop import free_ports, s3a_jars

pytestmark = pytest.mark.nightly

_BUCKET = "kafka-chaos-runs"


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables that name a server with one bucket, and jars for Spark to read it."""
    home = tmp_path_factory.mktemp("s3")
    (port,) = free_ports(1)
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log, stderr=log,
        )  # fmt: skip
    variables = {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "not a secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    jars = ",".join(str(jar) for jar in sorted(s3a_jars().glob("*.jar")))
    settings = {
        "spark.jars": jars,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
    }
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (home / "spark-defaults.conf").write_text(lines)
    try:
        server_files = pafs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip

        def is_up() -> bool:
            try:
                server_files.create_dir(_BUCKET)
            except OSError:
                return False
            return True

        wait_until(is_up, timeout_s=120, what="a bucket")
        yield environment(SPARK_CONF_DIR=str(home))
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_runs_and_histories_on_s3_are_judged_there(
    owned: dict[str, str], master: str, tmp_path: Path
) -> None:
    runs = stored(tmp_path, f"s3://{_BUCKET}", owned)
    # Both of the schemes that people write name the same.
    one, many, history = runs.names
    named = replace(runs, names=[one, many.replace("s3:", "s3a:"), history.replace("s3:", "s3a:")])

    named.judge_again(owned)
    named.judge_again(owned, "--master", master)


def test_what_cannot_be_read_is_said_in_one_sentence(owned: dict[str, str], tmp_path: Path) -> None:
    nowhere = kafka_chaos("verify", f"s3://{_BUCKET}/nowhere", environment=owned)
    assert nowhere.returncode == 2
    assert f"There is no run folder s3://{_BUCKET}/nowhere" in nowhere.stderr

    no_bucket = kafka_chaos("verify", "s3://no-such-bucket/one", environment=owned)
    assert no_bucket.returncode in (2, 4)
    assert "s3://no-such-bucket/one" in no_bucket.stderr

    # A run is there, and Spark has no jars for s3a.
    run = damaged(tmp_path / "one")
    store = f"s3://{_BUCKET}/plain"
    assert kafka_chaos("archive", run, store, environment=owned).returncode == 0
    without = kafka_chaos("verify", f"{store}/one", environment=environment())
    assert without.returncode == 4
    assert "spark.jars.packages" in without.stderr
    assert "Traceback" not in without.stderr
