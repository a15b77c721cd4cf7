"""The images that a cluster is made of, built once and named by their content.

An image is tagged with a hash of its recipe (the folder in `compose/`): a changed recipe is a new
image, an unchanged one is never built twice. Where no registry can be reached, the Debian base
is made on the spot with debootstrap.
"""

import functools
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken, UsageError
from harness.core.progress import Say
from harness.core.version import numbers
from harness.machine.build_lock import build_lock
from harness.machine.programs import last_words, run, run_checked, run_logged

DEFAULT_KAFKA = "4.3.1"

_BASE_SOURCE = "debian:bookworm-slim"
_BASE_RECIPE = "debian bookworm minbase 1"
_GROUP = "org.apache.kafka"
_FIRST = (0, 10, 2)
# Between them these two were published with every version since.
_BROKERS = ("kafka_2.12", "kafka_2.13")
_TOOLS = "kafka-tools-api"
_FIRST_TOOLS_API = (3, 5)

_PULL_S = 90
_DEBOOTSTRAP_S = 900
_BUILD_S = 1800
_LOCK_S = 2 * _BUILD_S
_CLI_S = 60
_LIST_S = 50


def compose_folder() -> Path:
    """Return the folder of templates and image recipes: the checkout's, else the wheel's.

    Raises:
        EnvironmentBroken: the installation has neither.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "compose", package / "_compose"):
        if (folder / "broker" / "Dockerfile").is_file():
            return folder
    raise EnvironmentBroken(
        f"The image recipes are missing from {package}: install kafka-chaos again, or run it from "
        "its checkout."
    )


def base_image() -> str:
    """Return the tag of the Debian base, whether or not it exists yet."""
    return f"kafka-chaos/base:{_short_hash([_BASE_RECIPE.encode()])}"


def agent_image() -> str:
    """Return the tag of the fault-agent image, whether or not it exists yet."""
    return f"kafka-chaos/agent:{recipe_hash('agent')}"


def broker_image(kafka: str) -> str:
    """Return the tag of the broker image of a Kafka version, whether or not it exists yet."""
    return f"kafka-chaos/broker:{kafka}-{recipe_hash('broker')}"


@functools.cache
def recipe_hash(recipe: str) -> str:
    """Return 12 hex digits of everything that decides the content of an image.

    Args:
        recipe: name of a folder in `compose/`. Documents (`*.md`) in it do not count.
    """
    return hash_folder(compose_folder() / recipe)


def hash_folder(folder: Path) -> str:
    """Return 12 hex digits of the names and contents of a recipe's files.

    Who may execute them does not count: a wheel does not keep it, and `copy_recipe` decides it.
    """
    parts = [_BASE_RECIPE.encode()]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _belongs(path):
            parts += [path.relative_to(folder).as_posix().encode(), path.read_bytes()]
    return _short_hash(parts)


def copy_recipe(folder: Path, context: Path) -> None:
    """Copy a recipe for the builder; files that begin with `#!` are programs, and no others."""
    ignore = shutil.ignore_patterns("__pycache__", "*.md")
    shutil.copytree(folder, context, ignore=ignore, copy_function=shutil.copyfile)
    for path in context.rglob("*"):
        is_program = path.is_dir() or path.read_bytes().startswith(b"#!")
        path.chmod(0o755 if is_program else 0o644)


def image_exists(tag: str) -> bool:
    """Ask the engine whether it has an image.

    Raises:
        EnvironmentBroken: the engine does not answer.
    """
    done = _docker(["image", "inspect", "--format", "{{.Id}}", tag])
    if done.returncode == 0:
        return True
    if "no such image" in done.stderr.lower():
        return False
    raise EnvironmentBroken(
        f"The Docker engine does not answer ({done.stderr.strip()}): `kafka-chaos doctor --fix` "
        "installs or starts it."
    )


def ensure_base_image(*, say: Say) -> str:
    """Return the tag of the Debian base, pulled or made with debootstrap if it is missing.

    Raises:
        EnvironmentBroken: neither way works on this machine; the message says why.
    """
    tag = base_image()
    if image_exists(tag):
        return tag
    with build_lock("base", what="the base image", limit_s=_LOCK_S):
        if image_exists(tag):
            return tag
        if _pulled(say):
            run_checked(
                ["docker", "tag", _BASE_SOURCE, tag], timeout_s=_CLI_S, purpose=f"name {tag}"
            )
        else:
            _debootstrap(tag, say)
    return tag


def ensure_agent_image(*, say: Say) -> str:
    """Return the tag of the fault-agent image, built if it is missing.

    Raises:
        EnvironmentBroken: the build failed; the message names its log and shows its last lines.
    """
    return _ensure(agent_image(), "agent", {}, "the fault-agent image", say)


def ensure_broker_image(kafka: str, *, say: Say) -> str:
    """Return the tag of the broker image of a Kafka version, built if it is missing.

    Args:
        kafka: a version of Apache Kafka on Maven Central since 0.10.2, such as "4.3.1".
        say: is told what is being built, and every few seconds how far it is.

    Raises:
        UsageError: there is no such version; the message lists those there are.
        EnvironmentBroken: Maven Central or the engine did not answer, or the build failed.
    """
    reject_unknown_kafka(kafka, say=say)
    arguments = {"KAFKA_VERSION": kafka}
    what = f"the broker image of Kafka {kafka}"
    return _ensure(broker_image(kafka), "broker", arguments, what, say)


def reject_unknown_kafka(kafka: str, *, say: Say) -> None:
    """Refuse a version that no broker image could be built of; one that is built is known.

    Args:
        kafka: what was asked for.
        say: is told if Maven has to be asked.

    Raises:
        UsageError: it is no version, or there is none such; the message lists those there are.
        EnvironmentBroken: Maven or the engine did not answer.
    """
    if not re.fullmatch(r"\d+(\.\d+){1,3}", kafka):
        raise UsageError(f"{kafka!r} is no Kafka version: write it in full, as in 4.3.1.")
    if image_exists(broker_image(kafka)):
        return
    versions = kafka_versions(say)
    if kafka not in versions:
        raise UsageError(
            f"Maven has no Kafka {kafka} that can be started here. "
            f"There are: {', '.join(versions)}."
        )


@functools.cache
def kafka_versions(say: Say) -> list[str]:
    """Return the Kafka versions that a broker image can be built of, oldest first.

    A release whose command-line tools are incomplete is left out. Maven is asked once a process.

    Raises:
        EnvironmentBroken: Maven did not answer.
    """
    tag = f"kafka-chaos/maven:{recipe_hash('maven')}"
    _ensure(tag, "maven", {}, "Maven, to ask for the versions of Kafka", say)
    artifacts = (*_BROKERS, _TOOLS)
    say(f"Asking Maven which versions of Kafka there are (at most {_LIST_S} s).")
    lines = run_checked(
        ["docker", "run", "--rm", "--network", "host", "--label", "kafka-chaos=1", tag,
         *(f"{_GROUP}:{artifact}" for artifact in artifacts)],
        timeout_s=_LIST_S,
        purpose="ask Maven which versions of Kafka there are; check the network and its proxy",
    ).splitlines()  # fmt: skip
    published: dict[str, list[str]] = {artifact: [] for artifact in artifacts}
    for line in lines:
        artifact, _, version = line.partition(" ")
        if re.fullmatch(r"[\d.]+", version):
            published[artifact].append(version)
    brokers = {version for artifact in _BROKERS for version in published[artifact]}
    return usable_versions(sorted(brokers), published[_TOOLS])


def usable_versions(published: Sequence[str], with_tools: Sequence[str]) -> list[str]:
    """Return the versions that can be started here, oldest first.

    Args:
        published: versions of the broker itself.
        with_tools: versions whose tools are complete; this counts from 3.5 on.
    """
    return [
        version
        for version in sorted(published, key=numbers)
        if numbers(version) >= _FIRST
        and (numbers(version) < _FIRST_TOOLS_API or version in with_tools)
    ]


@functools.cache
def _pulled(say: Say) -> bool:
    """Try to pull the base once a process: a registry that said no will say no again."""
    say(f"Pulling {_BASE_SOURCE} (at most {_PULL_S} s) …")
    started = time.monotonic()
    try:
        done = _docker(["pull", "--quiet", _BASE_SOURCE], timeout_s=_PULL_S)
    except EnvironmentBroken as error:
        reason = str(error)
    else:
        if done.returncode == 0:
            return True
        reason = last_words(done)
    say(f"No registry after {time.monotonic() - started:.0f} s: {reason}")
    return False


def _debootstrap(tag: str, say: Say) -> None:
    if shutil.which("debootstrap") is None:
        raise EnvironmentBroken(
            f"{_BASE_SOURCE} could not be pulled, and debootstrap is not there to make it: "
            "apt-get install debootstrap, or give the engine a registry."
        )
    if os.geteuid() != 0:
        raise EnvironmentBroken(
            f"{_BASE_SOURCE} could not be pulled, and making it with debootstrap needs root: run "
            "`kafka-chaos doctor --fix` as root once, or give the engine a registry."
        )
    log = cache_folder() / "build-base.log"
    # Not below /tmp: it may be mounted without device files or execution.
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-base-", dir="/var/tmp") as root:
        run_logged(
            ["debootstrap", "--variant=minbase", "bookworm", root],
            log=log,
            timeout_s=_DEBOOTSTRAP_S,
            what="the Debian base (debootstrap)",
            say=say,
        )
        archive = Path(root).with_suffix(".tar")
        try:
            run_checked(
                ["tar", "--create", "--file", str(archive), "--directory", root,
                 "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*",
                 "--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*",
                 "--exclude=./usr/share/doc/*", "--exclude=./usr/share/man/*",
                 "--exclude=./usr/share/locale/*", "."],
                timeout_s=_DEBOOTSTRAP_S,
                purpose="pack the Debian base",
            )  # fmt: skip
            run_checked(
                ["docker", "import", "--change", "LABEL kafka-chaos=1",
                 "--change", 'CMD ["bash"]', str(archive), tag],
                timeout_s=_DEBOOTSTRAP_S,
                purpose="import the Debian base",
            )  # fmt: skip
        finally:
            archive.unlink(missing_ok=True)


def _ensure(tag: str, recipe: str, arguments: dict[str, str], what: str, say: Say) -> str:
    """Return a tag, of an image that is built by a recipe if it is missing."""
    if image_exists(tag):
        return tag
    base = ensure_base_image(say=say)
    log = cache_folder() / f"build-{tag.rpartition('/')[2].replace(':', '-')}.log"
    with (
        build_lock(recipe, what=f"the {recipe} image", limit_s=_LOCK_S),
        tempfile.TemporaryDirectory(prefix="kafka-chaos-build-") as folder,
    ):
        if image_exists(tag):
            return tag
        context = Path(folder) / "context"
        copy_recipe(compose_folder() / recipe, context)
        _write_certificates(context / "certificates")
        command = ["docker", "build", "--network", "host", "--tag", tag, "--label", "kafka-chaos=1"]
        for name, value in ({"BASE": base} | arguments).items():
            command += ["--build-arg", f"{name}={value}"]
        for name in ("http_proxy", "https_proxy", "no_proxy"):
            if value := os.environ.get(name) or os.environ.get(name.upper(), ""):
                command += ["--build-arg", f"{name}={value}"]
        run_logged(
            [*command, str(context)],
            log=log,
            timeout_s=_BUILD_S,
            what=what,
            say=say,
            environment=_builder_environment(),
        )
    return tag


def _write_certificates(folder: Path) -> None:
    """Lay out this machine's trusted authorities as files that `update-ca-certificates` takes."""
    folder.mkdir()
    # A copied folder must not be empty for every builder.
    (folder / "README").write_text("The authorities that the building machine trusts.\n")
    bundle = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    try:
        text = Path(bundle).read_text(encoding="utf-8")
    except OSError:
        return
    blocks = re.findall(r"-+BEGIN CERTIFICATE-+.*?-+END CERTIFICATE-+\n?", text, re.DOTALL)
    for block in set(blocks):
        name = hashlib.sha256(block.encode()).hexdigest()[:16]
        (folder / f"{name}.crt").write_text(block)


def _builder_environment() -> dict[str, str]:
    """Choose the classic builder where the CLI lacks the plug-in that BuildKit needs."""
    if _docker(["buildx", "version"]).returncode == 0:
        return {}
    return {"DOCKER_BUILDKIT": "0"}


def _belongs(path: Path) -> bool:
    return path.suffix != ".md" and "__pycache__" not in path.parts


def _short_hash(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:12]


def _docker(
    arguments: Sequence[str], *, timeout_s: float = _CLI_S
) -> subprocess.CompletedProcess[str]:
    return run(["docker", *arguments], timeout_s=timeout_s)
