"""Installing what a run needs: on Debian and Ubuntu, as root; elsewhere a word on how to do it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken, WaitTimeout
from harness.core.progress import Say
from harness.core.wait import wait_until
from harness.machine.programs import last_words, run, run_checked, run_logged, tail

_APT_S = 900
_ENGINE_S = 60
_PLUGIN_FOLDER = Path("/usr/local/lib/docker/cli-plugins")
_MIRROR_QUESTION = "$(LABEL)|$(COMPONENT)|$(REPO_URI)"


def may_install() -> bool:
    """Tell whether packages can be installed from here: apt, and root."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(packages: Sequence[str], *, say: Say) -> None:
    """Install Debian packages.

    Raises:
        EnvironmentBroken: we may not, apt is missing, or it failed.
    """
    if not may_install():
        raise EnvironmentBroken(
            f"Installing needs root and apt: `apt-get install {' '.join(packages)}`."
        )
    install = ["install", "-y", "--no-install-recommends", *packages]
    for words, what in (
        (["update"], "the list of packages up to date"),
        (install, f"{', '.join(packages)} available"),
    ):
        run_logged(
            ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *words],
            log=cache_folder() / f"apt-{words[0]}.log",
            timeout_s=_APT_S,
            what=what,
            say=say,
            environment={"DEBIAN_FRONTEND": "noninteractive"},
        )


def provide_engine(*, say: Say) -> None:
    """Install the Docker engine if there is none, start it, and wait until it answers.

    Raises:
        EnvironmentBroken: it is somewhere else (`DOCKER_HOST`), or did not come up; the message
            shows the last lines of its log.
    """
    if host := os.environ.get("DOCKER_HOST"):
        raise EnvironmentBroken(
            f"DOCKER_HOST names the engine {host}, which does not answer: start it there, or unset "
            "DOCKER_HOST."
        )
    if shutil.which("dockerd") is None or shutil.which("docker") is None:
        install_packages(["docker.io", "iptables"], say=say)
    if os.geteuid() != 0:
        raise EnvironmentBroken(
            "Starting the Docker engine needs root: `systemctl start docker`. If it runs, join "
            "its group: `usermod --append --groups docker $USER`, then log in again."
        )
    log = cache_folder() / "dockerd.log"
    if Path("/run/systemd/system").is_dir():
        say("Starting the Docker engine with systemd.")
        run_checked(
            ["systemctl", "start", "docker"], timeout_s=_ENGINE_S, purpose="start the engine"
        )
    else:
        say(f"Starting the Docker engine: no init system does it here; log: {log}")
        # If another one is just coming up, this one ends at once.
        # Detached in every way: a pipe that it held open would keep the caller of ours waiting.
        with log.open("ab") as output:
            subprocess.Popen(
                ["dockerd"],  # noqa: S607  # found on PATH above
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
            )
    say(f"Waiting for the Docker engine (at most {_ENGINE_S} s).")
    try:
        wait_until(_engine_answers, timeout_s=_ENGINE_S, what="the Docker engine", interval_s=0.3)
    except WaitTimeout as error:
        words = f"\n{tail(log)}" if log.exists() else ""
        raise EnvironmentBroken(f"The Docker engine did not come up: {error}{words}") from error


def _engine_answers() -> bool:
    try:
        return run(["docker", "version"], timeout_s=20).returncode == 0
    except EnvironmentBroken:
        return False  # an engine that is coming up may hold a question for a while


def provide_compose(*, say: Say) -> None:
    """Install Compose v2 as a plug-in of the Docker CLI.

    Ubuntu and Docker's own repositories have a package. Debian 12 has only version 1, so there the
    one file is taken from Debian 13's package; the machine's package sources stay as they are.

    Raises:
        EnvironmentBroken: we may not, or none of the ways worked.
    """
    if not may_install():
        raise EnvironmentBroken(
            'Installing Compose v2 needs root and apt: see "Install the Docker Compose plugin" '
            "in the Docker manual."
        )
    for package in ("docker-compose-v2", "docker-compose-plugin"):
        if _is_offered(package):
            install_packages([package], say=say)
            return
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-compose-") as folder:
        _unpack_compose(Path(folder), say)


def _debian_mirror() -> str:
    """Return where this machine's apt gets Debian itself from.

    Raises:
        EnvironmentBroken: nowhere: it is another distribution, or has no sources.
    """
    asked = ["apt-get", "indextargets", "--format", _MIRROR_QUESTION, "Created-By: Packages"]
    for line in run(asked, timeout_s=60).stdout.splitlines():
        label, component, uri = line.split("|", 2)
        if (label, component) == ("Debian", "main"):
            return uri
    raise EnvironmentBroken(
        "This machine's apt knows no Debian mirror, so Compose v2 cannot be had from there: see "
        'the Docker manual, "Install the Docker Compose plugin", and run doctor again.'
    )


def _unpack_compose(folder: Path, say: Say) -> None:
    sources = folder / "trixie.list"
    sources.write_text(f"deb {_debian_mirror()} trixie main\n")
    (folder / "lists" / "partial").mkdir(parents=True)
    # apt fetches as a user of its own where it can; it has to get into the folder.
    folder.chmod(0o755)
    apart = [
        "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
        "-o", f"Dir::State::lists={folder / 'lists'}", "-o", "APT::Get::List-Cleanup=0",
        "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
    ]  # fmt: skip
    run_logged(
        ["apt-get", *apart, "update", "-q"],
        log=cache_folder() / "apt-trixie.log",
        timeout_s=_APT_S,
        what="the list of Debian 13's packages",
        say=say,
    )
    say("Fetching docker-compose from Debian 13.")
    done = run(
        ["apt-get", *apart, "download", "-q", "docker-compose"], timeout_s=_APT_S, folder=folder
    )
    package = next(folder.glob("docker-compose_*.deb"), None)
    if package is None:
        raise EnvironmentBroken(f"Could not fetch Debian 13's docker-compose: {last_words(done)}")
    run_checked(
        ["dpkg-deb", "--extract", str(package), str(folder / "tree")],
        timeout_s=120,
        purpose="unpack docker-compose",
    )
    found = next((folder / "tree").rglob("cli-plugins/docker-compose"), None)
    if found is None:
        raise EnvironmentBroken("Debian 13's docker-compose holds no CLI plug-in any more.")
    _PLUGIN_FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy2(found, _PLUGIN_FOLDER / "docker-compose")


def provide_debootstrap(*, say: Say) -> None:
    """Install what makes a Debian base where no registry answers.

    Raises:
        EnvironmentBroken: it is there already, or cannot be installed.
    """
    if shutil.which("debootstrap") is not None:
        raise EnvironmentBroken("debootstrap is there, so nothing could be installed to help.")
    install_packages(["debootstrap", "debian-archive-keyring"], say=say)


def provide_java(*, say: Say) -> None:
    """Install a Java runtime that Spark takes: 17 where there is one, else the release's own."""
    java17 = "openjdk-17-jre-headless"
    install_packages([java17 if _is_offered(java17) else "default-jre-headless"], say=say)


def _is_offered(package: str) -> bool:
    policy = run(["apt-cache", "policy", package], timeout_s=60).stdout
    return "Candidate:" in policy and "Candidate: (none)" not in policy
