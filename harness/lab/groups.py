"""The consumer groups of a script, whose members can be killed at an exact step."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.cluster.topology import REPLICATION_PORT
from harness.core.cluster import Broker
from harness.core.coordinators import OFFSETS_TOPIC, coordinating_partition
from harness.core.errors import ClusterBroken, PreconditionUnmet, WaitTimeout
from harness.core.version import numbers
from harness.core.wait import wait_until
from harness.lab.clients import WAIT_S, await_precondition, start_client
from harness.machine.engine import ENGINE_ERRORS, connect
from harness.run.client_process import ClientProcess
from harness.run.context import RunContext
from workloads.client_config import Config
from workloads.group_config import SESSION_MS, member_config
from workloads.send_poll import FIRST_SUBSCRIBER

_ASK_S = 0.1
_STOP_S = 20.0

LONG_SESSION_MS = 45_000
"""The session timeout of members that must stay in the group on a busy machine, ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Where a member stops and waits.

    Attributes:
        before: "processing" of a record, or "commit".
        count: which one, counted from 1.
    """

    before: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The answer of a member that stopped where it was told to.

    Attributes:
        processed: how many records it has processed.
        unprocessed: records, by partition and offset, that it was given and has not processed.
        uncommitted: records that it has processed and that no acknowledged commit covers.
    """

    processed: int
    unprocessed: frozenset[tuple[int, int]] = frozenset()
    uncommitted: frozenset[tuple[int, int]] = frozenset()


class GroupMember:
    """A member of a group, in a process of its own.

    Whatever waits for it raises PreconditionUnmet if it does not do, in time, what is waited for.
    """

    def __init__(
        self, client: ClientProcess, group: str, note: Callable[[dict[str, Any]], None]
    ) -> None:
        self._client = client
        self._group = group
        self._note = note

    @property
    def processed(self) -> int:
        """How many records it has processed, as of a moment ago."""
        return int(self._client.counts.get("processed", 0))

    @property
    def commits(self) -> int:
        """How many of its commits of a partition were acknowledged, as of a moment ago."""
        return int(self._client.counts.get("commits", 0))

    @property
    def rebalances(self) -> int:
        """How often partitions came or went, as of a moment ago."""
        return int(self._client.counts.get("rebalances", 0))

    def await_processed(self, count: int) -> None:
        """Wait until it has processed `count` records."""
        self._await(lambda: self.processed >= count, f"{count} records processed")

    def await_held(self) -> Held:
        """Wait until it has stopped where it was told to, and return its answer."""
        answer = self._ask({"do": "held"})
        return Held(
            processed=answer["processed"],
            unprocessed=_records(answer.get("unprocessed", [])),
            uncommitted=_records(answer.get("uncommitted", [])),
        )

    def hold(self, hold: Hold) -> None:
        """Tell it where to stop, counted from now on; return once it has confirmed."""
        self._ask({"do": "hold", **asdict(hold)})

    def go(self) -> None:
        """Let it go on after a stop."""
        self._ask({"do": "go"})

    def await_told(self) -> None:
        """Wait until the coordinator has told it the committed offsets of its group."""
        self._await(lambda: self._client.counts.get("fetched", 0) > 0, "an offset fetched")

    def await_assigned(self) -> None:
        """Wait until it has been assigned partitions."""
        self._await(lambda: self.rebalances > 0, "partitions assigned")

    def kill(self) -> None:
        """SIGKILL it: it does not commit and does not leave, and its session must expire."""
        self._noted("killed")
        self._client.kill()

    def stop(self) -> None:
        """Let it finish its current poll, commit, and leave the group."""
        self._noted("stopped")
        self._client.ask_to_stop()
        if not self._client.await_end(timeout_s=_STOP_S):
            raise PreconditionUnmet(f"a member of {self._group} did not end within {_STOP_S:g} s")

    def _noted(self, what: str) -> None:
        process = self._client.spec.process
        self._note({"event": what, "group": self._group, "process": process})

    def _ask(self, what: Mapping[str, Any]) -> dict[str, Any]:
        order = self._client.order(what)
        awaited = f"the answer to {what['do']!r}"
        self._await(lambda: self._client.reply(order) is not None, awaited)
        return self._client.reply(order) or {}

    def _await(self, condition: Callable[[], object], what: str) -> None:
        def ready() -> object:
            if failure := self._client.failure():
                raise ClusterBroken(failure)
            return condition()

        what = f"{what}, by a member of {self._group}"
        await_precondition(ready, what=what)


class JavaMember(GroupMember):
    """A member that is Kafka's own VerifiableConsumer, in the container of a broker."""

    def __init__(
        self,
        client: ClientProcess,
        group: str,
        note: Callable[[dict[str, Any]], None],
        *,
        container: str,
        pid_file: str,
    ) -> None:
        super().__init__(client, group, note)
        self._container = container
        self._pid_file = pid_file
        self._processed: int | None = None

    @property
    def processed(self) -> int:
        """How many records it has printed; exact once it has been killed."""
        return super().processed if self._processed is None else self._processed

    def kill(self) -> None:
        """SIGKILL its JVM, and wait until everything that it printed has been recorded.

        Raises:
            PreconditionUnmet: it had ended before, its output did not end, or it was not in the
                middle of the records of a poll.
        """
        self._noted("killed")
        command = ["sh", "-c", f"kill -9 $(cat {self._pid_file})"]
        try:
            container = connect().containers.get(self._container)
            # Detached: the engine may report the end of this command only after it has delivered
            # the output of the member, which we read afterwards.
            container.exec_run(command, detach=True)
            wait_until(
                lambda: not _runs(container.top()), timeout_s=20, what="the Java member to die"
            )
        except ENGINE_ERRORS as error:
            raise ClusterBroken(f"The Java member cannot be killed: {error}") from error
        except WaitTimeout as error:
            raise PreconditionUnmet(str(error)) from error
        answer = self._ask({"do": "go"})
        self._processed = int(answer["processed"])
        if not answer["in_poll"]:
            raise PreconditionUnmet("the Java member was not in the middle of a poll's records")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabGroup:
    """A consumer group of a script.

    Attributes:
        name: of the group.
        context: the cluster and the folder.
        settings: of each member: commits, poll_records, commit_every, process_s, poll_s.
        config: settings of librdkafka beyond those of every subscriber.
        note: appends an entry to the script's journal.
    """

    name: str
    context: RunContext
    settings: Mapping[str, Any]
    config: Config
    note: Callable[[dict[str, Any]], None]

    def join(self, *, hold: Hold | None = None, session_ms: int | None = None) -> GroupMember:
        """Start a member; it begins at the committed offsets of the group, or at the beginning.

        Args:
            hold: where it stops and waits.
            session_ms: its session timeout; short if it will be killed. Not for the protocol of
                KIP-848, where the broker decides.
        """
        own: Config = {} if session_ms is None else {"session.timeout.ms": session_ms}
        settings = {
            "topic": self.context.topics[0],
            "interval_s": 0.2,
            "hold": asdict(hold) if hold else None,
            "config": member_config(self.name, self.config | own, isolation="read_uncommitted"),
            **self.settings,
        }
        return GroupMember(self._start("group_member", settings), self.name, self.note)

    def join_java(
        self, broker: Broker, *, stall_after: int | None = None, **config: object
    ) -> JavaMember:
        """Start Kafka's own VerifiableConsumer in a broker's container as a member.

        Args:
            broker: where it runs, and its bootstrap server.
            stall_after: after how many records we stop reading its output; see
                `workloads.verifiable_consumer`.
            config: settings of the Java consumer, dots written as underscores.
        """
        stem = f"/tmp/kafka-chaos-{secrets.token_hex(4)}"  # noqa: S108 (in a container of ours)
        settings = {name.replace("_", "."): str(value) for name, value in config.items()}
        lines = "\\n".join(f"{name}={value}" for name, value in sorted(settings.items()))
        kafka = self.context.cluster.spec.kafka
        server = "--bootstrap-server" if numbers(kafka) >= (2, 5) else "--broker-list"
        command = (
            f"printf '{lines}\\n' >{stem}.properties; echo $$ >{stem}.pid; "
            "exec java -Xmx96m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-cp '/opt/kafka/libs/*' org.apache.kafka.tools.VerifiableConsumer "
            f"{server} broker-{broker.node_id}:{REPLICATION_PORT} "
            f"--topic {self.context.topics[0]} "
            f"--group-id {self.name} --session-timeout {SESSION_MS} --reset-policy earliest "
            f"--enable-autocommit --verbose --consumer.config {stem}.properties"
        )
        client = self._start(
            "verifiable_consumer",
            {
                "command": ["docker", "exec", broker.container, "sh", "-c", command],
                "topic": self.context.topics[0],
                "group": self.name,
                "stall_after": stall_after,
                "interval_s": 0.2,
            },
        )
        return JavaMember(
            client, self.name, self.note, container=broker.container, pid_file=f"{stem}.pid"
        )

    def committed(self, partition: int = 0) -> int | None:
        """Return the committed offset that the coordinator answers; None if it answers none."""
        topic = self.context.topics[0]
        return self.context.cluster.admin.group_offsets(self.name, topic, [partition]).get(
            partition
        )

    def await_committed(self, offset: int, *, partition: int = 0) -> None:
        """Wait until the group has committed `offset` or more.

        Raises:
            PreconditionUnmet: it has not.
        """
        await_precondition(
            lambda: (self.committed(partition) or 0) >= offset,
            what=f"group {self.name} to commit {offset} of partition {partition}",
            timeout_s=WAIT_S,
            interval_s=_ASK_S,
        )

    def coordinator(self) -> Broker | None:
        """Return the broker that leads the group's partition of the offsets topic, if any does."""
        partitions = self.context.cluster.admin.partitions(OFFSETS_TOPIC)
        if not partitions:
            # Kafka creates it at the first request about a group.
            self.committed()
            return None
        number = coordinating_partition(self.name, len(partitions))
        leader = partitions[OFFSETS_TOPIC, number].leader
        return next((b for b in self.context.cluster.brokers if b.node_id == leader), None)

    def _start(self, module: str, settings: Mapping[str, Any]) -> ClientProcess:
        client = start_client(self.context, FIRST_SUBSCRIBER, f"workloads.{module}", settings)
        # The checkers must know that a group moves its partitions.
        clients = self.context.run_dir.meta()["clients"]
        clients.append({"process": client.spec.process, "role": "consumer", "mode": "subscribe"})
        self.context.run_dir.update(clients=clients)
        return client


def _runs(top: Mapping[str, Any]) -> bool:
    """Return whether a Java member runs in a container."""
    processes = top.get("Processes") or []
    return any("VerifiableConsumer" in process[-1] for process in processes)


def _records(pairs: list[list[int]]) -> frozenset[tuple[int, int]]:
    return frozenset((partition, offset) for partition, offset in pairs)
