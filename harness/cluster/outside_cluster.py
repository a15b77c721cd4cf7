"""A running cluster that we have not started, and that we reach as clients do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cluster.broker_socket import Address
from harness.cluster.kafka_cluster import KafkaCluster
from harness.core.access import Access
from harness.core.cluster import Answer, Broker, ClusterSpec, TopicSpec
from harness.core.errors import ClusterBroken, UsageError
from harness.core.progress import Say
from harness.core.run_dir import REPLICA_LIMIT_BYTES
from harness.core.wait import wait_until

_ANSWER_S = 30.0
_LISTENER_S = 2.0


def _out_of_reach(self: "OutsideCluster", *_: Any, **__: Any) -> Any:  # noqa: ANN401, ARG001
    """Refuse what needs a container.

    Raises:
        ClusterBroken: always.
    """
    raise ClusterBroken(
        "The brokers run outside Docker: their processes, links and disks are out of reach."
    )


class OutsideCluster(KafkaCluster):
    """Brokers known by their listeners alone; see `harness.core.cluster.Cluster`.

    What lies on their disks, what their kernels say and which of them is the controller is not
    known, so that a run on them has less evidence than one in containers.
    """

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        access = Access(str(spec.bootstrap), spec.client_config)
        super().__init__(spec, folder, access=access, admin_access=access)
        self._addresses: Mapping[int, Address] = {}
        self._made: list[str] = []

    def connect(self, *, say: Say) -> None:
        """Ask which brokers there are, and how each of them is configured.

        Raises:
            ClusterBroken: nobody answers.
        """

        def is_answered() -> bool:
            self._addresses = self.admin.addresses()
            return bool(self._addresses)

        wait_until(is_answered, timeout_s=_ANSWER_S, what=f"a broker at {self.bootstrap}")
        self.spec = replace(self.spec, brokers=len(self._addresses))
        for broker in self.brokers:
            self.keep_settings(broker, self.admin.broker_config(broker.node_id))
        ids = ", ".join(str(broker.node_id) for broker in self.brokers)
        say(f"The cluster at {self.bootstrap} has the brokers {ids}.")

    @property
    def nodes(self) -> tuple[Broker, ...]:
        """The brokers: of other nodes nobody tells."""
        return self.brokers

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers that were there when we came, by node id."""
        return tuple(
            Broker(node_id, f"{host}:{port}")
            for node_id, (host, port) in sorted(self._addresses.items())
        )

    def address_of(self, broker: Broker) -> Address | None:
        """Return where a broker listens for clients."""
        return self._addresses.get(broker.node_id)

    def running(self) -> tuple[Broker, ...]:
        """Return the brokers that answer clients."""
        answers = self.probe_from_outside(self.brokers, timeout_s=_LISTENER_S)
        return tuple(b for b in self.brokers if answers[b.node_id] is Answer.ANSWERED)

    def ending(self, running: Sequence[Broker]) -> tuple[Broker, ...]:
        """Return nobody: what brokers write is not read."""
        del running
        return ()

    def _folder_of(self, broker: Broker) -> Path:
        folder = self._folder / "cluster" / f"broker-{broker.node_id}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def controller(self) -> Broker | None:
        """Return None: under KRaft a client is told any broker."""
        return None

    def log_ends(self, topic: str) -> dict[int, int]:
        """Return the high watermark of each partition: where its log ends, clients are not told."""
        places = list(self.admin.partitions(topic))
        return {place[1]: mark.offset for place, mark in self.high_watermarks(places).items()}

    def create_topic(self, topic: TopicSpec) -> None:
        """Create a topic that there is not.

        Raises:
            UsageError: there is one of that name, and whose it is nobody knows.
        """
        if self.partition_count(topic.name):
            raise UsageError(
                f"The cluster at {self.bootstrap} has a topic {topic.name!r} already, and a run "
                "deletes its topics at its end: delete it yourself if it was left behind by a run."
            )
        super().create_topic(topic)
        self._made.append(topic.name)

    def save_processes(self) -> None:
        """Keep nothing: how processes ended is not known."""

    def save_refusals(self) -> None:
        """Keep nothing: brokers' own metrics are out of reach."""

    def save_logs(self) -> None:
        """Keep nothing: brokers' logs are out of reach."""

    def copy_replicas(
        self,
        topics: Mapping[str, int],
        *,
        limit_bytes: int = REPLICA_LIMIT_BYTES,
    ) -> None:
        """Keep nothing: brokers' disks are out of reach."""

    def shut_down(self) -> None:
        """Delete the topics that were made, and leave the brokers as they are.

        Raises:
            ClusterBroken: they could not be deleted.
        """
        self.admin.delete_topics(self._made)

    exit_statuses = process_of = is_shut_down_cleanly = _out_of_reach
    signal = start = hold_down = ask_agent = probe = _out_of_reach
    cut = cut_clients = stall_fetches = mend = dropped_packets = _out_of_reach
    cut_tail = log_sizes = collect_garbage = end_collections = gc_pauses_s = _out_of_reach
    host_clock_ns = replica_ends = jmx = _out_of_reach


def connect(spec: ClusterSpec, *, folder: Path, say: Say) -> OutsideCluster:
    """Return a cluster that runs already.

    Raises:
        ClusterBroken: nobody answers there.
    """
    cluster = OutsideCluster(spec, folder)
    cluster.connect(say=say)
    return cluster
