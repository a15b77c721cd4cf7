"""Finding out, by trying, whether this machine can run what a run needs."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken, WaitTimeout
from harness.core.progress import Say
from harness.machine import images, install
from harness.machine.agent_check import try_agent
from harness.machine.programs import last_words, run, run_checked

_FIRST_JAVA = 17
_CLI_S = 30
_SPARK_S = 180

_SPARK_TRIAL = """
import os
os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
from pyspark.sql import SparkSession
session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
           .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
           .getOrCreate())
print("counted", session.range(10).count(), "with", session.version)
session.stop()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of trying one thing.

    Attributes:
        name: what was tried.
        ok: it works.
        detail: what was seen; if it does not work, the reason.
        cost: what cannot be done without it.
        remedy: how to get it.
    """

    name: str
    ok: bool
    detail: str
    cost: str
    remedy: str

    def line(self) -> str:
        """Return the finding as one line for a person."""
        if self.ok:
            return f"ok       {self.name}: {self.detail}"
        return (
            f"missing  {self.name}: {self.detail}\n"
            f"         costs: {self.cost}\n         get it: {self.remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing to try.

    Attributes:
        name: what is tried.
        cost: what cannot be done without it.
        remedy: how to get it.
        attempt: tries it and returns what was seen; raises EnvironmentBroken if it does not work.
        repair: installs what is missing; None if nothing can be installed.
        needs: names of checks without which trying makes no sense.
        quick: it is tried even if it passed before.
    """

    name: str
    cost: str
    remedy: str
    attempt: Callable[[Say], str]
    repair: Callable[[Say], None] | None = None
    needs: tuple[str, ...] = ()
    quick: bool = False


def diagnose(
    *, fix: bool, quick: bool, say: Say, versions: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Try everything that a run needs.

    Args:
        fix: install or start what is missing, where we may.
        quick: trust what passed before on this machine with the same engine, images and Java; the
            engine is asked and the images are looked for in any case.
        say: is told what is tried, and each finding.
        versions: of Kafka, whose images are built besides that of the default version.

    Returns:
        One finding for each thing tried, in order.
    """
    known = _remembered() if quick else {}
    findings = examine(checks(versions), fix=fix, say=say, trusted=known)
    if all(finding.ok for finding in findings):
        _remember(findings)
    return findings


def checks(versions: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return what is tried, in order: what others need comes first.

    Args:
        versions: of Kafka, whose images are built besides that of the default version.
    """
    return (
        Check(
            name="Docker engine",
            cost="no cluster can be started; `verify`, `report` and `plan` work without it",
            remedy="apt-get install docker.io (or start it: systemctl start docker)",
            attempt=_try_engine,
            repair=lambda say: install.provide_engine(say=say),
            quick=True,
        ),
        Check(
            name="Compose v2",
            cost="no cluster can be started",
            remedy="the package docker-compose-v2 (Ubuntu), docker-compose-plugin (Docker's own "
            "repository) or Debian 13's docker-compose",
            attempt=_try_compose,
            repair=lambda say: install.provide_compose(say=say),
            needs=("Docker engine",),
            quick=True,
        ),
        Check(
            name="images",
            cost="no cluster can be started, unless with images of one's own",
            remedy="a registry or debootstrap (apt-get install debootstrap) for the base; "
            "Maven Central and a Debian mirror for the rest",
            attempt=lambda say: _try_images(versions, say),
            repair=lambda say: install.provide_debootstrap(say=say),
            needs=("Docker engine",),
            quick=True,
        ),
        Check(
            name="fault agent",
            cost="no fault can be injected",
            remedy="an engine that grants NET_ADMIN, SYS_ADMIN and SYS_PTRACE and the host's pid "
            "namespace (not a rootless one), and a kernel with iptables' filter table",
            attempt=lambda _: try_agent(images.agent_image(), images.base_image()),
            needs=("images",),
        ),
        Check(
            name="Java",
            cost="no run can be verified; a cluster can be started and broken",
            remedy="apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
            attempt=_try_java,
            repair=lambda say: install.provide_java(say=say),
        ),
        Check(
            name="Spark",
            cost="no run can be verified",
            remedy="a Java that PySpark accepts (17 or 21), and `pip install pyspark` again",
            attempt=_try_spark,
            needs=("Java",),
        ),
        Check(
            name="Spark class archive",
            cost="each verification takes some seconds longer",
            remedy="200 MB of room in the cache folder",
            attempt=_try_archive,
            needs=("Java", "Spark"),
        ),
    )


def examine(
    wanted: Sequence[Check], *, fix: bool, say: Say, trusted: dict[str, str] | None = None
) -> tuple[Finding, ...]:
    """Try each check, once more after a repair, and say each finding.

    Args:
        wanted: the checks, in order.
        fix: repair what fails.
        say: is told each finding.
        trusted: details of checks that passed before, by name; those that are not `quick` are
            then not tried again.
    """
    findings: dict[str, Finding] = {}
    for check in wanted:
        lacking = [name for name in check.needs if name in findings and not findings[name].ok]
        if lacking:
            ok, detail = False, f"not tried, for it needs: {lacking[0]}"
        elif trusted and check.name in trusted and not check.quick:
            ok, detail = True, f"{trusted[check.name]} (tried before)"
        else:
            ok, detail = _try(check, fix=fix, say=say)
        finding = Finding(
            name=check.name, ok=ok, detail=detail, cost=check.cost, remedy=check.remedy
        )
        findings[check.name] = finding
        say(finding.line())
    return tuple(findings.values())


def _try(check: Check, *, fix: bool, say: Say) -> tuple[bool, str]:
    """Return whether a check passed, and what was seen or what is wrong."""
    try:
        return True, check.attempt(say)
    except (EnvironmentBroken, WaitTimeout) as error:
        reason = str(error)
    if fix and check.repair is not None:
        say(f"fixing   {check.name}: {reason}")
        try:
            check.repair(say)
        except (EnvironmentBroken, WaitTimeout) as error:
            reason = f"{reason}\n         not fixed: {error}"
        else:
            return _try(check, fix=False, say=say)
    return False, reason


def _try_engine(_: Say) -> str:
    return run_checked(
        ["docker", "version", "--format", "{{.Server.Version}}, API {{.Server.APIVersion}}"],
        timeout_s=_CLI_S,
        purpose="ask the engine for its version",
    )


def _try_compose(_: Say) -> str:
    done = run(["docker", "compose", "version", "--short"], timeout_s=_CLI_S)
    version = done.stdout.strip().removeprefix("v")
    if done.returncode != 0 or not re.match(r"[2-9]\.|\d\d+\.", version):
        raise EnvironmentBroken("the Docker CLI has no Compose plug-in of version 2 or later")
    return version


def _try_images(versions: Sequence[str], say: Say) -> str:
    # Looking first keeps a machine whose images are all there from needing a network at all.
    agent = images.ensure_agent_image(say=say)
    # The default version once, though it be named again.
    wanted = dict.fromkeys((images.DEFAULT_KAFKA, *versions))
    brokers = [images.ensure_broker_image(kafka, say=say) for kafka in wanted]
    return ", ".join((*brokers, agent))


def _java() -> Path | None:
    """Return the java that Spark will start: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None


def _try_java(_: Say) -> str:
    java = _java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        place = f"in JAVA_HOME ({home}), which Spark would use" if home else "on PATH"
        raise EnvironmentBroken(f"there is no java {place}")
    told = run([str(java), "-version"], timeout_s=_CLI_S).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < _FIRST_JAVA:
        first = told.strip().splitlines()[:1]
        raise EnvironmentBroken(f"{java} is not Java {_FIRST_JAVA} or later: {first}")
    return f"{version[1]}, {java}"


def _try_spark(_: Say) -> str:
    done = run([sys.executable, "-c", _SPARK_TRIAL], timeout_s=_SPARK_S)
    if done.returncode != 0 or not done.stdout.strip().startswith("counted 10"):
        raise EnvironmentBroken(f"a local session did not count ten rows: {last_words(done)}")
    return f"PySpark {done.stdout.split()[-1]}, a local session counted ten rows"


def _try_archive(say: Say) -> str:
    """Make the archive if there is none; a run can do without, so failing is no finding."""
    say("making   Spark class archive, unless it is there")
    try:
        made = run_checked(
            [sys.executable, "-m", "verifiers.judging.warm_up"],
            timeout_s=_SPARK_S,
            purpose="make a class archive for Spark",
        )
    except EnvironmentBroken as error:
        return f"none, so each verification takes some seconds longer ({error})"
    return made


def _stamp() -> Path:
    return cache_folder() / "doctor.json"


def _fingerprint() -> str:
    """Return what the checks that may be skipped depend on."""
    engine = run_checked(
        ["docker", "info", "--format", "{{.ID}} {{.ServerVersion}}"],
        timeout_s=_CLI_S,
        purpose="ask the engine who it is",
    )
    broker = images.broker_image(images.DEFAULT_KAFKA)
    return " ".join([engine, images.agent_image(), broker, str(_java()), sys.prefix])


def _remembered() -> dict[str, str]:
    try:
        stamp = json.loads(_stamp().read_text(encoding="utf-8"))
        return dict(stamp["details"]) if stamp["fingerprint"] == _fingerprint() else {}
    except (OSError, ValueError, KeyError, TypeError, EnvironmentBroken):
        # No stamp, a damaged one, or no engine to compare it with: everything is tried.
        return {}


def _remember(findings: Sequence[Finding]) -> None:
    details = {finding.name: finding.detail.removesuffix(" (tried before)") for finding in findings}
    stamp = {"fingerprint": _fingerprint(), "details": details}
    _stamp().write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
