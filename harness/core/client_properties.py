"""A user's client.properties: Kafka's own names for how a client gets in, as librdkafka's settings.

Source: Kafka's ssl.* and sasl.* client configs; librdkafka's CONFIGURATION.md.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.core.errors import UsageError

Config = dict[str, str]

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ALIKE = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "ssl.key.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
    }
)
"""What librdkafka calls as Kafka does, and its own names for what Kafka has none for."""
_FILES = frozenset(
    {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"}
)
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_PIECE = re.compile(r"((?:[^\\:=\s]|\\.)*)\s*[:=]?\s*(.*)", re.DOTALL)


def read_client_properties(path: Path) -> Config:
    """Return librdkafka's settings for the security settings in a file.

    Args:
        path: a file of Java properties, as Kafka's own tools take it by `--command-config`.

    Raises:
        UsageError: it cannot be read, or holds what librdkafka has nothing for; the setting is
            named, and its value is not.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise UsageError(f"The client properties {path} cannot be read: {reason}.") from error
    given = _properties(text)
    config: Config = {}
    for name, value in given.items():
        if name in _ALIKE:
            config[name] = value
        elif name in _TRANSLATED:
            config |= _TRANSLATED[name](value, given, path)
        elif name != "bootstrap.servers":
            raise UsageError(
                f"{path} sets {name}, which is none of a client's security settings that "
                "librdkafka has. Only those are taken from the file: leave it out."
            )
    protocol = config.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise UsageError(
            f"{path} sets security.protocol to {protocol}: it is one of {', '.join(_PROTOCOLS)}."
        )
    config["security.protocol"] = protocol
    for name in sorted(config.keys() & _FILES):
        # librdkafka's "probe" is no file.
        if config[name] != "probe" and not Path(config[name]).exists():
            raise UsageError(f"{path} sets {name} to {config[name]}, and there is no such file.")
    # Java takes an empty text for "none".
    if config.get("ssl.endpoint.identification.algorithm") == "":
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config


def _properties(text: str) -> dict[str, str]:
    """Return what a file of Java properties holds (java.util.Properties.load)."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    lines = (line.strip() for line in joined.splitlines())
    pieces = (_PIECE.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_unescaped(piece[1]): _unescaped(piece[2]) for piece in pieces if piece}


def _unescaped(text: str) -> str:
    special = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
    return re.sub(r"\\(.)", lambda found: special.get(found[1], found[1]), text)


def _login(value: str, given: Mapping[str, str], path: Path) -> Config:
    del given
    if not any(module in value for module in _LOGIN_MODULES):
        raise UsageError(
            f"sasl.jaas.config in {path} names none of {', '.join(_LOGIN_MODULES)}: other ways "
            "to log in are not translated. Give librdkafka's own settings."
        )
    found = {
        name: next(text for text in texts if text is not None)
        for name, *texts in (
            (match[1], match[2], match[3], match[4]) for match in _LOGIN.finditer(value)
        )
    }
    if set(found) != {"username", "password"}:
        raise UsageError(f"sasl.jaas.config in {path} does not hold both username and password.")
    return {f"sasl.{name}": _unescaped(text) for name, text in found.items()}


def _trusted(value: str, given: Mapping[str, str], path: Path) -> Config:
    kind = given.get("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        raise UsageError(
            f"ssl.truststore.location in {path} names a store of type {kind}, which librdkafka "
            "cannot read: export its certificates as PEM (keytool -exportcert -rfc) and set "
            "ssl.truststore.type=PEM."
        )
    return {"ssl.ca.location": value}


def _own(value: str, given: Mapping[str, str], path: Path) -> Config:
    kind = given.get("ssl.keystore.type", "JKS").upper()
    if kind == "PKCS12":
        password = given.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": value, "ssl.keystore.password": password}
    if kind == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    raise UsageError(
        f"ssl.keystore.location in {path} names a store of type {kind}, which librdkafka cannot "
        "read: make it PKCS12 (keytool -importkeystore -deststoretype PKCS12) and set "
        "ssl.keystore.type=PKCS12."
    )


def _passed_over(value: str, given: Mapping[str, str], path: Path) -> Config:
    del value, given, path
    return {}


_TRANSLATED: Mapping[str, Callable[[str, Mapping[str, str], Path], Config]] = {
    "sasl.jaas.config": _login,
    "ssl.truststore.location": _trusted,
    "ssl.truststore.certificates": lambda value, *_: {"ssl.ca.pem": value},
    "ssl.keystore.location": _own,
    "ssl.keystore.certificate.chain": lambda value, *_: {"ssl.certificate.pem": value},
    "ssl.keystore.key": lambda value, *_: {"ssl.key.pem": value},
    # Read together with the location that they belong to.
    "ssl.truststore.type": _passed_over,
    "ssl.truststore.password": _passed_over,
    "ssl.keystore.type": _passed_over,
    "ssl.keystore.password": _passed_over,
}
