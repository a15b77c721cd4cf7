"""A connection to one broker, as Kafka's protocol goes over it: TLS and SASL included.

Source: KIP-43 (SaslHandshake), KIP-152 (SaslAuthenticate); RFC 4616 (PLAIN); RFC 5802 (SCRAM).
"""

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Mapping

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CLIENT = b"kafka-chaos"
_CORRELATION = 0x6B63
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

Address = tuple[str, int]
"""Host and port."""


class BrokerSocket:
    """A connection to a broker.

    Args:
        address: where it listens.
        security: librdkafka's security settings; empty: none are needed.
        timeout_s: for the connection, and for each answer.

    Raises:
        OSError: there is none, or the broker does not let us in.
    """

    def __init__(self, address: Address, security: Mapping[str, str], *, timeout_s: float) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        protocol = security.get("security.protocol", "PLAINTEXT")
        try:
            if protocol.endswith("SSL"):
                context = _tls(security)
                self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
            if protocol.startswith("SASL"):
                _log_in(self.ask, security)
        except (KeyError, ValueError, struct.error) as error:
            self.close()
            raise ConnectionRefusedError(f"{security.get('sasl.mechanism')}: {error!r}") from error
        except OSError:
            self.close()
            raise

    def ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send a request with the old kind of header, and return the answer behind its own.

        Raises:
            OSError: there is no answer.
        """
        header = struct.pack(">hhih", api, version, _CORRELATION, len(_CLIENT)) + _CLIENT
        self._socket.sendall(struct.pack(">i", len(header + body)) + header + body)
        length, correlation = struct.unpack(">ii", self._read(8))
        if correlation != _CORRELATION:
            raise ConnectionAbortedError("What came back is no answer of Kafka's.")
        return self._read(length - 4)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _read(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._socket.recv(length - len(parts))
            if not part:
                raise ConnectionResetError("The broker went away.")
            parts += part
        return bytes(parts)


def _tls(security: Mapping[str, str]) -> ssl.SSLContext:
    # Who answers on a port of ours is no question here: librdkafka checks certificates as told.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate := security.get("ssl.certificate.location"):
        key = security.get("ssl.key.location")
        context.load_cert_chain(certificate, key, security.get("ssl.key.password"))
    return context


def _log_in(ask: Callable[[int, int, bytes], bytes], security: Mapping[str, str]) -> None:
    mechanism = security.get("sasl.mechanism", "PLAIN")
    name = mechanism.encode()
    answer = ask(_SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
    _reject_error(answer)

    def authenticate(message: bytes) -> bytes:
        answer = ask(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(message)) + message)
        _reject_error(answer)
        (length,) = struct.unpack_from(">h", answer, 2)
        return answer[4 + max(0, length) + 4 :]

    user, password = security["sasl.username"], security["sasl.password"]
    if mechanism == "PLAIN":
        authenticate(f"\0{user}\0{password}".encode())
    else:
        _scram(authenticate, _HASHES[mechanism], user, password)


def _reject_error(answer: bytes) -> None:
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise ConnectionRefusedError(f"The broker did not let us in: error {error}.")


def _scram(authenticate: Callable[[bytes], bytes], digest: str, user: str, password: str) -> None:
    """Log in by SCRAM, as RFC 5802 has it, without channel binding."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={secrets.token_hex(16)}"
    asked = authenticate(f"n,,{first}".encode()).decode()
    told = dict(part.split("=", 1) for part in asked.split(","))
    salted = hashlib.pbkdf2_hmac(
        digest, password.encode(), base64.b64decode(told["s"]), int(told["i"])
    )
    key = _signed(salted, b"Client Key", digest)
    last = f"c=biws,r={told['r']}"
    stored = hashlib.new(digest, key).digest()
    signature = _signed(stored, f"{first},{asked},{last}".encode(), digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    authenticate(f"{last},p={base64.b64encode(proof).decode()}".encode())


def _signed(key: bytes, text: bytes, digest: str) -> bytes:
    return hmac.new(key, text, digest).digest()
