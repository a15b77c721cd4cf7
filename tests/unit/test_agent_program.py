"""The agent's own program: leases that survive it, rules, and answers to nonsense."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fault_agent import AgentError, attach, network, processes, program, watch
from fault_agent.leases import LOCK_S, Action, Leases, lease_id
from fault_agent.network import Cut, count_packets, drop_rules
from fault_agent.parallel import in_parallel
from fault_agent.probe import ask


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    return Leases(tmp_path / "run")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc of the test's own."""
    folder = tmp_path / "proc"
    folder.mkdir()
    for module in (processes, program, attach):
        monkeypatch.setattr(module, "PROC", folder)
    return folder


def _add_process(
    proc: Path, pid: int, parent: int, name: str, words: str = "", state: str = "S"
) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    zeros = " ".join(["0"] * 17)
    (folder / "stat").write_text(f"{pid} ({name}) {state} {parent} {zeros} {pid * 10} 0 0\n")
    (folder / "cmdline").write_text(words.replace(" ", "\0"))


def _mend(chain: str) -> Action:
    return Action(kind="mend", container_pid=10, container_ticks=100, chain=chain)


# --- processes


def test_a_process_name_may_hold_parentheses_and_spaces() -> None:
    line = "42 (a) S (b) T 7 " + " ".join(str(n) for n in range(5, 30))

    seen = processes.parse_stat(line)

    assert (seen.pid, seen.command, seen.state, seen.parent) == (42, "a) S (b", "T", 7)
    assert seen.start_ticks == 22


def test_the_jvm_is_the_java_below_the_first_process(proc: Path) -> None:
    _add_process(proc, 10, 1, "supervisor")
    _add_process(proc, 11, 10, "java", "java kafka.Kafka server.properties")
    _add_process(proc, 20, 1, "java", "java somebody.Else")

    seen = processes.jvm_of(10)

    assert seen is not None
    assert (seen.pid, seen.start_ticks) == (11, 110)


def test_the_formatter_of_a_disk_is_not_the_broker(proc: Path) -> None:
    _add_process(proc, 10, 1, "supervisor")
    _add_process(proc, 11, 10, "broker", "bash broker")
    _add_process(proc, 12, 11, "java", "java kafka.tools.StorageTool format")

    assert processes.jvm_of(10) is None


def test_a_tool_that_a_health_check_left_behind_is_not_the_broker(proc: Path) -> None:
    _add_process(proc, 10, 1, "supervisor")
    _add_process(proc, 11, 10, "java", "java -cp /libs/* org.apache.kafka.tools.TopicCommand")
    _add_process(proc, 12, 10, "java", "java -cp /libs/kafka-tools-4.3.1.jar kafka.Kafka my.conf")

    seen = processes.jvm_of(10)

    assert seen is not None
    assert seen.pid == 12


def test_a_dead_jvm_that_nobody_reaped_is_none(proc: Path) -> None:
    _add_process(proc, 10, 1, "supervisor")
    _add_process(proc, 11, 10, "java", "", state="Z")

    assert processes.jvm_of(10) is None


def test_a_reused_pid_is_not_the_same_process(proc: Path) -> None:
    _add_process(proc, 11, 1, "java", "java kafka.Kafka")

    assert processes.is_living(11, 110)
    assert not processes.is_living(11, 109)


# --- leases


def test_a_lease_keeps_its_first_deadline(leases: Leases) -> None:
    leases.add({"id": "1", "limit_s": 10}, (_mend("a"),))
    first = leases.get("1")

    leases.add({"id": "1", "limit_s": 999}, (_mend("b"),))

    joined = leases.get("1")
    assert first is not None
    assert joined is not None
    assert joined.deadline_ns == first.deadline_ns
    assert [action.chain for action in joined.actions] == ["a", "b"]


def test_a_lease_is_there_for_a_program_that_starts_later(tmp_path: Path) -> None:
    Leases(tmp_path).add({"id": "1", "limit_s": 10}, (_mend("a"),))

    assert [lease.id for lease in Leases(tmp_path).all()] == ["1"]


@pytest.mark.parametrize(
    "lease", [None, "", "a/b", "x" * 17, {"id": 3}, {}, {"id": "1"}, {"id": "1", "limit_s": 0}]
)
def test_what_is_no_lease_opens_none(leases: Leases, lease: object) -> None:
    with pytest.raises(AgentError):
        leases.add(lease, (_mend("a"),))

    assert leases.all() == []


def test_a_lease_may_be_named_bare_or_as_an_object() -> None:
    assert lease_id("f-1") == lease_id({"id": "f-1", "limit_s": 3}) == "f-1"


def test_a_lease_ends_when_its_last_action_is_taken_back(leases: Leases) -> None:
    leases.add({"id": "1", "limit_s": 10}, (_mend("a"), _mend("b")))

    leases.take_back("1", lambda action: action.chain == "a", lambda _: None)
    halfway = leases.get("1")
    leases.take_back("1", lambda _: True, lambda _: None)

    assert halfway is not None
    assert [action.chain for action in halfway.actions] == ["b"]
    assert leases.get("1") is None


def test_what_could_not_be_taken_back_stays_on_the_lease(leases: Leases) -> None:
    leases.add({"id": "1", "limit_s": 10}, (_mend("a"), _mend("b")))

    def undo(action: Action) -> str | None:
        if action.chain == "a":
            raise AgentError("no such wall")
        return None

    healed = leases.take_back("1", lambda _: True, undo)

    left = leases.get("1")
    assert [entry.error for entry in healed] == ["no such wall", None]
    assert left is not None
    assert [action.chain for action in left.actions] == ["a"]


def test_taking_back_an_unknown_lease_is_nothing(leases: Leases) -> None:
    assert leases.take_back("1", lambda _: True, lambda _: None) == []


class _Leaving(threading.Event):
    """An event on which no time passes: `look` is called at every pulse, and its True ends it."""

    def __init__(self, look: Callable[[], bool]) -> None:
        super().__init__()
        self._look = look
        self._pulses = 0

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self._pulses += 1
        assert self._pulses < 100, "nothing more happens"
        return self._look()


def _watched(leases: Leases, pulses: int) -> list[list[str]]:
    """The ids of the leases in force before each pulse, and before the watch leaves."""
    seen: list[list[str]] = []

    def look() -> bool:
        seen.append([lease.id for lease in leases.all()])
        return len(seen) > pulses

    watch.watch(leases, _Leaving(look))
    return seen


def test_the_watch_heals_what_has_expired_and_says_so(leases: Leases, tmp_path: Path) -> None:
    leases.add({"id": "1", "limit_s": 1e-9}, (_mend("a"),))

    assert _watched(leases, pulses=1) == [["1"], []]

    line = json.loads((tmp_path / "run" / "healed.jsonl").read_text())
    assert (line["lease"], line["note"]) == ("1", "the container is gone")


def test_the_watch_leaves_a_lease_alone_that_has_time_left(leases: Leases, tmp_path: Path) -> None:
    leases.add({"id": "1", "limit_s": 600}, (_mend("a"),))

    assert _watched(leases, pulses=3) == [["1"]] * 4

    # When it leaves, it takes back what is there.
    assert leases.all() == []
    assert (tmp_path / "run" / "healed.jsonl").read_text().count("\n") == 1


def test_the_watch_tries_again_what_could_not_be_healed(
    leases: Leases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "monotonic_ns", lambda: int(clock[0] * 1e9))
    tries: list[float] = []

    def undo(action: Action) -> str | None:
        tries.append(clock[0])
        if len(tries) < 3:
            raise AgentError("no such wall")
        return None

    monkeypatch.setattr(watch, "undo", undo)
    leases.add({"id": "1", "limit_s": 1}, (_mend("a"),))

    def pulse() -> bool:
        clock[0] = round(clock[0] + 0.5, 1)
        return not leases.all()

    watch.watch(leases, _Leaving(pulse))

    assert tries == [1001.0, 1002.0, 1003.0]
    entries = (tmp_path / "run" / "healed.jsonl").read_text().splitlines()
    assert [json.loads(entry)["error"] for entry in entries] == ["no such wall", None]


def test_the_watch_takes_back_all_when_it_is_stopped_but_starts_no_jvm(leases: Leases) -> None:
    start = Action(kind="start", container_pid=10, container_ticks=100, pid=11, start_ticks=110)
    leases.add({"id": "1", "limit_s": 600}, (_mend("a"), start))

    watch.watch(leases, _Leaving(lambda: True))

    assert [action.kind for lease in leases.all() for action in lease.actions] == ["start"]


# --- network


def test_a_cut_drops_both_directions() -> None:
    text = drop_rules("KC-1-0", Cut(container_pid=1, peers=("10.0.0.2",), ports=None), "run 7")

    assert "-A KC-1-0 -s 10.0.0.2 -m comment --comment run-7 -j DROP" in text
    assert "-A KC-1-0 -d 10.0.0.2 -m comment --comment run-7 -j DROP" in text
    assert "-I INPUT 1 -j KC-1-0" in text
    assert "-I OUTPUT 1 -j KC-1-0" in text


def test_a_cut_of_one_port_hits_it_on_either_end_and_nothing_else() -> None:
    text = drop_rules("KC-1-0", Cut(container_pid=1, peers=("10.0.0.2",), ports=(9092,)), "x")

    drops = [line for line in text.splitlines() if line.endswith("DROP")]
    assert len(drops) == 4
    assert all("-p tcp" in line and "9092" in line for line in drops)
    assert sum("--sport" in line for line in drops) == 2


@pytest.mark.parametrize(
    ("direction", "side", "hook"), [("in", "-s", "INPUT"), ("out", "-d", "OUTPUT")]
)
def test_a_cut_of_one_way_leaves_the_other(direction: str, side: str, hook: str) -> None:
    cut = Cut(container_pid=1, peers=("10.0.0.2",), ports=None, direction=direction)

    lines = drop_rules("KC-1-0", cut, "x").splitlines()

    assert [line for line in lines if line.endswith("DROP")] == [
        f"-A KC-1-0 {side} 10.0.0.2 -m comment --comment x -j DROP"
    ]
    assert [line for line in lines if line.startswith("-I")] == [f"-I {hook} 1 -j KC-1-0"]


def test_a_cut_of_long_packets_names_the_first_length_that_is_dropped() -> None:
    cut = Cut(container_pid=1, peers=("10.0.0.2",), ports=None, longer_than=200)

    drops = [line for line in drop_rules("c", cut, "x").splitlines() if line.endswith("DROP")]

    assert all("-m length --length 201:65535" in line for line in drops)


def test_a_cut_of_requests_names_their_kind_where_they_come_in() -> None:
    cut = Cut(container_pid=1, peers=("10.0.0.2",), ports=(9092, 9093), direction="in", api_key=1)

    drops = [line for line in drop_rules("c", cut, "x").splitlines() if line.endswith("DROP")]

    assert [line.partition(" -m u32")[0] for line in drops] == [
        "-A c -s 10.0.0.2 -p tcp --dport 9092",
        "-A c -s 10.0.0.2 -p tcp --dport 9093",
    ]
    assert all("@4>>16=1 && " in line for line in drops)


def test_a_cut_from_everybody_spares_the_container_itself_and_the_spared() -> None:
    cut = Cut(container_pid=1, peers=None, ports=(9094,), spared=("10.0.0.3",), direction="out")

    text = drop_rules("c", cut, "x")

    passing = [line for line in text.splitlines() if line.endswith("RETURN")]
    assert passing == [
        "-A c -i lo -j RETURN",
        "-A c -o lo -j RETURN",
        "-A c -s 10.0.0.3 -j RETURN",
        "-A c -d 10.0.0.3 -j RETURN",
    ]
    assert text.index("RETURN") < text.index("DROP")
    assert "-A c -p tcp --sport 9094 -m comment" in text


@pytest.mark.parametrize(
    "odd",
    [
        {"peers": None},
        {"direction": "up"},
        {"longer_than": -1},
        {"spared": ("broker-1",)},
        {"api_key": 1, "direction": "in"},
        {"api_key": 1, "ports": (9092,)},
    ],
)
def test_a_cut_in_an_odd_way_is_refused(odd: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"container_pid": 1, "peers": ("10.0.0.2",), "ports": None}

    with pytest.raises(AgentError):
        Cut(**(whole | odd))


@pytest.mark.parametrize(
    ("peers", "ports"),
    [((), None), (("10.0.0.2",), ()), (("broker-2",), None), (("10.0.0.2 -j ACCEPT",), None)],
)
def test_a_cut_that_cannot_be_is_refused(peers: tuple[str, ...], ports: tuple[int] | None) -> None:
    with pytest.raises(AgentError):
        Cut(container_pid=1, peers=peers, ports=ports)


def test_the_packets_of_one_chain_are_counted_alone() -> None:
    saved = (
        "*filter\n:INPUT ACCEPT [0:0]\n:KC-1-0 - [0:0]\n:KC-1-01 - [0:0]\n"
        "[9:900] -A INPUT -j KC-1-0\n"
        "[3:180] -A KC-1-0 -s 10.0.0.2/32 -m comment --comment x -j DROP\n"
        "[2:120] -A KC-1-0 -d 10.0.0.2/32 -m comment --comment x -j DROP\n"
        "[7:700] -A KC-1-01 -d 10.0.0.2/32 -m comment --comment x -j DROP\nCOMMIT\n"
    )

    assert count_packets(saved, "KC-1-0") == 5
    assert count_packets(saved, "KC-2-0") == 0


# --- probes, against sockets of our own


@pytest.fixture
def listener() -> "socket.socket":
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def _ask(server: socket.socket, timeout_s: float = 60.0, protocol: str = "kafka") -> str:
    host, port = server.getsockname()
    return ask(host, port, time.monotonic() + timeout_s, protocol=protocol)


def _serve(server: socket.socket, answer: bytes) -> threading.Thread:
    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_listener_that_answers_the_request_has_answered(listener: socket.socket) -> None:
    with listener:
        thread = _serve(listener, struct.pack(">iih", 6, 0x6B63, 0))
        answer = _ask(listener)
        thread.join()

    assert answer == "answered"


@pytest.mark.parametrize(
    ("said", "answer"),
    [(b"Zookeeper version: 3.4.9", "answered"), (b"This ZooKeeper ", "refused"), (b"", "refused")],
)
def test_zookeeper_has_answered_if_it_tells_its_version(
    listener: socket.socket, said: bytes, answer: str
) -> None:
    with listener:
        thread = _serve(listener, said)
        seen = _ask(listener, protocol="zookeeper")
        thread.join()

    assert seen == answer


def test_a_listener_that_hangs_up_has_refused(listener: socket.socket) -> None:
    with listener:
        thread = _serve(listener, b"")
        answer = _ask(listener)
        thread.join()

    assert answer == "refused"


def test_a_frozen_listener_is_silent(listener: socket.socket) -> None:
    with listener:
        # The kernel accepts for a process that never does. The time is for connecting, too: so
        # short that a busy machine takes it away, it would make the listener unreachable.
        answer = _ask(listener, timeout_s=1.0)

    assert answer == "silent"


def test_a_port_where_nobody_listens_refuses(listener: socket.socket) -> None:
    listener.close()
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))

        assert _ask(reserved) == "refused"


# --- verbs


@pytest.mark.parametrize(
    ("verb", "text", "words"),
    [
        ("bogus", "{}", "no verb"),
        ("state", "{", "no JSON"),
        ("state", "[]", "JSON object"),
        ("state", '{"container_pid": "7"}', "whole number"),
        ("state", '{"container_pid": true}', "whole number"),
        ("mbeans", '{"container_pid": 7, "names": "a:b=c"}', "names must be a list"),
        ("mbeans", '{"container_pid": 7, "names": [1]}', "names must be a text"),
        ("cut", '{"lease": "1", "rules": [{}]}', "container_pid must be a whole number, not None"),
        ("signal", '{"container_pid": 7, "signal": "SIGFOO"}', "SIGFOO"),
        ("signal", '{"container_pid": 7, "signal": "SIGKILL"}', "no JVM"),
        ("wish", '{"container_pid": 7, "wish": "sideways"}', "sideways"),
        ("wish", '{"container_pid": 7, "wish": "down"}', "takes no wishes"),
        ("gc_storm", '{"container_pid": 7, "duration_ms": 0}', "cannot last 0 ms"),
        ("gc_storm", '{"container_pid": 7, "duration_ms": 10}', "no JVM"),
        ("mbeans", '{"container_pid": 7, "names": []}', "Name one MBean"),
        ("mbeans", '{"container_pid": 7, "names": ["a:b=c"]}', "no JVM"),
        ("read", '{"container_pid": 7, "path": "relative"}', "Cannot read"),
        ("read", '{"container_pid": 7, "path": "/etc/hosts"}', "gone"),
    ],
)
def test_nonsense_is_answered_with_a_sentence(proc: Path, verb: str, text: str, words: str) -> None:
    assert list(proc.iterdir()) == []

    answer = program.perform(verb, text)

    assert words in answer["error"]
    assert answer["at_ns"] > 0


def test_a_container_that_is_gone_has_no_process_and_that_is_no_error(proc: Path) -> None:
    del proc

    answer = program.perform("state", '{"container_pid": 7}')

    assert (answer["process"], answer["container"], answer["wish"]) == (None, False, None)


def test_the_clocks_are_those_of_the_machine() -> None:
    before_ns, answer, after_ns = time.time_ns(), program.perform("clock", "{}"), time.time_ns()

    assert before_ns <= answer["wall_ns"] <= after_ns
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert answer["up_ns"] / 1e9 == pytest.approx(uptime_s, abs=60)


def test_a_file_is_read_from_an_offset(proc: Path) -> None:
    _add_process(proc, 7, 1, "supervisor")
    (proc / "7" / "root").mkdir()
    (proc / "7" / "root" / "log").write_text("abcdef")

    answer = program.perform(
        "read", '{"container_pid": 7, "path": "/log", "offset": 2, "limit": 3}'
    )
    missing = program.perform("read", '{"container_pid": 7, "path": "/nope"}')

    assert (answer["size"], answer["base64"]) == (6, "Y2Rl")
    assert (missing["size"], missing["base64"]) == (0, "")


@pytest.fixture
def broker(proc: Path, leases: Leases, monkeypatch: pytest.MonkeyPatch) -> Leases:
    """A container, 10, with a JVM, 11; what is done to it under the leases that are returned."""
    _add_process(proc, 10, 1, "supervisor")
    _add_process(proc, 11, 10, "java", "java kafka.Kafka server.properties")
    monkeypatch.setattr(program, "Leases", lambda: leases)
    return leases


LEASE = {"id": "1", "limit_s": 60}
RULE = {"container_pid": 10, "peers": ["10.0.0.2"], "ports": None}


@pytest.mark.parametrize(
    ("verb", "arguments", "acts", "kind"),
    [
        ("signal", {"signal": "SIGSTOP"}, (program, "send"), "continue"),
        ("signal", {"signal": "SIGKILL"}, (program, "send"), "start"),
        ("signal", {"signal": "SIGTERM"}, (program, "send"), "start"),
        ("wish", {"wish": "down"}, (program, "tell_supervisor"), "start"),
        ("cut", {"rules": [RULE]}, (network, "make_cut"), "mend"),
        ("gc_storm", {"duration_ms": 10}, (attach, "load"), "gc_stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_verb_leaves_its_lease_before_it_acts(
    broker: Leases,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    arguments: dict[str, Any],
    acts: tuple[Any, str],
    kind: str,
) -> None:
    in_force: list[list[str]] = []

    def act(*_: object) -> int:
        in_force.append([action.kind for lease in broker.all() for action in lease.actions])
        return 0

    monkeypatch.setattr(*acts, act)

    answer = program.perform(verb, json.dumps({"container_pid": 10, "lease": LEASE} | arguments))

    assert "error" not in answer
    assert in_force == [[kind]]


def test_healing_says_what_was_healed_and_what_could_not_be(
    broker: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(action: Action) -> str | None:
        if action.chain == "a":
            raise AgentError("no such wall")
        return None

    monkeypatch.setattr(watch, "undo", undo)
    broker.add({"id": "1", "limit_s": 60}, (_mend("a"), _mend("b")))

    failed = program.perform("heal", "{}")
    other = program.perform("heal", '{"lease": "2"}')

    assert failed["error"] == "no such wall"
    assert [entry["action"] for entry in failed["failed"]] == ["mend a of 10"]
    assert [entry["action"] for entry in failed["healed"]] == ["mend b of 10"]
    assert (other["healed"], "error" in other) == ([], False)


def test_a_request_that_is_repeated_gets_the_first_answer_and_does_nothing(
    broker: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def send(target: object, name: str) -> int:
        del target
        sent.append(name)
        return 1

    monkeypatch.setattr(program, "send", send)

    def ask(request: str) -> dict[str, Any]:
        given = {"container_pid": 10, "signal": "SIGSTOP", "lease": LEASE, "request": request}
        return program.perform("signal", json.dumps(given))

    first, again = ask("a"), ask("a")

    assert again == first
    assert sent == ["SIGSTOP"]
    ask("b")
    assert sent == ["SIGSTOP", "SIGSTOP"]
    assert [lease.id for lease in broker.all()] == ["1"]


def test_an_error_is_no_answer_that_is_kept(
    broker: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise AgentError("not now")

    given = json.dumps({"container_pid": 10, "signal": "SIGSTOP", "lease": LEASE, "request": "a"})
    monkeypatch.setattr(program, "send", refuse)
    refused = program.perform("signal", given)
    monkeypatch.setattr(program, "send", lambda *_: 1)

    assert refused["error"] == "not now"
    assert "error" not in program.perform("signal", given)
    assert broker.kept_answer("1", "a") is not None


def test_answers_are_forgotten_when_another_fault_takes_the_leases_id(leases: Leases) -> None:
    leases.add(LEASE, (_mend("a"),))
    leases.keep_answer("1", "r", {"at_ns": 1})
    leases.take_back("1", lambda _: True, lambda _: None)
    kept = leases.kept_answer("1", "r")

    leases.add(LEASE, (_mend("b"),))

    assert kept == {"at_ns": 1}
    assert leases.kept_answer("1", "r") is None


@pytest.mark.parametrize("request_id", ["../2", "", "x" * 41])
def test_what_is_no_number_of_a_request_is_refused(broker: Leases, request_id: str) -> None:
    given = {"container_pid": 10, "wish": "down", "lease": LEASE, "request": request_id}

    answer = program.perform("wish", json.dumps(given))

    assert "no number of a request" in answer["error"]
    assert broker.all() == []


def test_a_storm_that_was_never_begun_is_ended_without_a_word_to_the_jvm(
    broker: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def load(target: object, jar: object, argument: str) -> str:
        del target, jar
        told.append(argument)
        return ""

    monkeypatch.setattr(attach, "load", load)
    given = {"container_pid": 10, "lease": LEASE}

    before = program.perform("gc_stop", json.dumps(given))
    program.perform("gc_storm", json.dumps(given | {"duration_ms": 10}))
    after = program.perform("gc_stop", json.dumps(given))

    assert (before["ended"], after["ended"]) == (0, 1)
    assert told == ["10:0:0", "stop"]
    assert broker.all() == []


def test_the_limits_in_the_readme_are_those_of_the_code() -> None:
    readme = (Path(program.__file__).parents[1] / "README.md").read_text()

    for row in (
        f"| a killed process to be gone and reaped | {processes.DEATH_S:g} s |",
        f"| a process to be stopped or continued | {processes.STOP_S:g} s |",
        f"| a JVM that the supervisor was told to start | {processes.START_S:g} s |",
        "| a JVM to listen for an attachment, and its answer to a command "
        f"| {attach.LISTENER_S:g} s, {attach.COMMAND_S:g} s |",
        f"| the packet filter | {network.FILTER_S} s |",
        f"| a lease that another verb works on | {LOCK_S:g} s |",
    ):
        assert row in readme
    assert f"at most {program._MOST_READ_BYTES >> 20} MiB" in readme
    assert f"looks every {watch._PULSE_S * 1000:g} ms" in readme


def test_calls_in_parallel_are_all_made_and_the_first_error_is_raised() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        if number == 1:
            raise AgentError("no")
        made.append(number)
        return number

    with pytest.raises(AgentError, match="no"):
        in_parallel([partial(make, number) for number in (1, 2, 3)])

    assert sorted(made) == [2, 3]
    assert in_parallel([partial(make, 3), partial(make, 2)]) == [3, 2]
