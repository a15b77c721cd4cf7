"""The Docker engine, or a clear word that there is none."""

import docker
import docker.errors
import requests

from harness.core.errors import EnvironmentBroken

ENGINE_ERRORS = (docker.errors.DockerException, requests.exceptions.RequestException)
"""What the library raises when the engine refuses, and when it has gone away."""


def connect(*, timeout_s: int = 60) -> docker.DockerClient:
    """Return a client of the engine that `DOCKER_HOST` or the default socket names.

    Args:
        timeout_s: bound on each later answer, seconds.

    Raises:
        EnvironmentBroken: it does not answer.
    """
    try:
        client = docker.from_env(timeout=timeout_s)
        client.ping()
    except docker.errors.DockerException as error:
        raise EnvironmentBroken(
            f"The Docker engine does not answer ({error}): `kafka-chaos doctor --fix` "
            "installs or starts it."
        ) from error
    return client
