"""The agent's client, against an engine that loses answers, or goes away."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from docker.models.containers import Container

from harness.cluster.agent import Agent
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.logs import ClusterLogs
from harness.core.cluster import Broker, Lease
from harness.core.errors import ClusterBroken

LEASE = Lease(fault_id="1", hold_s=1, limit_s=2)


class Engine:
    """An engine that gives the answers it was told to, one an execution."""

    def __init__(self, *answers: object, exit_code: int = 0) -> None:
        self.answers = list(answers)
        self.exit_code = exit_code
        self.commands: list[list[str]] = []

    def exec_create(self, _: str, command: list[str]) -> dict[str, str]:
        self.commands.append(command)
        return {"Id": "x"}

    def exec_start(self, _: str, *, demux: bool) -> tuple[bytes | None, bytes | None]:
        assert demux
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return (None if answer is None else json.dumps(answer).encode(), None)

    def exec_inspect(self, _: str) -> dict[str, Any]:
        return {"Running": False, "ExitCode": self.exit_code}

    def agent(self) -> Agent:
        container = SimpleNamespace(id="c", name="agent", client=SimpleNamespace(api=self))
        return Agent(cast("Container", container))


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    engine = Engine(None, {"packets": 12})

    assert engine.agent().ask("counters", lease=LEASE) == {"packets": 12}
    assert len(engine.commands) == 2


def test_an_answer_that_was_garbled_is_asked_for_again() -> None:
    engine = Engine(ValueError("53 is not a valid stream"), {"packets": 12})

    assert engine.agent().ask("counters", lease=LEASE) == {"packets": 12}


def test_what_is_asked_again_carries_the_number_of_the_first_request() -> None:
    engine = Engine(None, {"logs": []}, {"logs": []})
    agent = engine.agent()

    agent.ask("cut_tail", lease=LEASE, container_pid=100)
    agent.ask("cut_tail", lease=LEASE, container_pid=100)

    first, again, next_one = [json.loads(command[2]) for command in engine.commands]
    assert first == again
    assert first["lease"] == {"id": "1", "limit_s": 2}
    assert first["request"] != next_one["request"]


def test_an_engine_that_never_answers_is_an_error() -> None:
    with pytest.raises(ClusterBroken, match="could not counters"):
        Engine(None, None, None).agent().ask("counters", lease=LEASE)


def test_the_agents_own_sentence_is_handed_on() -> None:
    engine = Engine({"error": "There is no such container."}, exit_code=1)

    with pytest.raises(ClusterBroken, match="There is no such container"):
        engine.agent().ask("state", container_pid=100)


def test_an_engine_that_has_gone_is_a_broken_cluster_and_no_traceback() -> None:
    engine = Engine(requests.exceptions.ConnectionError("gone"))

    with pytest.raises(ClusterBroken, match="does not answer"):
        engine.agent().ask("state", container_pid=100)


class Stream:
    """What the library hands out for a command whose output is read as it comes."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self._parts = list(parts)
        self._response = SimpleNamespace(close=lambda: None)

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            yield part, None


class StreamingEngine(Engine):
    """An engine whose only command writes a stream."""

    def __init__(self, *parts: bytes | Exception, exit_code: int = 0) -> None:
        super().__init__(exit_code=exit_code)
        self._output = Stream(*parts)

    def exec_start(self, _: str, *, demux: bool, stream: bool = False) -> Any:
        assert demux
        assert stream
        return self._output


def test_output_that_is_garbled_ends_there(caplog: pytest.LogCaptureFixture) -> None:
    engine = StreamingEngine(b"one", b"two", ValueError("129 is not a valid stream"))

    assert list(engine.agent().stream(["tar"])) == [b"one", b"two"]
    assert "garbled the output of tar" in caplog.text


@pytest.mark.parametrize("last", [b"two", ValueError("129 is not a valid stream")])
def test_output_that_the_engine_could_not_hand_on_ends_there(last: bytes | Exception) -> None:
    engine = StreamingEngine(b"one", last, exit_code=126)

    assert next(engine.agent().stream(["tar"])) == b"one"
    assert len(list(engine.agent().stream(["tar"]))) in (1, 2)


def test_a_program_that_fails_by_itself_is_an_error_however_it_ends() -> None:
    with pytest.raises(ClusterBroken, match="tar ended in 2"):
        list(StreamingEngine(b"one", exit_code=2).agent().stream(["tar"]))


@pytest.mark.parametrize("exit_code", [1, 126])
def test_an_answer_that_the_engine_could_not_hand_on_is_asked_for_again(exit_code: int) -> None:
    engine = Engine(None, None, None, exit_code=exit_code)

    with pytest.raises(ClusterBroken, match=f"exit code {exit_code}"):
        engine.agent().ask("counters", lease=LEASE)
    assert len(engine.commands) == 3


@pytest.mark.parametrize("told", [b"", b"179528", b"?\n"])
def test_a_time_that_was_cut_short_is_none(told: bytes) -> None:
    cluster = DockerCluster.__new__(DockerCluster)
    cluster.agent = cast("Agent", SimpleNamespace(output=lambda _: told))

    with pytest.raises(ClusterBroken, match="does not tell the time"):
        cluster.host_clock_ns()


def test_a_time_is_read_as_nanoseconds() -> None:
    cluster = DockerCluster.__new__(DockerCluster)
    cluster.agent = cast("Agent", SimpleNamespace(output=lambda _: b"1795284381663841935\n"))

    assert cluster.host_clock_ns() == 1_795_284_381_663_841_935


def test_a_verb_that_no_method_speaks_of_is_asked_at_a_node_under_the_lease() -> None:
    engine = Engine({"filled_bytes": 7})
    cluster = DockerCluster.__new__(DockerCluster)
    cluster.agent = engine.agent()
    cluster._lease = LEASE
    cluster._containers = {2: SimpleNamespace(pid=4711)}  # type: ignore[dict-item]

    answer = cluster.ask_agent(Broker(2, "broker-2"), "fill_disk", share=0.9)

    ((program, verb, text),) = engine.commands
    given = json.loads(text)
    assert answer == {"filled_bytes": 7}
    assert (program, verb) == ("agent.py", "fill_disk")
    assert (given["container_pid"], given["lease"]["id"], given["share"]) == (4711, "1", 0.9)


def test_no_pause_is_logged_where_no_collection_was_begun() -> None:
    logs = ClusterLogs(Engine().agent(), {1: 100})

    assert logs.pauses_s(1, "1") == []
