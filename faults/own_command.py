"""Damage done by commands of the user's own: to brokers that no agent of ours can reach."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.core.cluster import Broker, Nodes
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.fault import Evidence, Fault, FaultTraits, fault, fault_traits
from harness.core.wait import wait_until

_COMMAND_S = 120.0
_SEEN_S = 30.0
"""So long a witness is asked again until it sees what it is asked for, seconds."""
_LOOK_EVERY_S = 0.5
_SHOWN = 2000

_KINDS: dict[str, Fault] = {
    "broker_kill": BrokerKill(),
    "broker_pause": BrokerPause(),
    "broker_stop": BrokerStop(),
    "partition": Partition(),
    "power_loss": PowerLoss(),
}


@fault("own_command")
@dataclass(frozen=True, slots=True)
class OwnCommand:
    """Run a command that breaks brokers, one that heals them, and one that sees which it is.

    Stands for whatever the commands do: to brokers outside Docker (`--bootstrap`), or where we
    have no such fault. Not for damage that nobody looks at: without a witness it does not count.
    Each command is split as a shell would, and run without one; node ids of the victims are its
    last arguments.
    `KAFKA_CHAOS_FAULT` (its id in the run), `KAFKA_CHAOS_HOLD_S` and, outside Docker,
    `KAFKA_CHAOS_ADDRESSES` (`host:port` of each victim, with spaces) stand in its environment.

    Whoever breaks something must have been told how to heal it: a guard in a process of its own
    runs the healing command when the harness has died, or when the fault has outlasted its lease.

    Attributes:
        breaks: breaks the victims; it must return, with 0 if it could, within two minutes.
        heals: takes it back, likewise; also where there is nothing to take back.
        sees: ends in 0 while the damage is there, and otherwise if it is not; what it prints is
            evidence. It must look for itself: one that trusts the first command proves nothing.
        like: the fault of ours that it resembles, whose traits it has: how a victim ceases to lead,
            and whether it loses data.
    """

    breaks: str
    heals: str
    sees: str
    like: Literal["broker_kill", "broker_pause", "broker_stop", "partition", "power_loss"] = (
        "broker_kill"
    )

    def __post_init__(self) -> None:
        """Reject commands that are none.

        Raises:
            UsageError: one is empty, or its quotes do not close.
        """
        for command in (self.breaks, self.heals, self.sees):
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise UsageError(f"{command!r} is no command ({error}).") from error
            if not words:
                raise UsageError(
                    "The fault own_command needs three: what breaks, what heals, what sees."
                )

    @property
    def traits(self) -> FaultTraits:
        """Those of the fault that it resembles, but that it needs no container."""
        return replace(
            fault_traits(_KINDS[self.like]),
            needs_container=False,
            proof="its third command must see the damage, and its end",
        )

    def inject(self, cluster: Nodes, victims: Sequence[Broker]) -> Evidence:
        """Run the command; the witness must see the damage."""
        call = _Call(cluster, victims)
        _GUARDS.put_up(call, self.heals)
        told = call.run(self.breaks)
        return self._seen("inject", call, told, damaged=True)

    def heal(self, cluster: Nodes, victims: Sequence[Broker]) -> Evidence:
        """Run the command; the witness must no longer see the damage."""
        call = _Call(cluster, victims)
        told = call.run(self.heals)
        _GUARDS.dismiss(call)
        return self._seen("heal", call, told, damaged=False)

    def _seen(
        self, phase: Literal["inject", "heal"], call: "_Call", told: str, *, damaged: bool
    ) -> Evidence:
        looks: list[tuple[bool, str]] = []

        def is_seen() -> bool:
            looks.append(call.look(self.sees))
            return looks[-1][0] is damaged

        observed = True
        try:
            wait_until(
                is_seen, timeout_s=_SEEN_S, what="the witness to see it", interval_s=_LOOK_EVERY_S
            )
        except WaitTimeout:
            observed = False
        return Evidence(
            phase,
            observed=observed,
            details={"said": told, "witness": looks[-1][1], "looks": len(looks)},
            question="" if observed else f"does {self.sees!r} end in 0 just while there is damage?",
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """What commands are told of a fault: whom it hits, and under which lease."""

    cluster: Nodes
    victims: Sequence[Broker]

    @property
    def fault_id(self) -> str:
        return self.cluster.lease.fault_id

    def words(self, command: str) -> list[str]:
        return [*shlex.split(command), *(str(broker.node_id) for broker in self.victims)]

    def variables(self) -> dict[str, str]:
        lease = self.cluster.lease
        return {
            "KAFKA_CHAOS_FAULT": lease.fault_id,
            "KAFKA_CHAOS_HOLD_S": f"{lease.hold_s:g}",
            "KAFKA_CHAOS_ADDRESSES": " ".join(broker.container for broker in self.victims),
        }

    def run(self, command: str) -> str:
        """Run a command and return what it printed.

        Raises:
            ClusterBroken: it failed, or did not return in time.
        """
        code, said = self._ended(command)
        if code != 0:
            raise ClusterBroken(f"{command!r} ended with {code}: {said or 'it said nothing'}")
        return said

    def look(self, command: str) -> tuple[bool, str]:
        """Return whether a command ended in 0, and what it printed.

        Raises:
            ClusterBroken: it could not be run, or did not return in time.
        """
        code, said = self._ended(command)
        return code == 0, said

    def _ended(self, command: str) -> tuple[int, str]:
        try:
            child = subprocess.Popen(  # noqa: S603 (the user's own)
                self.words(command), env={**os.environ, **self.variables()}, text=True,
                errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ClusterBroken(f"{command!r} cannot be run: {error.strerror}.") from error
        with child:
            try:
                out, _ = child.communicate(timeout=_COMMAND_S)
            except subprocess.TimeoutExpired as error:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                raise ClusterBroken(
                    f"{command!r} did not return within {_COMMAND_S:g} s."
                ) from error
        return child.returncode, out.strip()[-_SHOWN:]


class _Guards:
    """The guards of faults in force, by the fault's id: each a process, `faults.heal_guard`."""

    def __init__(self) -> None:
        self._guards: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()

    def put_up(self, call: _Call, heal: str) -> None:
        order: Mapping[str, Any] = {
            "command": call.words(heal),
            "variables": call.variables(),
            "limit_s": call.cluster.lease.limit_s,
        }
        # In a session of its own: what ends us does not end it.
        guard = subprocess.Popen(
            [sys.executable, "-m", "faults.heal_guard"], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert guard.stdin is not None  # noqa: S101 (asked for)
        guard.stdin.write(json.dumps(order) + "\n")
        guard.stdin.flush()
        with self._lock:
            self._guards[call.fault_id] = guard

    def dismiss(self, call: _Call) -> None:
        with self._lock:
            guard = self._guards.pop(call.fault_id, None)
        if guard is None:
            return
        with suppress(BrokenPipeError):
            guard.communicate("healed\n")


_GUARDS = _Guards()
