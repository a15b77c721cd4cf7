"""A user's client.properties, as librdkafka takes it; what it has nothing for is named."""

from pathlib import Path

import pytest

from harness.core.access import Access
from harness.core.client_properties import read_client_properties
from harness.core.errors import UsageError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def read(path: Path, *lines: str) -> dict[str, str]:
    file = path / "client.properties"
    file.write_text("\n".join(lines) + "\n")
    return read_client_properties(file)


def test_kafkas_names_become_librdkafkas(tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.touch()
    assert read(
        tmp_path,
        "# of the platform team",
        "bootstrap.servers=elsewhere:9092",
        "security.protocol: sasl_ssl",
        "sasl.mechanism = SCRAM-SHA-512",
        f"sasl.jaas.config={SCRAM} required \\",
        '    username="alice" \\',
        '    password="a=b;d";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={trusted}",
        "ssl.endpoint.identification.algorithm=",
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "a=b;d",
        "ssl.ca.location": str(trusted),
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("kind", "names", "more"),
    [
        ("PKCS12", ("ssl.keystore.location",), {"ssl.keystore.password": "s"}),
        ("PEM", ("ssl.certificate.location", "ssl.key.location"), {}),
    ],
)
def test_a_clients_own_certificate(
    tmp_path: Path, kind: str, names: tuple[str, ...], more: dict[str, str]
) -> None:
    own = tmp_path / "own"
    own.touch()

    given = read(
        tmp_path, "security.protocol=SSL", f"ssl.keystore.type={kind}",
        f"ssl.keystore.location={own}", "ssl.keystore.password=s", "ssl.key.password=k",
    )  # fmt: skip

    assert given == {
        "security.protocol": "SSL", "ssl.key.password": "k", **dict.fromkeys(names, str(own)),
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("acks=1", "sets acks, which is none of a client's security settings"),
        ("sasl.client.callback.handler.class=C", "sets sasl.client.callback.handler.class"),
        ("security.protocol=SASLSSL", "security.protocol to SASLSSL: it is one of PLAINTEXT"),
        ("ssl.truststore.location=/t.jks", "a store of type JKS, which librdkafka cannot read"),
        ("ssl.keystore.location=/k.jks", "make it PKCS12"),
        ("ssl.ca.location=/none.pem", "to /none.pem, and there is no such file"),
        (f"sasl.jaas.config={SCRAM} required username=a;", "both username and password"),
        ("sasl.jaas.config=com.Krb5LoginModule required;", "names none of PlainLoginModule"),
    ],
)
def test_what_librdkafka_has_nothing_for_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=r"client\.properties") as refused:
        read(tmp_path, line)

    assert sentence in str(refused.value)


def test_a_password_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, 'sasl.jaas.config=com.Other required username="a" password="hush";')

    assert "hush" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none cannot be read: No such file"):
        read_client_properties(tmp_path / "none")


def test_what_says_how_to_get_in_holds_no_secret(tmp_path: Path) -> None:
    read(tmp_path, "security.protocol=SASL_PLAINTEXT", "sasl.username=a", "sasl.password=hush")
    access = Access("127.0.0.1:9092", str(tmp_path / "client.properties"))

    document = access.to_json()

    assert "hush" not in str(document)
    assert Access.read(document) == access
    assert access.config()["sasl.password"] == "hush"
    assert access.config()["bootstrap.servers"] == "127.0.0.1:9092"
    assert Access("b:1").config() == {"bootstrap.servers": "b:1"}
