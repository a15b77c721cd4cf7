"""Churn: the members of a consumer group that come and go while the nemesis is at work.

Every move is written to members.jsonl before it is made, and seen by witnesses afterwards: the
group's coordinator, which is asked all the while, and how the member's process ended.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.core.errors import KafkaChaosError, WaitTimeout
from harness.core.run_dir import Journal
from harness.core.wait import pause, wait_until
from harness.core.workload import Grouped, Move
from harness.run.client_process import ClientProcess
from harness.run.context import RunContext
from harness.run.group_watch import GroupView, GroupWatch

_TICK_S = 0.1
_VICTIM_S = 30.0
_HOLD_S = 15.0
_APART_S = 2.0
_LATE_S = 10.0
_KILLED = -9
_ANSWERED_S = 10.0
"""A coordinator that did not tell what is committed for so long is not well, seconds."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A move that was made and has not been seen yet."""

    id: str
    kind: str
    client: ClientProcess
    made_ns: int


class Churn:
    """Makes the moves of a group's members, and sees that they were made.

    Args:
        workload: whose group it is.
        moves: in the order of their times.
        context: where the members are started; its clients that are members are the first ones.
        watch: who says who is in the group; closed by us.
        seen_s: so long after the last move what was not seen yet is waited for, seconds.
    """

    def __init__(
        self,
        workload: Grouped,
        moves: Sequence[Move],
        context: RunContext,
        watch: GroupWatch,
        *,
        seen_s: float,
    ) -> None:
        self._workload = workload
        self._moves = moves
        self._context = context
        self._seen_s = seen_s
        self._journal = Journal(context.run_dir.path / "members.jsonl")
        self._watch = watch
        self._members = [c for c in context.clients if "member" in c.spec.settings]
        self._leaving: set[int] = set()
        self._present: set[int] = set()
        self._open: list[_Open] = []
        self._last: GroupView | None = None
        self._made_ns = 0
        self._stop = context.stop

    def run(self, stop: threading.Event) -> None:
        """Make the moves; returns when all have been seen, or their time is over.

        Each waits for the group where it has to; those that could only begin long after the last
        one was planned are left out.

        Args:
            stop: when set, no more moves are made.
        """
        self._stop = stop
        begin_ns = time.monotonic_ns()
        for number, client in enumerate(self._members, start=1):
            self._decide(f"m{number}", "join", client, at_s=None)
            self._made(f"m{number}", "join", client)
        for number, move in enumerate(self._moves, start=len(self._members) + 1):
            due_ns = begin_ns + int(move.at_s * 1e9)
            # What was delayed does not come all at once.
            due_ns = max(due_ns, self._made_ns + int(_APART_S * 1e9))
            while time.monotonic_ns() < due_ns and not self._stop.is_set():
                self._observe()
                pause(_TICK_S, self._stop)
            if self._stop.is_set():
                return
            if time.monotonic_ns() > begin_ns + int((self._moves[-1].at_s + _LATE_S) * 1e9):
                # The faults are over by now, and nobody would be hit in the middle of a move.
                break
            self._make(f"m{number}", move)
            self._made_ns = time.monotonic_ns()
        self._await_witnesses(self._stop)

    def _await_witnesses(self, stop: threading.Event) -> None:
        last_ns = time.monotonic_ns() + int(self._seen_s * 1e9)
        while self._open and time.monotonic_ns() < last_ns and not stop.is_set():
            self._observe()
            pause(_TICK_S, stop)

    def catch_up(self, *, limit_s: float) -> None:
        """Wait until the group has committed all that there is, and note how far it got.

        To be called when nobody sends any more. Members are told to hurry: the time that processing
        takes has served the moves, which are over. A group that commits nothing for as long as the
        workload says that it must be stuck is waited for no longer.

        Args:
            limit_s: the longest that it may take, seconds.
        """
        topic = self._workload.topic
        admin = self._context.cluster.admin
        partitions = sorted(p for name, p in admin.partitions(topic) if name == topic)
        committed: dict[int, int] = {}
        ends: dict[int, int] = {}
        began_ns = moved_ns = time.monotonic_ns()
        answered_ns = 0
        for client in self._members:
            with suppress(KafkaChaosError):
                client.order({"do": "hurry"})

        def is_over() -> bool:
            nonlocal moved_ns, answered_ns
            self._observe()
            for partition in partitions:
                if partition not in ends:
                    with suppress(KafkaChaosError):
                        ends[partition] = admin.end_offset(topic, partition)
            offsets = admin.group_offsets(self._workload.group, topic, partitions)
            now_ns = time.monotonic_ns()
            if offsets:
                answered_ns = now_ns
            if any(offset != committed.get(p) for p, offset in offsets.items()):
                moved_ns = now_ns
            committed.update(offsets)
            stalled = now_ns - moved_ns > self._workload.stuck_after_s * 1e9
            return stalled or all(p in ends and committed.get(p, 0) >= ends[p] for p in partitions)

        what = f"group {self._workload.group} to come to the end of {topic}"
        with suppress(WaitTimeout):
            wait_until(
                is_over, timeout_s=limit_s, what=what, interval_s=0.3, stop=self._context.stop
            )
        over_ns = time.monotonic_ns()
        done = all(p in ends and committed.get(p, 0) >= ends[p] for p in partitions)
        alive = [client for client in self._members if client.is_running]
        owners = self._last.members if self._last else {}
        own_names = {client_id(client.spec.process) for client in self._members}
        self._note(
            "caught-up" if done else "behind",
            committed={str(p): offset for p, offset in sorted(committed.items())},
            ends={str(p): offset for p, offset in sorted(ends.items())},
            waited_s=round((over_ns - began_ns) / 1e9, 3),
            still_s=round((over_ns - moved_ns) / 1e9, 3),
            bound_s=self._workload.stuck_after_s,
            # A member says how far it is about once a second, unless it hangs or was stopped.
            working=[c.spec.process for c in alive if int(c.counts.get("t_ns", 0)) > moved_ns],
            silent=[c.spec.process for c in alive if int(c.counts.get("t_ns", 0)) <= moved_ns],
            strangers=sorted(set(owners) - own_names),
            state=self._last.state if self._last else None,
            brokers_well=over_ns - answered_ns < _ANSWERED_S * 1e9 and self._has_full_isr(),
        )
        # A group that was at the end at once has not told yet of who came last and who went.
        self._await_witnesses(self._context.stop)

    def _has_full_isr(self) -> bool:
        with suppress(KafkaChaosError):
            return self._context.cluster.has_full_isr(self._context.topics)
        return False

    def close(self) -> None:
        """Stop asking for the group, and write down what its members count."""
        self._watch.close()
        if self._watch.failure:
            self._context.note([self._watch.failure])
        totals = {
            name: sum(int(c.counts.get(name, 0)) for c in self._members)
            for name in ("processed", "commits", "rebalances")
        }
        self._note("counts", **totals, watch_deaths=self._watch.deaths)
        self._journal.close()

    # -- moves -------------------------------------------------------------------------------------

    def _make(self, number: str, move: Move) -> None:
        if move.kind == "join":
            self._join(number, move)
            return
        # A stream of its own for each, as the nemesis has for its victims.
        random = Random(f"{self._context.seed}/{number}/member")  # noqa: S311 (a draw that its seed repeats, no secret)
        try:
            victims = wait_until(
                lambda: self._victims(random, move),
                timeout_s=_VICTIM_S,
                interval_s=_TICK_S,
                stop=self._stop,
                what="all members to be in the group"
                if move.everyone
                else "a second member of the group, so that one is left",
            )
        except WaitTimeout as error:
            self._decide(number, move.kind, None, at_s=move.at_s)
            self._note("failed", id=number, error=str(error))
            return
        ids = [f"{number}.{place}" for place in range(1, len(victims) + 1)]
        numbered = dict(zip(ids if move.everyone else [number], victims, strict=True))
        for id_, client in numbered.items():
            self._decide(id_, move.kind, client, at_s=move.at_s)
        for id_, client in numbered.items():
            self._part_with(id_, move, client)

    def _part_with(self, number: str, move: Move, client: ClientProcess) -> None:
        if move.kind == "leave":
            self._say(client, "leaves")
            client.ask_to_stop()
            self._made(number, "leave", client)
            return
        hand = self._hold(client, move)
        client.kill()
        caught = f" in the middle of {move.before}" if hand is not None else ""
        self._say(client, f"is killed{caught}")
        self._made(number, "crash", client, hand=hand, exit=client.exit_code)

    def _join(self, number: str, move: Move) -> None:
        spec = self._workload.member(len(self._members))
        self._note("decided", id=number, move="join", process=spec.process, at_s=move.at_s)
        # The checkers have to know that a group moves its partitions.
        clients = [*self._context.run_dir.meta()["clients"], spec.described()]
        self._context.run_dir.update(clients=clients)
        (client,) = self._context.start_clients([spec])
        self._members.append(client)
        self._say(client, "joins")
        self._made(number, "join", client)

    def _victims(self, random: Random, move: Move) -> list[ClientProcess]:
        """Return one of those that are in the group, if another one is; or all, if all are."""
        self._observe()
        running = [
            client
            for client in self._members
            if client.is_running and client.spec.process not in self._leaving
        ]
        # Who was not seen to come cannot be seen to go.
        there = [client for client in running if client.spec.process in self._present]
        if move.everyone:
            return there if len(there) == len(running) else []
        if len(there) < 2:
            return []
        if move.before is not None:
            # Who has no partition has nothing in hand.
            owners = self._last.members if self._last else {}
            busy = [c for c in there if owners.get(client_id(c.spec.process))]
            there = busy or there
        return [random.choice(there)]

    def _hold(self, client: ClientProcess, move: Move) -> dict[str, int] | None:
        """Let a member stop at a step, and return what it has in hand; None if it did not."""
        if move.before is None:
            return None
        last_ns = time.monotonic_ns() + int(_HOLD_S * 1e9)
        answer: dict[str, Any] | None = None
        for what in ({"do": "hold", "before": move.before, "count": move.count}, {"do": "held"}):
            try:
                order = client.order(what)
            except KafkaChaosError:
                return None
            while (answer := client.reply(order)) is None:
                if time.monotonic_ns() > last_ns or self._stop.is_set():
                    return None
                self._observe()
                pause(_TICK_S / 2, self._stop)
        if answer is None or "processed" not in answer:
            return None
        pause(move.linger_s, self._stop)
        return {name: len(answer.get(name, [])) for name in ("unprocessed", "uncommitted")}

    # -- witnesses ---------------------------------------------------------------------------------

    def _observe(self) -> None:
        """Take note of what the coordinator says, and of the moves that this proves."""
        view = self._watch.view
        if view is None or view is self._last:
            return
        if self._last is None or (view.state, view.members) != (
            self._last.state, self._last.members,
        ):  # fmt: skip
            self._note(
                "group",
                asked_ns=view.asked_ns,
                answered_ns=view.answered_ns,
                state=view.state,
                members={name: list(places) for name, places in sorted(view.members.items())},
            )
        self._last = view
        for entry in list(self._open):
            if details := _seen(entry, view):
                if entry.kind == "join":
                    self._present.add(entry.client.spec.process)
                else:
                    # It has ended: its pipes are closed.
                    entry.client.await_end(timeout_s=1)
                self._open.remove(entry)
                evidence = {"observed": True, "details": details}
                self._note("seen", id=entry.id, evidence=evidence)

    def _decide(
        self, number: str, kind: str, client: ClientProcess | None, *, at_s: float | None
    ) -> None:
        process = None if client is None else client.spec.process
        self._note("decided", id=number, move=kind, process=process, at_s=at_s)

    def _made(self, number: str, kind: str, client: ClientProcess, **facts: Any) -> None:  # noqa: ANN401 (JSON values)
        made_ns = time.monotonic_ns()
        if kind != "join":
            self._leaving.add(client.spec.process)
        self._open.append(_Open(id=number, kind=kind, client=client, made_ns=made_ns))
        self._note("made", id=number, **facts)

    def _say(self, client: ClientProcess, what: str) -> None:
        self._context.progress.say(f"member {client.spec.process} {what}")

    def _note(self, event: str, **more: Any) -> None:  # noqa: ANN401 (JSON values)
        self._journal.append({"event": event, "time_ns": time.monotonic_ns(), **more})


def _seen(entry: _Open, view: GroupView) -> dict[str, Any]:
    """Return what the witnesses of a move have seen; nothing as long as one of them has not."""
    client = entry.client
    name = client_id(client.spec.process)
    after_s = round((view.answered_ns - entry.made_ns) / 1e9, 3)
    if view.asked_ns <= entry.made_ns:
        return {}
    if entry.kind == "join":
        if name not in view.members:
            return {}
        return {"in_group_after_s": after_s, "state": view.state, "members": len(view.members)}
    # Who is not among the members of a group without any may be unknown to a coordinator that
    # knows nothing yet.
    if client.is_running or name in view.members or not view.members:
        return {}
    code = client.exit_code
    if code != (_KILLED if entry.kind == "crash" else 0):
        return {}
    return {
        "exit_code": code,
        "gone_from_group_after_s": after_s,
        "state": view.state,
        "members": len(view.members),
    }


def client_id(process: int) -> str:
    """Return the `client.id` of a member."""
    return f"member-{process}"
