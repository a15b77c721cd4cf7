"""Versions that were asked for: whether there are such."""

from harness.core.client_library import ClientLibrary
from harness.core.cluster import ClusterSpec
from harness.core.progress import Say
from harness.machine.client_packages import reject_unknown_client
from harness.machine.images import reject_unknown_kafka


def reject_unknown_versions(spec: ClusterSpec, client: ClientLibrary | None, *, say: Say) -> None:
    """Reject versions that do not exist: of Kafka, where we make its image, and of the client.

    Args:
        spec: the cluster that was asked for.
        client: the clients' library that was asked for; None: the harness's own.
        say: is told what has to be asked.

    Raises:
        UsageError: with the versions that there are.
        EnvironmentBroken: the engine, Maven or the package index did not answer.
    """
    if client is not None:
        reject_unknown_client(client, say=say)
    if not spec.image and spec.is_ours:
        reject_unknown_kafka(spec.kafka, say=say)
