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

from fault_agent import AgentError, attach, ends, network, tails, watch
from fault_agent import probe as probing
from fault_agent.arguments import call
from fault_agent.leases import Action, Healed, Leases, lease_id
from fault_agent.parallel import in_parallel
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
from fault_agent.serve import serve

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


def _jvm(container_pid: int, purpose: str) -> Process:
    running = jvm_of(container_pid)
    if running is None:
        raise AgentError(f"Below process {container_pid} runs no JVM to {purpose}.")
    return running


def _give_back(lease: object, container_pid: int, kind: str) -> None:
    """Remove what was just undone from a lease, without undoing it again."""
    Leases().take_back(
        lease_id(lease),
        lambda action: action.kind == kind and action.container_pid == container_pid,
        lambda _: None,
    )


def _undo(lease: object, wanted: Callable[[Action], bool]) -> Answer:
    """Take the wanted actions of a lease back now."""
    healed = Leases().take_back(lease_id(lease), wanted, watch.undo)
    if errors := [entry.error for entry in healed if entry.error]:
        raise AgentError(" ".join(errors))
    return {"ended": len(healed), "notes": [entry.note for entry in healed if entry.note]}


def state(container_pid: int) -> Answer:
    """Show the JVM below a container's first process."""
    return {
        "process": _shown(jvm_of(container_pid)),
        "container": process(container_pid) is not None,
        "wish": wish_of(container_pid),
    }


def jvm(container_pid: int) -> Answer:
    """Tell what the JVM below a container's first process was started with."""
    target = jvm_of(container_pid)
    if target is None:
        return {"pid_inside": None, "words": [], "jars": []}
    return {
        "pid_inside": pid_inside(target.pid),
        "words": command_line(target.pid),
        "jars": [path for path in open_files(target.pid) if path.endswith(".jar")],
    }


def signal(container_pid: int, signal: str, lease: object = None) -> Answer:
    """Signal the JVM, and wait for the effect."""
    if signal not in _SIGNALS:
        raise AgentError(f"The signal {signal!r} is none of {', '.join(_SIGNALS)}.")
    if signal == "SIGCONT" and jvm_of(container_pid) is None:
        if lease is not None:
            _give_back(lease, container_pid, "continue")
        return {"process": None, "gone": True}
    target = _jvm(container_pid, f"be sent {signal}")
    kind = {"SIGSTOP": "continue", "SIGKILL": "start", "SIGTERM": "start"}.get(signal)
    if lease is not None and kind is not None:
        Leases().add(lease, (_action(kind, container_pid, target),))
    at_ns = send(target, signal)
    if lease is not None and signal == "SIGCONT":
        _give_back(lease, container_pid, "continue")
    return {"at_ns": at_ns, "process": _shown(target), "gone": signal == "SIGKILL"}


def wish(container_pid: int, wish: str, lease: object = None) -> Answer:
    """Have the supervisor start the JVM, or leave it down."""
    if wish == "up":
        if lease is not None:
            _reject_dying(lease, container_pid)
        seen = start_jvm(container_pid)
        if lease is not None:
            _give_back(lease, container_pid, "start")
        return {"process": _shown(seen)}
    if wish != "down":
        raise AgentError(f"The wish {wish!r} is neither 'up' nor 'down'.")
    if lease is not None:
        Leases().add(lease, (_action("start", container_pid),))
    tell_supervisor(container_pid, "down")
    return {"process": _shown(jvm_of(container_pid))}


def _reject_dying(lease: object, container_pid: int) -> None:
    """Refuse to start a JVM while the one that was told to end still runs.

    The supervisor would not see the wish.
    """
    known = Leases().get(lease_id(lease))
    running = jvm_of(container_pid)
    owed = [a for a in known.actions if a.kind == "start"] if known and running else []
    if running and (running.pid, running.start_ticks) in [(a.pid, a.start_ticks) for a in owed]:
        raise AgentError(f"The JVM {running.pid} has not ended yet.")


def cut(lease: object, rules: tuple[object, ...]) -> Answer:
    """Cut containers off from peers."""
    name = lease_id(lease)
    leases = Leases()
    known = leases.get(name)
    # Every cut gets chains of its own: loading a chain anew would empty what an earlier cut put in.
    number = sum(action.kind == "mend" for action in known.actions) if known else 0
    cuts = [call(network.Cut, rule) for rule in rules]
    chains = [f"KC-{name}-{number + place}" for place in range(len(cuts))]
    leases.add(
        lease,
        tuple(
            _action("mend", one.container_pid, chain=chain)
            for chain, one in zip(chains, cuts, strict=True)
        ),
    )
    comment = os.environ.get("KC_RUN") or "kafka-chaos"
    calls = [partial(network.make_cut, chain, one, comment)
             for chain, one in zip(chains, cuts, strict=True)]  # fmt: skip
    in_parallel(calls)
    return {"chains": chains, "rules": len(cuts)}


def counters(lease: object) -> Answer:
    """Tell how many packets the rules of a lease have dropped so far."""
    known = Leases().get(lease_id(lease))
    cuts = [action for action in known.actions if action.kind == "mend"] if known else []
    calls = [partial(network.dropped_packets, one.container_pid, one.chain)
             for one in cuts if process(one.container_pid)]  # fmt: skip
    return {"packets": sum(in_parallel(calls))}


def mend(lease: object) -> Answer:
    """Take away all cuts of a lease."""
    return _undo(lease, lambda action: action.kind == "mend")


def probe(probes: tuple[object, ...], timeout_ms: int) -> Answer:
    """Ask listeners from inside containers."""
    questions = [call(probing.Probe, question) for question in probes]
    return {"answers": probing.probe(questions, timeout_s=timeout_ms / 1000)}


def gc_storm(
    container_pid: int,
    duration_ms: int,
    nodes: int = 0,
    collecting_ms: int = 0,
    lease: object = None,
) -> Answer:
    """Begin a storm of collections in a JVM."""
    if duration_ms <= 0 or min(nodes, collecting_ms) < 0:
        raise AgentError(
            f"A storm cannot last {duration_ms} ms with {nodes} nodes and {collecting_ms} ms of "
            "collections."
        )
    target = _jvm(container_pid, "collect garbage")
    if lease is not None:
        Leases().add(lease, (_action("gc_stop", container_pid, target),))
    said = attach.load(target, attach.STORM_JAR, f"{duration_ms}:{nodes}:{collecting_ms}")
    return {"process": _shown(target), "said": said}


def gc_stop(container_pid: int, lease: object) -> Answer:
    """End the storm that was begun under a lease; a JVM without one is left alone."""
    return _undo(
        lease, lambda action: action.kind == "gc_stop" and action.container_pid == container_pid
    )


def mbeans(container_pid: int, names: tuple[str, ...]) -> Answer:
    """Read a JVM's MBeans."""
    if not names or any("\n" in name for name in names):
        raise AgentError("Name one MBean or more, each on one line.")
    target = _jvm(container_pid, "be asked")
    # JSON knows no infinity, and no number that is none.
    return {
        "values": [
            {"name": name, "attribute": attribute, "value": value}
            for name, attribute, value in attach.mbeans(target, names)
            if math.isfinite(value)
        ]
    }


def read(container_pid: int, path: str, offset: int = 0, limit: int = _READ_BYTES) -> Answer:
    """Read a part of a container's file; one that does not exist has the size 0."""
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


def cut_tail(
    container_pid: int,
    log_dirs: tuple[str, ...],
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> Answer:
    """Cut what a dead broker had not flushed from the ends of its logs."""
    if (partition is not None and topic is None) or (offset is not None and partition is None):
        raise AgentError("A partition needs its topic, and an offset needs its partition.")
    _container(container_pid)
    if (target := jvm_of(container_pid)) is not None:
        raise AgentError(f"The JVM {target.pid} still runs: only a dead broker's logs are cut.")
    cut = tails.cut_tails(_below(container_pid, log_dirs), topic, partition, offset)
    if not cut and topic is not None:
        raise AgentError(f"There is no log of {topic} {'' if partition is None else partition}.")
    return {"logs": [asdict(log) for log in cut]}


def log_sizes(container_pid: int, log_dirs: tuple[str, ...]) -> Answer:
    """Tell the bytes of all segments of each log."""
    _container(container_pid)
    return {
        "logs": [
            {"topic": log.topic, "partition": log.partition, "bytes": log.size_bytes()}
            for folder in _below(container_pid, log_dirs)
            for log in tails.logs_in(folder)
        ]
    }


def log_ends(topics: tuple[str, ...], brokers: tuple[object, ...]) -> Answer:
    """Tell where the logs of some topics end, of several brokers at once."""

    def ends_of(node_id: int, container_pid: int, log_dirs: tuple[str, ...]) -> list[Answer]:
        try:
            _container(container_pid)
            found = list(ends.ends(_below(container_pid, log_dirs), topics))
        except AgentError:
            # What became of one broker says nothing of the others.
            return []
        return [{"node_id": node_id, **asdict(end)} for end in found]

    return {"logs": [log for broker in brokers for log in call(ends_of, broker)]}


def _below(container_pid: int, folders: Sequence[str]) -> list[Path]:
    """Return where folders of a container lie for us."""
    for folder in folders:
        if not folder.startswith("/"):
            raise AgentError(f"A log directory is an absolute path, not {folder!r}.")
    return [PROC / str(container_pid) / f"root{folder}" for folder in folders]


def clock() -> Answer:
    """Tell what the clocks of this machine show."""
    return {
        "wall_ns": time.clock_gettime_ns(time.CLOCK_REALTIME),
        "up_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }


def leases() -> Answer:
    """List the leases in force."""
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


def heal(lease: object = None) -> Answer:
    """Take back one lease now, or all."""
    store = Leases()
    names = [lease_id(lease)] if lease is not None else [known.id for known in store.all()]
    done: list[Healed] = []
    for name in names:
        done += watch.heal_lease(store, name)
    failed = [asdict(entry) for entry in done if entry.error]
    answer: Answer = {"healed": [asdict(e) for e in done if not e.error], "failed": failed}
    if failed:
        answer["error"] = " ".join(str(entry["error"]) for entry in failed)
    return answer


Verb = Callable[..., Answer]

_ASKING: Mapping[str, Verb] = {
    verb.__name__: verb
    for verb in (state, jvm, counters, probe, mbeans, read, log_sizes, log_ends, clock, leases)
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
            answer = call(_ASKING[verb], json.loads(text))
        elif verb in _CHANGING:
            return _once(_CHANGING[verb], json.loads(text))
        else:
            known = ", ".join((*_ASKING, *_CHANGING))
            answer = {"error": f"There is no verb {verb!r}; there are watch, serve, {known}."}
    except json.JSONDecodeError as error:
        answer = {"error": f"The argument is no JSON: {error}."}
    except AgentError as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"The kernel refused {verb}: {error}."}
    return {"at_ns": time.monotonic_ns()} | answer


def _once(verb: Verb, document: object) -> Answer:
    """Carry out a request, and keep its answer under its lease for whoever asks again."""
    fields = document if isinstance(document, dict) else {}
    request, lease = fields.get("request"), fields.get("lease")
    if request is None or lease is None:
        return {"at_ns": time.monotonic_ns()} | call(verb, document)
    store, name = Leases(), lease_id(lease)
    if (kept := store.kept_answer(name, request)) is not None:
        return kept
    answer = call(verb, document)
    answer = {"at_ns": time.monotonic_ns()} | answer
    store.keep_answer(name, request, answer)
    return answer


def main(words: Sequence[str]) -> int:
    """Run one verb, all that are asked for on stdin, or the watch, and return the exit code."""
    if words and words[0] == "watch":
        watch.watch(Leases(), watch.leave_on_signals())
        return 0
    if words and words[0] == "serve":
        serve(
            sys.stdin.buffer, sys.stdout.buffer, lambda verb, text: json.dumps(perform(verb, text))
        )
        return 0
    answer = perform(words[0] if words else "", words[1] if len(words) > 1 else "{}")
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0
