"""The agent's client, against an engine that loses answers, or goes away."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from docker.models.containers import Container

from harness.agent import Agent
from harness.core.cluster import Lease
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

    assert engine.agent().dropped(LEASE) == 12
    assert len(engine.commands) == 2


def test_an_answer_that_was_garbled_is_asked_for_again() -> None:
    engine = Engine(ValueError("53 is not a valid stream"), {"packets": 12})

    assert engine.agent().dropped(LEASE) == 12


def test_what_must_not_be_said_twice_is_not() -> None:
    engine = Engine(None)

    engine.agent().signal(100, "SIGKILL", LEASE)

    assert len(engine.commands) == 1


def test_an_engine_that_never_answers_is_an_error() -> None:
    with pytest.raises(ClusterBroken, match="could not counters"):
        Engine(None, None, None).agent().dropped(LEASE)


def test_the_agents_own_sentence_is_handed_on() -> None:
    engine = Engine({"error": "There is no such container."}, exit_code=1)

    with pytest.raises(ClusterBroken, match="There is no such container"):
        engine.agent().state(100)


def test_an_engine_that_has_gone_is_a_broken_cluster_and_no_traceback() -> None:
    engine = Engine(requests.exceptions.ConnectionError("gone"))

    with pytest.raises(ClusterBroken, match="does not answer"):
        engine.agent().state(100)
