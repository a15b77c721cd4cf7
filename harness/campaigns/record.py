"""The recording of a run, without its judgement: neither Spark nor Java is needed."""

from harness.core.client_library import ClientLibrary
from harness.core.cluster import ClusterSpec
from harness.core.progress import Say
from harness.core.run_dir import RunDir
from harness.machine.client_packages import reject_unknown_client
from harness.machine.images import reject_unknown_kafka
from harness.run.runner import Runner


def record_run(runner: Runner) -> RunDir:
    """Execute a run and return its folder; nobody has judged it yet.

    Raises:
        UsageError: as for `conduct`.
        KafkaChaosError: likewise.
    """
    reject_unknown_versions(runner.run.cluster, runner.run.client, say=runner.progress.say)
    return runner.execute()


def reject_unknown_versions(spec: ClusterSpec, client: ClientLibrary | None, *, say: Say) -> None:
    """Reject versions that do not exist: of Kafka, where we make its image, and of the client.

    Raises:
        UsageError: with the versions that there are.
    """
    if client is not None:
        reject_unknown_client(client, say=say)
    if not spec.image and spec.is_ours:
        reject_unknown_kafka(spec.kafka, say=say)
