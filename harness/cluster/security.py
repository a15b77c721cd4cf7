"""What a cluster of ours with TLS or SASL is given: certificates, passwords, files of clients.

Brokers get their secrets from Compose, which puts them into the containers; clients read theirs
from files in a folder that only their owner may read, outside all run folders, and gone with the
cluster.
"""

import base64
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from harness.core.access import Access
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken

_LASTS = timedelta(days=30)
_FOLDER = "kafka-chaos-clients-"
_MODULES = "org.apache.kafka.common.security"
_SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_ITERATIONS = 4096
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The secrets of one cluster of ours.

    Attributes:
        folder: holds the files of clients; only their owner may read it.
        broker: what Compose puts into each broker's container, by name.
        mechanism: by which clients log in; None: they do not.
        user: of the clients.
        password: of that user.
    """

    folder: Path
    broker: Mapping[str, str]
    mechanism: str | None
    user: str
    password: str

    @property
    def client_properties(self) -> Path:
        """The file by which clients get in."""
        return self.folder / "client.properties"

    @property
    def admin_properties(self) -> Path:
        """The file by which somebody gets in before the clients' user was made."""
        return self.folder / "admin.properties"

    @property
    def is_made_later(self) -> bool:
        """Whether the clients' user can be made only once the brokers are there."""
        return self.mechanism in _SCRAM

    def make_user(self, admin: Access) -> None:
        """Make the clients' user, if it has to be made (KIP-554).

        Raises:
            ClusterBroken: the brokers do not let us.
        """
        if not self.is_made_later:
            return
        assert self.mechanism is not None  # noqa: S101 (of SCRAM)
        credential = ScramCredentialInfo(_SCRAM[self.mechanism], _ITERATIONS)
        change = UserScramCredentialUpsertion(self.user, credential, self.password.encode())
        client = AdminClient({**admin.config()})

        @retry(
            retry=retry_if_exception_type(KafkaException),
            stop=stop_after_delay(_ANSWER_S),
            wait=wait_fixed(0.5),
            reraise=True,
        )
        def make() -> None:
            (made,) = client.alter_user_scram_credentials([change]).values()
            made.result(timeout=_ANSWER_S)

        try:
            make()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            raise ClusterBroken(f"The brokers made no SCRAM user: {reason.str()}") from error

    def remove(self) -> None:
        """Remove the files of clients."""
        shutil.rmtree(self.folder, ignore_errors=True)


def make_security(spec: ClusterSpec) -> Security | None:
    """Return new secrets for a cluster; None if whoever comes is let in."""
    if spec.security == "plaintext":
        return None
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    mechanism = spec.sasl.upper() if spec.security.startswith("sasl") else None
    admin, client = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    broker: dict[str, str] = {}
    settings: list[str] = []
    trust: list[str] = []
    if spec.security.endswith("ssl"):
        authority, store, password = _certificates()
        (folder / "ca.pem").write_bytes(authority)
        trust = [
            f"ssl.truststore.location={folder / 'ca.pem'}",
            "ssl.truststore.type=PEM",
        ]
        broker["keystore"] = base64.b64encode(store).decode()
        settings += [
            "ssl.keystore.location=/run/kafka-chaos/keystore.p12",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.password={password}",
            f"ssl.key.password={password}",
        ]
    plain = f"{_MODULES}.plain.PlainLoginModule"
    scram = f"{_MODULES}.scram.ScramLoginModule"
    if mechanism:
        settings.append(f"sasl.enabled.mechanisms={','.join(dict.fromkeys(['PLAIN', mechanism]))}")
        users = f'user_admin="{admin}"'
        if mechanism == "PLAIN":
            users += f' user_client="{client}"'
        also = "" if mechanism == "PLAIN" else f"  {scram} required;\n"
        broker["jaas"] = f"KafkaServer {{\n  {plain} required {users};\n{also}}};\n"
    broker["properties"] = "".join(f"{line}\n" for line in settings)
    made = Security(
        folder=folder, broker=broker, mechanism=mechanism, user="client", password=client
    )

    def write(path: Path, user: str, password: str, how: str | None) -> None:
        lines = [f"security.protocol={spec.security.upper()}", *trust]
        if how:
            module = plain if how == "PLAIN" else scram
            lines += [
                f"sasl.mechanism={how}",
                f'sasl.jaas.config={module} required username="{user}" password="{password}";',
            ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    write(made.client_properties, "client", client, mechanism)
    write(made.admin_properties, "admin", admin, mechanism and "PLAIN")
    return made


def _certificates() -> tuple[bytes, bytes, str]:
    """Return an authority's certificate (PEM), a broker's store (PKCS12), and its password.

    All brokers share a certificate, for clients reach each of them on 127.0.0.1.
    """
    now = datetime.now(UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka-chaos authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka-chaos broker")])

    def signed(name: x509.Name, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType,
               *, critical: bool) -> x509.Certificate:  # fmt: skip
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _LASTS)
            .add_extension(extension, critical=critical)
            .sign(authority_key, hashes.SHA256())
        )

    authority = signed(
        issuer, authority_key.public_key(), x509.BasicConstraints(ca=True, path_length=None),
        critical=True,
    )  # fmt: skip
    places = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    own = signed(subject, key.public_key(), x509.SubjectAlternativeName(places), critical=False)
    password = secrets.token_urlsafe(24)
    store = pkcs12.serialize_key_and_certificates(
        b"broker", key, own, [authority], BestAvailableEncryption(password.encode())
    )
    return authority.public_bytes(Encoding.PEM), store, password
