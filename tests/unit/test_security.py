"""Secrets of clusters of ours: who has them, and that a broker lets in whoever knows them."""

import base64
import contextlib
import hashlib
import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from harness.cluster.broker_socket import BrokerSocket
from harness.cluster.security import Security, make_security
from harness.cluster.topology import render
from harness.cluster.user_topology import without_secrets
from harness.core.client_properties import read_client_properties
from harness.core.cluster import ClusterSpec
from harness.core.errors import UsageError

USER, PASSWORD = "alice", "wonder=land,1"


@pytest.fixture
def secured() -> Iterator[Security]:
    made = make_security(ClusterSpec(security="sasl_ssl"))
    assert made is not None
    yield made
    made.remove()
    assert not made.folder.exists()


def secrets_of(made: Security) -> set[str]:
    """All passwords of a cluster, as its files have them."""
    files = (made.client_properties, made.admin_properties)
    passwords = {read_client_properties(file)["sasl.password"] for file in files}
    store = next(
        line.split("=", 1)[1]
        for line in made.broker["properties"].splitlines()
        if line.startswith("ssl.keystore.password")
    )
    return {*passwords, store, made.broker["keystore"]}


def test_a_compose_file_has_no_secret(secured: Security) -> None:
    spec = ClusterSpec(security="sasl_ssl")
    topology = render(spec, run="r", owner="o", image="i", agent_image="a", security=secured)

    assert "CLIENT:SASL_SSL,REPLICATION:PLAINTEXT" in topology.compose.replace(
        "REPLICATION:PLAINTEXT,CLIENT:SASL_SSL", "CLIENT:SASL_SSL,REPLICATION:PLAINTEXT"
    )
    assert not [secret for secret in secrets_of(secured) if secret in topology.compose]
    assert not [secret for secret in secrets_of(secured) if secret in repr(topology)]
    assert topology.secrets["KC_SECRET_JAAS"] == secured.broker["jaas"]
    assert topology.access.properties == str(secured.client_properties)


def test_only_their_owner_may_read_the_files_of_clients(secured: Security) -> None:
    assert secured.folder.stat().st_mode & 0o077 == 0


def test_who_comes_to_a_cluster_without_security_is_let_in() -> None:
    assert make_security(ClusterSpec()) is None


@pytest.mark.parametrize(
    ("kafka", "sasl", "is_refused"),
    [
        ("4.3.1", "scram-sha-512", False),
        ("3.4.1", "scram-sha-512", True),
        ("3.4.1", "plain", False),
        ("2.6.0", "scram-sha-256", True),
        ("2.7.0", "scram-sha-256", False),
    ],
)
def test_scram_needs_a_version_that_can_make_its_users(
    kafka: str, sasl: str, *, is_refused: bool
) -> None:
    refused = pytest.raises(UsageError, match="cannot make a SCRAM user")
    with refused if is_refused else contextlib.nullcontext():
        ClusterSpec(kafka=kafka, security="sasl_ssl", sasl=sasl)  # type: ignore[arg-type]


@contextmanager
def broker(made: Security, mechanism: str) -> Iterator[int]:
    """A server with the brokers' certificate that lets in whoever knows the password."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, made)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(server.accept()[0], server_side=True) as connection,
            ):
                server_side = _Scram() if mechanism.startswith("SCRAM") else None
                while True:
                    (length,) = struct.unpack(">i", _read(connection, 4))
                    request = _read(connection, length)
                    api, _, correlation, client = struct.unpack_from(">hhih", request)
                    said = request[10 + client :]
                    if api == 17:
                        body = struct.pack(">hi", 0, 0)
                    elif api == 36:
                        error, told = _judge(said[4:], server_side)
                        body = struct.pack(">hhi", error, -1, len(told)) + told
                    else:
                        body = b"welcome"
                    answer = struct.pack(">i", correlation) + body
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _load(context: ssl.SSLContext, made: Security) -> None:
    words = dict(line.split("=", 1) for line in made.broker["properties"].splitlines())
    key, own, _ = pkcs12.load_key_and_certificates(
        base64.b64decode(made.broker["keystore"]), words["ssl.keystore.password"].encode()
    )
    assert key is not None
    assert own is not None
    file = made.folder / "server.pem"
    file.write_bytes(
        own.public_bytes(Encoding.PEM)
        + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    context.load_cert_chain(file)


def _read(connection: socket.socket, length: int) -> bytes:
    parts = b""
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionResetError
        parts += part
    return parts


def _judge(message: bytes, scram: "_Scram | None") -> tuple[int, bytes]:
    if scram is None:
        return (0 if message == f"\0{USER}\0{PASSWORD}".encode() else 58), b""
    return scram.answer(message.decode())


class _Scram:
    """The server's side of SCRAM-SHA-512, from RFC 5802."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._salt = b"salt of the earth"

    def answer(self, message: str) -> tuple[int, bytes]:
        if not self._said:
            bare = message.removeprefix("n,,")
            nonce = bare.split("r=")[1]
            salt = base64.b64encode(self._salt).decode()
            told = f"r={nonce}server,s={salt},i=4096"
            self._said = [bare, told]
            return (0 if "n=alice" in bare else 58), told.encode()
        without, proof = message.rsplit(",p=", 1)
        salted = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), self._salt, 4096)
        key = hmac.new(salted, b"Client Key", "sha512").digest()
        stored = hashlib.sha512(key).digest()
        whole = ",".join([*self._said, without]).encode()
        signature = hmac.new(stored, whole, "sha512").digest()
        shown = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        return (0 if shown == key else 58), b""


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("password", [PASSWORD, "guessed"])
def test_who_knows_the_password_is_let_in(secured: Security, mechanism: str, password: str) -> None:
    settings = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism,
        "sasl.username": USER, "sasl.password": password,
    }  # fmt: skip
    with broker(secured, mechanism) as port:
        if password == PASSWORD:
            connection = BrokerSocket(("127.0.0.1", port), settings, timeout_s=60)
            assert connection.ask(3, 1, b"") == b"welcome"
            connection.close()
        else:
            with pytest.raises(ConnectionRefusedError, match="error 58"):
                BrokerSocket(("127.0.0.1", port), settings, timeout_s=60)


def test_plaintext_to_a_broker_that_speaks_tls_is_no_answer(secured: Security) -> None:
    with broker(secured, "PLAIN") as port:
        connection = BrokerSocket(("127.0.0.1", port), {}, timeout_s=60)
        with contextlib.closing(connection), pytest.raises(OSError, match=r".*"):
            connection.ask(18, 0, b"")


def test_a_compose_file_is_shown_without_the_secrets_in_it() -> None:
    login = 'org.PlainLoginModule required user_alice="hush";'
    document = {
        "x-settings": {"KAFKA_LISTENER_NAME_HOST_PLAIN_SASL_JAAS_CONFIG": login},
        "services": {
            "kafka-1": {
                "image": "kafka",
                "environment": {"KAFKA_SSL_KEYSTORE_PASSWORD": "hush", "KAFKA_BROKER_ID": "1"},
                "command": ["sh", "-c", "run --password=hush"],
            }
        },
    }

    shown = without_secrets(document)

    assert "hush" not in str(shown)
    assert shown["services"]["kafka-1"]["environment"]["KAFKA_BROKER_ID"] == "1"
    assert shown["services"]["kafka-1"]["image"] == "kafka"
    assert "hush" in str(document), "what is started stays as it is"
