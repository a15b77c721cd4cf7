"""Clusters with TLS and SASL: clients get in, faults are seen, and no secret is left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from harness.cluster.security import _certificates
from harness.core.wait import wait_until
from harness.machine.images import DEFAULT_KAFKA

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "compose.yaml"

CUT_OFF = ("--faults", "broker_kill,partition,client_link")

pytestmark = [pytest.mark.docker, pytest.mark.nightly]


@pytest.mark.parametrize(
    "flags",
    [
        ("--security", "sasl_ssl", *CUT_OFF),
        ("--security", "sasl_plaintext", "--sasl", "plain", "--kafka", "2.8.1", *CUT_OFF),
        # No client_link: a late request may commit the next transaction (KAFKA-17754).
        ("--security", "ssl", "--workload", "transactional", "--faults", "broker_kill,partition"),
    ],
    ids=["sasl_ssl", "sasl_plaintext of ZooKeeper", "ssl"],
)
def test_a_run_on_a_secured_cluster_keeps_no_secret(tmp_path: Path, flags: tuple[str, ...]) -> None:
    private, store = tmp_path / "private", tmp_path / "runs"
    private.mkdir()
    with (tmp_path / "out").open("wb") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", "run", *flags, "--duration", "20s",
             "--seed", "5", "--json", "--store", str(store)],
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


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRET = "hush-hush-17"  # noqa: S105 (of a cluster that is gone in a minute)


def test_a_cluster_of_somebody_else_lets_in_whoever_has_its_properties(
    tmp_path: Path, foreign_image: str
) -> None:
    text = EXAMPLE.read_text()
    text = text.replace("PLAINTEXT_HOST:PLAINTEXT", "HOST:SASL_PLAINTEXT")
    text = text.replace("PLAINTEXT_HOST", "HOST").replace(
        "  KAFKA_LOG_DIRS",
        "  KAFKA_SASL_ENABLED_MECHANISMS: PLAIN\n"
        "  KAFKA_LISTENER_NAME_HOST_PLAIN_SASL_JAAS_CONFIG: "
        f"'{LOGIN} user_alice=\"{SECRET}\";'\n"
        "  KAFKA_LOG_DIRS",
    )
    (tmp_path / "theirs.yaml").write_text(text)
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="alice" password="{SECRET}";\n'
    )
    store = tmp_path / "runs"

    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run",
         "--compose", str(tmp_path / "theirs.yaml"),
         "--client-config", str(tmp_path / "client.properties"), "--duration", "20s", "--seed", "7",
         "--faults", "broker_kill,client_link", "--json", "--store", str(store)],
        capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "CI": "1", "KAFKA_IMAGE": foreign_image},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["counts"]["acked"] > 1000
    folder = (store / "latest").resolve()
    assert "(hidden: a secret)" in (folder / "compose.yaml").read_text()
    assert found([SECRET], list(folder.rglob("*"))) == []
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("client", [(), ("--client", f"java:{DEFAULT_KAFKA}")], ids=["", "Java"])
def test_brokers_that_ask_for_a_certificate_let_in_who_has_one(
    tmp_path: Path, foreign_image: str, client: tuple[str, ...]
) -> None:
    tls = tmp_path / "tls"
    tls.mkdir()
    authority, store, password = _certificates()
    key, certificate, _ = pkcs12.load_key_and_certificates(store, password.encode())
    assert key is not None
    assert certificate is not None
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tls / "own.pem").write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    (tls / "ca.pem").write_bytes(authority)
    stores = {"keystore": "own.pem", "truststore": "ca.pem"}
    of_brokers = "".join(
        f"  KAFKA_SSL_{name.upper()}_TYPE: PEM\n  KAFKA_SSL_{name.upper()}_LOCATION: /tls/{file}\n"
        for name, file in stores.items()
    )
    text = EXAMPLE.read_text().replace("PLAINTEXT_HOST:PLAINTEXT", "HOST:SSL")
    text = text.replace("PLAINTEXT_HOST", "HOST").replace(
        "  KAFKA_LOG_DIRS", f"  KAFKA_SSL_CLIENT_AUTH: required\n{of_brokers}  KAFKA_LOG_DIRS"
    )
    text = text.replace("x-settings:", f"  volumes: ['{tls}:/tls:ro']\n\nx-settings:")
    (tmp_path / "theirs.yaml").write_text(text)
    (tmp_path / "client.properties").write_text(
        "security.protocol=SSL\n"
        + "".join(
            f"ssl.{name}.type=PEM\nssl.{name}.location={tls / file}\n"
            for name, file in stores.items()
        )
    )

    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", *client,
         "--compose", str(tmp_path / "theirs.yaml"),
         "--client-config", str(tmp_path / "client.properties"), "--duration", "20s", "--seed", "7",
         "--faults", "broker_kill", "--json", "--store", str(tmp_path / "runs")],
        capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "CI": "1", "KAFKA_IMAGE": foreign_image},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["counts"]["acked"] > 300
    folder = (tmp_path / "runs" / "latest").resolve()
    assert found([secret.decode().splitlines()[1]], list(folder.rglob("*"))) == []


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
