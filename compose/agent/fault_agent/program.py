"""The agent's verbs: JSON in, JSON out, as README.md says."""

import base64
import json
import math
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fault_agent import AgentError
from fault_agent.arguments import Arguments
from fault_agent.leases import Action, Healed, Leases, lease_id
from fault_agent.parallel import all_or_error, in_parallel
from fault_agent.processes import (
    PROC,
    Process,
    command_line,
    jvm_of,
    open_files,
    pid_inside,
    process,
    send,
    start_jvm,
    tell_supervisor,
    wish_of,
)

Answer = dict[str, Any]

_READ_BYTES = 1024 * 1024
_MOST_READ_BYTES = 16 * 1024 * 1024
_SIGNALS = ("SIGKILL", "SIGTERM", "SIGSTOP", "SIGCONT", "SIGQUIT")


def _shown(seen: Process | None) -> Answer | None:
    if seen is None:
        return None
    return {"pid": seen.pid, "start_ticks": seen.start_ticks, "state": seen.state}


def _container(pid: int) -> Process:
    seen = process(pid)
    if seen is None:
        raise AgentError(f"The container of process {pid} is gone.")
    return seen


def _action(kind: str, container_pid: int, jvm: Process | None = None, chain: str = "") -> Action:
    return Action(
        kind=kind,
        container_pid=container_pid,
        container_ticks=_container(container_pid).start_ticks,
        pid=jvm.pid if jvm else 0,
        start_ticks=jvm.start_ticks if jvm else 0,
        chain=chain,
    )


def _give_back(lease: object, container_pid: int, kind: str) -> None:
    """Strike what was just undone from a lease, without undoing it twice."""
    Leases().take_back(
        lease_id(lease),
        lambda action: action.kind == kind and action.container_pid == container_pid,
        lambda _: None,
    )


def state(given: Arguments) -> Answer:
    """Show the JVM below a container's first process."""
    container_pid = given.whole("container_pid")
    return {
        "process": _shown(jvm_of(container_pid)),
        "container": process(container_pid) is not None,
        "wish": wish_of(container_pid),
    }


def jvm(given: Arguments) -> Answer:
    """Tell what the JVM below a container's first process was started with."""
    target = jvm_of(given.whole("container_pid"))
    if target is None:
        return {"pid_inside": None, "words": [], "jars": []}
    return {
        "pid_inside": pid_inside(target.pid),
        "words": command_line(target.pid),
        "jars": [path for path in open_files(target.pid) if path.endswith(".jar")],
    }


def signal(given: Arguments) -> Answer:
    """Signal the JVM, and wait for the effect."""
    container_pid, name = given.whole("container_pid"), given.text("signal")
    lease = given.get("lease")
    if name not in _SIGNALS:
        raise AgentError(f"The signal {name!r} is none of {', '.join(_SIGNALS)}.")
    target = jvm_of(container_pid)
    if target is None:
        if name != "SIGCONT":
            raise AgentError(f"Below process {container_pid} runs no JVM to be sent {name}.")
        if lease is not None:
            _give_back(lease, container_pid, "continue")
        return {"process": None, "gone": True}
    if lease is not None:
        kind = {"SIGSTOP": "continue", "SIGKILL": "start", "SIGTERM": "start"}.get(name)
        if kind is not None:
            Leases().add(lease, (_action(kind, container_pid, target),))
    at_ns = send(target, name)
    if lease is not None and name == "SIGCONT":
        _give_back(lease, container_pid, "continue")
    return {"at_ns": at_ns, "process": _shown(target), "gone": name == "SIGKILL"}


def wish(given: Arguments) -> Answer:
    """Have the supervisor start the JVM, or leave it down."""
    container_pid, wanted = given.whole("container_pid"), given.text("wish")
    lease = given.get("lease")
    if wanted == "up":
        if lease is not None:
            _reject_dying(lease, container_pid)
        seen = start_jvm(container_pid)
        if lease is not None:
            _give_back(lease, container_pid, "start")
        return {"process": _shown(seen)}
    if wanted != "down":
        raise AgentError(f"The wish {wanted!r} is neither 'up' nor 'down'.")
    if lease is not None:
        Leases().add(lease, (_action("start", container_pid),))
    tell_supervisor(container_pid, "down")
    return {"process": _shown(jvm_of(container_pid))}


def _reject_dying(lease: object, container_pid: int) -> None:
    """Refuse to start a JVM in place of one that was told to end and has not: it would be lost."""
    known = Leases().get(lease_id(lease))
    running = jvm_of(container_pid)
    owed = [a for a in known.actions if a.kind == "start"] if known and running else []
    if running and (running.pid, running.start_ticks) in [(a.pid, a.start_ticks) for a in owed]:
        raise AgentError(f"The JVM {running.pid} has not ended yet.")


def cut(given: Arguments) -> Answer:
    """Cut containers off from peers."""
    from fault_agent import network

    lease = given.get("lease")
    name = lease_id(lease)
    leases = Leases()
    known = leases.get(name)
    # Every cut gets chains of its own: loading a chain anew would empty what an earlier cut put in.
    number = sum(action.kind == "mend" for action in known.actions) if known else 0
    cuts = [
        network.Cut(
            container_pid=rule.whole("container_pid"),
            peers=None if rule.get("peers") is None else rule.texts("peers"),
            ports=None if rule.get("ports") is None else rule.wholes("ports"),
            spared=() if rule.get("spared") is None else rule.texts("spared"),
            direction=rule.optional_text("direction") or "both",
            longer_than=0 if rule.get("longer_than") is None else rule.whole("longer_than"),
        )
        for rule in given.documents("rules")
    ]
    chains = [f"KC-{name}-{number + place}" for place in range(len(cuts))]
    leases.add(
        lease,
        tuple(
            _action("mend", one.container_pid, chain=chain)
            for chain, one in zip(chains, cuts, strict=True)
        ),
    )
    comment = given.optional_text("comment") or os.environ.get("KC_RUN") or "kafka-chaos"
    calls = [partial(network.make_cut, chain, one, comment)
             for chain, one in zip(chains, cuts, strict=True)]  # fmt: skip
    all_or_error(in_parallel(calls))
    return {"chains": chains, "rules": len(cuts)}


def counters(given: Arguments) -> Answer:
    """Tell what the rules of a lease have swallowed so far."""
    from fault_agent import network

    lease = Leases().get(lease_id(given.get("lease")))
    cuts = [action for action in lease.actions if action.kind == "mend"] if lease else []
    total = network.Counters()
    calls = [partial(network.read_counters, one.container_pid, one.chain)
             for one in cuts if process(one.container_pid)]  # fmt: skip
    for part in all_or_error(in_parallel(calls)):
        total += part
    return {"packets": total.packets, "bytes": total.bytes}


def mend(given: Arguments) -> Answer:
    """Take away all cuts of a lease."""
    from fault_agent import network

    taken: list[network.Counters] = []

    def undo(action: Action) -> str | None:
        part, note = network.take_away(action.container_pid, action.container_ticks, action.chain)
        taken.append(part)
        return note

    name = lease_id(given.get("lease"))
    healed = Leases().take_back(name, lambda action: action.kind == "mend", undo)
    errors = [entry.error for entry in healed if entry.error]
    if errors:
        raise AgentError(" ".join(errors))
    total = sum(taken, network.Counters())
    return asdict(total) | {"notes": [entry.note for entry in healed if entry.note]}


def probe(given: Arguments) -> Answer:
    """Ask listeners from inside containers."""
    from fault_agent import probe as probes

    questions = [
        probes.Probe(
            container_pid=one.whole("container_pid"),
            host=one.text("host"),
            port=one.whole("port"),
            protocol=one.optional_text("protocol") or "kafka",
        )
        for one in given.documents("probes")
    ]
    return {"answers": probes.probe(questions, timeout_s=given.whole("timeout_ms") / 1000)}


def gc_storm(given: Arguments) -> Answer:
    """Begin a storm of collections in a JVM."""
    from fault_agent import attach

    container_pid, duration_ms = given.whole("container_pid"), given.whole("duration_ms")
    nodes = given.whole("nodes") if given.get("nodes") is not None else 0
    if duration_ms <= 0 or nodes < 0:
        raise AgentError(f"A storm of {duration_ms} ms with {nodes} nodes is none.")
    target = jvm_of(container_pid)
    if target is None:
        raise AgentError(f"Below process {container_pid} runs no JVM to collect garbage.")
    if (lease := given.get("lease")) is not None:
        Leases().add(lease, (_action("gc_stop", container_pid, target),))
    said = attach.storm(target, f"{duration_ms}:{nodes}")
    return {"process": _shown(target), "said": said}


def gc_stop(given: Arguments) -> Answer:
    """End the storm that was begun under a lease; a JVM without one is left alone."""
    from fault_agent.watch import undo

    container_pid = given.whole("container_pid")
    healed = Leases().take_back(
        lease_id(given.get("lease")),
        lambda action: action.kind == "gc_stop" and action.container_pid == container_pid,
        undo,
    )
    if errors := [entry.error for entry in healed if entry.error]:
        raise AgentError(" ".join(errors))
    return {"ended": len(healed), "notes": [entry.note for entry in healed if entry.note]}


def mbeans(given: Arguments) -> Answer:
    """Read a JVM's MBeans."""
    from fault_agent import attach

    container_pid, names = given.whole("container_pid"), given.texts("names")
    if not names or any("\n" in name for name in names):
        raise AgentError("Object names are wanted, one at least, each on one line.")
    target = jvm_of(container_pid)
    if target is None:
        raise AgentError(f"Below process {container_pid} runs no JVM to be asked.")
    # JSON knows no infinity, and no number that is none.
    return {
        "values": [
            {"name": name, "attribute": attribute, "value": value}
            for name, attribute, value in attach.mbeans(target, names)
            if math.isfinite(value)
        ]
    }


def read(given: Arguments) -> Answer:
    """Read a part of a container's file; one that does not exist has the size 0."""
    container_pid, path = given.whole("container_pid"), given.text("path")
    offset = given.whole("offset") if given.get("offset") is not None else 0
    limit = given.whole("limit") if given.get("limit") is not None else _READ_BYTES
    if not path.startswith("/") or offset < 0 or not 0 < limit <= _MOST_READ_BYTES:
        raise AgentError(f"Cannot read {limit} bytes at {offset} of {path!r}.")
    _container(container_pid)
    size, content, exists = 0, b"", False
    try:
        with open(PROC / str(container_pid) / f"root{path}", "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise AgentError(f"{path} is no regular file.")
            size, exists = found.st_size, True
            file.seek(offset)
            content = file.read(limit)
    except FileNotFoundError:
        pass
    encoded = base64.b64encode(content).decode()
    return {"exists": exists, "size": size, "offset": offset, "base64": encoded}


def cut_tail(given: Arguments) -> Answer:
    """Cut what a dead broker had not flushed from the ends of its logs."""
    from fault_agent import tails

    container_pid = given.whole("container_pid")
    topic = given.optional_text("topic")
    partition, offset = given.optional_whole("partition"), given.optional_whole("offset")
    if (partition is not None and topic is None) or (offset is not None and partition is None):
        raise AgentError("A partition needs its topic, and an offset needs its partition.")
    _container(container_pid)
    if (target := jvm_of(container_pid)) is not None:
        raise AgentError(f"The JVM {target.pid} still runs: only a dead broker's logs are cut.")
    wanted = tails.Wanted(topic=topic, partition=partition, offset=offset)
    cut = tails.cut_tails(_log_dirs(given, container_pid), wanted)
    if not cut and topic is not None:
        raise AgentError(f"There is no log of {topic} {'' if partition is None else partition}.")
    return {"logs": [asdict(log) for log in cut]}


def log_sizes(given: Arguments) -> Answer:
    """Tell the bytes of all segments of each log."""
    from fault_agent import tails

    container_pid = given.whole("container_pid")
    _container(container_pid)
    return {
        "logs": [
            {"topic": log.topic, "partition": log.partition, "bytes": log.size_bytes()}
            for folder in _log_dirs(given, container_pid)
            for log in tails.logs_in(folder)
        ]
    }


def log_ends(given: Arguments) -> Answer:
    """Tell where the logs of some topics end, of several brokers at once."""
    from fault_agent import ends

    topics = given.texts("topics")
    logs: list[Answer] = []
    for one in given.documents("brokers"):
        container_pid, node_id = one.whole("container_pid"), one.whole("node_id")
        try:
            _container(container_pid)
            found = list(ends.ends(_log_dirs(one, container_pid), topics))
        except AgentError:
            # What became of one broker says nothing of the others.
            continue
        logs += [{"node_id": node_id, **asdict(end)} for end in found]
    return {"logs": logs}


def _log_dirs(given: Arguments, container_pid: int) -> list[Path]:
    folders = given.texts("log_dirs")
    for folder in folders:
        if not folder.startswith("/"):
            raise AgentError(f"A log directory is an absolute path, not {folder!r}.")
    return [PROC / str(container_pid) / f"root{folder}" for folder in folders]


def leases(given: Arguments) -> Answer:
    """List the leases in force."""
    del given
    now_ns = time.monotonic_ns()
    return {
        "leases": [
            {
                "id": lease.id,
                "left_s": round((lease.deadline_ns - now_ns) / 1e9, 3),
                "actions": [asdict(action) for action in lease.actions],
            }
            for lease in Leases().all()
        ]
    }


def heal(given: Arguments) -> Answer:
    """Take back one lease now, or all."""
    from fault_agent.watch import heal_lease

    store = Leases()
    wanted = given.get("lease")
    names = [lease_id(wanted)] if wanted is not None else [lease.id for lease in store.all()]
    done: list[Healed] = []
    for name in names:
        done += heal_lease(store, name)
    failed = [asdict(entry) for entry in done if entry.error]
    answer: Answer = {"healed": [asdict(e) for e in done if not e.error], "failed": failed}
    if failed:
        answer["error"] = " ".join(str(entry["error"]) for entry in failed)
    return answer


Verb = Callable[[Arguments], Answer]

_ASKING: Mapping[str, Verb] = {
    verb.__name__: verb
    for verb in (state, jvm, counters, probe, mbeans, read, log_sizes, log_ends, leases)
}
"""Verbs that change nothing, so that their answers need not be kept."""
_CHANGING: Mapping[str, Verb] = {
    verb.__name__: verb
    for verb in (signal, wish, cut, mend, gc_storm, gc_stop, cut_tail, heal)
}  # fmt: skip


def perform(verb: str, text: str) -> Answer:
    """Carry out a verb; a request that was carried out under its lease before is only answered.

    Args:
        verb: its name.
        text: its argument, one JSON object.

    Returns:
        The answer, always with `at_ns`; with `error` if it could not be done.
    """
    try:
        if verb in _ASKING:
            answer = _ASKING[verb](Arguments.parse(text))
        elif verb in _CHANGING:
            return _once(_CHANGING[verb], Arguments.parse(text))
        else:
            known = ", ".join((*_ASKING, *_CHANGING))
            answer = {"error": f"There is no verb {verb!r}; there are watch, {known}."}
    except AgentError as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"The kernel refused {verb}: {error}."}
    return {"at_ns": time.monotonic_ns()} | answer


def _once(verb: Verb, given: Arguments) -> Answer:
    """Carry out a request, and keep its answer under its lease for whoever asks again."""
    request, lease = given.optional_text("request"), given.get("lease")
    if request is None or lease is None:
        return {"at_ns": time.monotonic_ns()} | verb(given)
    store, name = Leases(), lease_id(lease)
    if (kept := store.kept_answer(name, request)) is not None:
        return kept
    answer = verb(given)
    answer = {"at_ns": time.monotonic_ns()} | answer
    store.keep_answer(name, request, answer)
    return answer


def main(words: Sequence[str]) -> int:
    """Run one verb, or the watch, and return the exit code."""
    if words and words[0] == "watch":
        from fault_agent.watch import leave_on_signals, watch

        watch(Leases(), leave_on_signals())
        return 0
    answer = perform(words[0] if words else "", words[1] if len(words) > 1 else "{}")
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0
