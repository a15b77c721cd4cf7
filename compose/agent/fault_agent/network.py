"""Cuts: packet filter rules in the network namespaces of the brokers' containers."""

import ipaddress
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from fault_agent import AgentError

FILTER_S = 20
_LONGEST_BYTES = 65535
_MOST_VERSION = 63
"""No request of Kafka has so many versions; what looks like one by chance seldom passes."""
_HOOKS = {"both": ("INPUT", "OUTPUT"), "in": ("INPUT",), "out": ("OUTPUT",)}
_SIDES = {"INPUT": "-s", "OUTPUT": "-d"}
_COUNTED = re.compile(r"\[(\d+):\d+\] -A (\S+) .*-j DROP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one container is cut off from.

    Attributes:
        container_pid: first process of the container.
        peers: IPv4 addresses; None for everybody who is not spared, and then ports must be named.
        ports: TCP ports; None for every packet.
        spared: IPv4 addresses whose packets pass; the container's own always do.
        direction: "in" drops what comes from the peers, "out" what goes to them.
        longer_than: only IP packets of more bytes are dropped; 0 for all. The filter sees what the
            network stack hands over, which may be many segments merged into one packet.
        api_key: only packets that begin a request of this kind are dropped, as Kafka numbers them,
            on their way to one of the ports; None for all.
    """

    container_pid: int
    peers: tuple[str, ...] | None = None
    ports: tuple[int, ...] | None = None
    spared: tuple[str, ...] = ()
    direction: str = "both"
    longer_than: int = 0
    api_key: int | None = None

    def __post_init__(self) -> None:
        """Reject what the packet filter would.

        Raises:
            AgentError: a peer is no IPv4 address, there is no peer or port, or a direction or a
                length that cannot be; or requests that are not dropped where they come in.
        """
        for peer in (*(self.peers or ()), *self.spared):
            try:
                ipaddress.IPv4Address(peer)
            except ValueError:
                raise AgentError(f"The peer {peer!r} is no IPv4 address.") from None
        if self.peers == () or self.ports == () or (self.peers is None and self.ports is None):
            raise AgentError("A cut without peers or without ports would cut nothing.")
        if self.direction not in _HOOKS:
            raise AgentError(f"The direction {self.direction!r} is none of {', '.join(_HOOKS)}.")
        if self.api_key is not None and (self.ports is None or self.direction != "in"):
            raise AgentError("Requests are dropped where they come in, at a port.")
        if not 0 <= self.longer_than < _LONGEST_BYTES:
            raise AgentError(f"No packet is longer than {self.longer_than} bytes.")

    @property
    def hooks(self) -> tuple[str, ...]:
        """The chains of the kernel that this one is called from."""
        return _HOOKS[self.direction]


def drop_rules(chain: str, cut: Cut, comment: str) -> str:
    """Return the input of `iptables-restore --noflush` that makes a cut.

    One chain serves both hooks: in INPUT the peer is the source, in OUTPUT the destination. A port
    may be the peer's or our own: of two brokers either may have opened the connection.
    """
    length = (
        f" -m length --length {cut.longer_than + 1}:{_LONGEST_BYTES}" if cut.longer_than else ""
    )
    matches = []
    # What a container says to itself is no link to anybody.
    passing = ["-i lo", "-o lo"] if cut.peers is None else []
    passing += [f"{side} {address}" for address in cut.spared for side in ("-s", "-d")]
    for peer in ("",) if cut.peers is None else cut.peers:
        for side in [_SIDES[hook] for hook in cut.hooks]:
            whom = f"{side} {peer} " if peer else ""
            if cut.ports is None:
                matches.append(whom.strip())
            else:
                where = ("sport", "dport") if cut.api_key is None else ("dport",)
                ends = [f"--{end} {port}" for port in cut.ports for end in where]
                matches += [f"{whom}-p tcp {end}" for end in ends]
    request = "" if cut.api_key is None else f" -m u32 --u32 {_begins_request(cut.api_key)}"
    words = re.sub(r"[^\w.:-]", "-", comment)[:200]
    return "\n".join(
        [
            "*filter",
            f":{chain} - [0:0]",
            *(f"-A {chain} {match} -j RETURN" for match in passing),
            *(f"-A {chain} {match}{length}{request} -m comment --comment {words} -j DROP"
              for match in dict.fromkeys(matches)),
            *(f"-I {hook} 1 -j {chain}" for hook in cut.hooks),
            "COMMIT",
            "",
        ]
    )  # fmt: skip


def _begins_request(api_key: int) -> str:
    """Return what matches the first bytes of a request: its size, then its kind and version."""
    payload = "0>>22&0x3C@12>>26&0x3C@"
    return f'"{payload}4>>16={api_key} && {payload}4&0xFFFF=0:{_MOST_VERSION}"'


def make_cut(chain: str, cut: Cut, comment: str) -> None:
    """Put a cut in force under the name of a new chain.

    Raises:
        AgentError: the packet filter refused.
    """
    _inside(cut.container_pid, ["iptables-restore", "--noflush", "-w", "3"],
            drop_rules(chain, cut, comment))  # fmt: skip


def dropped_packets(container_pid: int, chain: str) -> int:
    """Return how many packets a chain has dropped; 0 if there is no such chain."""
    return count_packets(_inside(container_pid, ["iptables-save", "-c", "-t", "filter"]), chain)


def count_packets(saved: str, chain: str) -> int:
    """Return how many packets a chain has dropped, from the output of `iptables-save -c`."""
    counts = [m for line in saved.splitlines() if (m := _COUNTED.match(line)) and m[2] == chain]
    return sum(int(match[1]) for match in counts)


def take_away(container_pid: int, chain: str) -> str | None:
    """Remove a chain and its hooks; return a note if it is not there.

    Raises:
        AgentError: the packet filter refused.
    """
    saved = _inside(container_pid, ["iptables-save", "-t", "filter"])
    if f"\n:{chain} " not in saved:
        return f"there was no chain {chain}"
    hooks = [f"-D {hook} -j {chain}" for hook in ("INPUT", "OUTPUT")
             if f"-A {hook} -j {chain}\n" in saved]  # fmt: skip
    _inside(container_pid, ["iptables-restore", "--noflush", "-w", "3"],
            "\n".join(["*filter", *hooks, f"-F {chain}", f"-X {chain}", "COMMIT", ""]))  # fmt: skip
    return None


def _inside(container_pid: int, command: Sequence[str], given: str = "") -> str:
    entered = ["nsenter", f"--net=/proc/{container_pid}/ns/net", *command]
    try:
        done = subprocess.run(
            entered, input=given, capture_output=True, text=True, timeout=FILTER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AgentError(f"{command[0]} did not end within {FILTER_S} s.") from None
    if done.returncode != 0:
        raise AgentError(
            f"{command[0]} in the network of process {container_pid} failed: {done.stderr.strip()}"
        )
    return done.stdout
