"""The agent's client, against an engine that loses answers, or goes away."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from docker.models.containers import Container

from harness.cluster.agent import Agent
from harness.cluster.agent_channel import AgentChannel
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.logs import ClusterLogs
from harness.core.cluster import Broker, Lease
from harness.core.errors import ClusterBroken
from tests.unit.agent_stream import agent_stream

LEASE = Lease(fault_id="1", hold_s=1, limit_s=2)


def agent_of(engine: object) -> Agent:
    container = SimpleNamespace(id="c", name="agent", client=SimpleNamespace(api=engine))
    return Agent(cast("Container", container))


def engine_that(answers: Callable[[str], str | None]) -> Any:
    return SimpleNamespace(
        exec_create=lambda *_, **__: {"Id": "x"}, exec_start=lambda *_, **__: agent_stream(answers)
    )


class Engine:
    """An engine whose agent gives the answers it was told to; None loses the connection."""

    def __init__(self, *answers: object, exit_code: int = 0) -> None:
        self.answers = list(answers)
        self.exit_code = exit_code
        self.asked: list[tuple[str, Any]] = []
        self.connections = 0

    def exec_create(self, _: str, command: list[str], **__: bool) -> dict[str, str]:
        return {"Id": "x"}

    def exec_start(self, _: str, **__: bool) -> Any:
        self.connections += 1
        if self.answers and isinstance(gone := self.answers[0], Exception):
            raise gone
        return agent_stream(self._answer)

    def exec_inspect(self, _: str) -> dict[str, Any]:
        return {"Running": False, "ExitCode": self.exit_code}

    def agent(self) -> Agent:
        return agent_of(self)

    def _answer(self, request: str) -> str | None:
        verb, _, argument = request.partition(" ")
        self.asked.append((verb, json.loads(argument)))
        answer = self.answers.pop(0)
        return None if answer is None else json.dumps(answer)


def test_one_connection_serves_many_questions_from_many_threads() -> None:
    engine = Engine(*[{"packets": number} for number in range(200)])
    agent = engine.agent()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: agent.ask("counters")["packets"], range(200)))

    assert sorted(answers) == list(range(200))
    assert engine.connections == 1


def test_each_gets_its_own_answer_whichever_comes_first() -> None:
    second_is_answered = threading.Event()

    def answer(request: str) -> str:
        if request == "slow {}":
            assert second_is_answered.wait(20)
        return json.dumps({"to": request})

    agent = agent_of(engine_that(answer))

    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(agent.ask, "slow")
        assert agent.ask("quick") == {"to": "quick {}"}
        second_is_answered.set()
        assert slow.result(20) == {"to": "slow {}"}


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    engine = Engine(None, {"packets": 12})

    assert engine.agent().ask("counters", lease=LEASE) == {"packets": 12}
    assert (len(engine.asked), engine.connections) == (2, 2)


def test_an_answer_that_was_garbled_is_asked_for_again() -> None:
    answers = iter(["53 is no JSON", '{"packets": 12}'])

    agent = agent_of(engine_that(lambda _: next(answers)))

    assert agent.ask("counters", lease=LEASE) == {"packets": 12}


def test_what_is_asked_again_carries_the_number_of_the_first_request() -> None:
    engine = Engine(None, {"logs": []}, {"logs": []})
    agent = engine.agent()

    agent.ask("cut_tail", lease=LEASE, container_pid=100)
    agent.ask("cut_tail", lease=LEASE, container_pid=100)

    first, again, next_one = [argument for _, argument in engine.asked]
    assert first == again
    assert first["lease"] == {"id": "1", "limit_s": 2}
    assert first["request"] != next_one["request"]


def test_an_agent_that_loses_every_answer_is_an_error() -> None:
    engine = Engine(None, None, None)

    with pytest.raises(ClusterBroken, match="does not answer"):
        engine.agent().ask("counters", lease=LEASE)
    assert engine.connections == 3


def test_who_waits_for_an_answer_hears_of_the_end() -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def answer(_: str) -> str:
        is_asked.set()
        assert is_over.wait(20)
        return "{}"

    channel = AgentChannel(engine_that(answer), "c")
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(channel.ask, "state", "{}", timeout_s=20)
        assert is_asked.wait(20)
        channel.close()
        with pytest.raises(ConnectionError):
            asking.result(20)
        is_over.set()


def test_an_answer_that_does_not_come_is_not_awaited_for_ever() -> None:
    is_over = threading.Event()

    def answer(_: str) -> None:
        is_over.wait(20)

    with pytest.raises(TimeoutError):
        AgentChannel(engine_that(answer), "c").ask("state", "{}", timeout_s=0.05)
    is_over.set()


def test_the_agents_own_sentence_is_handed_on() -> None:
    engine = Engine({"error": "There is no such container."})

    with pytest.raises(ClusterBroken, match="could not state: There is no such container"):
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

    def exec_start(self, _: str, **how: bool) -> Any:
        assert how == {"demux": True, "stream": True}
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


def test_a_time_is_read_as_nanoseconds() -> None:
    cluster = DockerCluster.__new__(DockerCluster)
    cluster.agent = Engine({"wall_ns": 1_795_284_381_663_841_935, "up_ns": 5}).agent()

    assert cluster.host_clock_ns() == 1_795_284_381_663_841_935


def test_a_verb_that_no_method_speaks_of_is_asked_at_a_node_under_the_lease() -> None:
    engine = Engine({"filled_bytes": 7})
    cluster = DockerCluster.__new__(DockerCluster)
    cluster.agent = engine.agent()
    cluster._lease = LEASE
    cluster._containers = {2: SimpleNamespace(pid=4711)}  # type: ignore[dict-item]

    answer = cluster.ask_agent(Broker(2, "broker-2"), "fill_disk", share=0.9)

    ((verb, given),) = engine.asked
    assert answer == {"filled_bytes": 7}
    assert verb == "fill_disk"
    assert (given["container_pid"], given["lease"]["id"], given["share"]) == (4711, "1", 0.9)


def test_no_pause_is_logged_where_no_collection_was_begun() -> None:
    logs = ClusterLogs(Engine().agent(), {1: 100})

    assert logs.pauses_s(1, "1") == []
