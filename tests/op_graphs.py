"""Small op histories written by hand or drawn, and what cycles they have, by brute force."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from hypothesis import strategies as st

Edge = tuple[str, int, int]
"""Type, and the completions of the ops that it leads from and to."""

KINDS = (
    ("G0", "PL-1-cycle-exists", {"ww"}),
    ("G1c", "PL-2-cycle-exists", {"ww", "wr"}),
    ("G0-realtime", "strong-PL-1-cycle-exists", {"ww", "realtime"}),
    ("G1c-realtime", "strong-PL-2-cycle-exists", {"ww", "wr", "realtime"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A completed op: `did` are its micro-ops, (kind, key, value)."""

    invoked: int
    op: int
    did: Sequence[tuple[str, str, int]]
    type: str = "ok"
    f: str = "txn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A history: its ops, and the version order of each key as (index, value)."""

    deeds: Sequence[Deed]
    order: dict[str, list[int]]

    def writer(self, key: str, value: int) -> tuple[Deed, int] | None:
        """Return the last op that sent a value, and its micro-op."""
        found = [
            (deed, mop)
            for deed in self.deeds
            for mop, did in enumerate(deed.did)
            if did == ("send", key, value)
        ]
        return max(found, key=lambda one: (one[0].op, one[1]), default=None)

    def reads(self) -> Iterator[dict[str, Any]]:
        """Yield the wr edges."""
        for deed in self.deeds:
            for mop, (kind, key, value) in enumerate(deed.did):
                written = self.writer(key, value) if kind == "poll" else None
                if written is not None and written[0].op != deed.op:
                    yield _edge("wr", key, value, None, written, (deed, mop))

    def writes(self) -> Iterator[dict[str, Any]]:
        """Yield the ww edges."""
        for key, values in self.order.items():
            last = {value: index for index, value in enumerate(values)}
            for index, (value, after) in enumerate(pairwise(values), 1):
                first, second = self.writer(key, value), self.writer(key, after)
                if first and second and last[after] == index and first[0].op != second[0].op:
                    yield _edge("ww", key, value, after, first, second)

    def times(self) -> Iterator[Edge]:
        """Yield all realtime edges."""
        for first, second in product(self.deeds, repeat=2):
            if first.type == "ok" and first.op < second.invoked:
                yield ("realtime", first.op, second.op)


def _edge(
    kind: str,
    key: str,
    value: int,
    next_value: int | None,
    source: tuple[Deed, int],
    target: tuple[Deed, int],
) -> dict[str, Any]:
    ends = {
        f"{name}_{field}": told
        for name, (deed, mop) in (("from", source), ("to", target))
        for field, told in (
            ("op", deed.op), ("mop", mop), ("ok", deed.type == "ok"), ("invoked", deed.invoked),
        )
    }  # fmt: skip
    return {"kind": kind, "key": key, "value": value, "next_value": next_value, **ends}


def edges_of(past: Past, *, ww_deps: bool) -> set[Edge]:
    """Return every edge of a history."""
    told = [*past.reads(), *(past.writes() if ww_deps else ())]
    return {(e["kind"], e["from_op"], e["to_op"]) for e in told} | set(past.times())


def components(edges: set[Edge]) -> set[frozenset[int]]:
    """Return the strongly connected components of more than one op (Warshall's closure)."""
    ops = {op for _, *ends in edges for op in ends}
    reach = {(a, b) for _, a, b in edges}
    for middle, a, b in product(ops, repeat=3):
        if (a, middle) in reach and (middle, b) in reach:
            reach.add((a, b))
    return {
        frozenset(b for b in ops if (a, b) in reach and (b, a) in reach)
        for a in ops
        if (a, a) in reach
    }


def expected(past: Past, *, ww_deps: bool) -> Counter[str]:
    """Return how many components have a cycle of each kind, by the weakest kinds of each."""
    edges = edges_of(past, ww_deps=ww_deps)
    if not edges:
        return Counter({"empty-transaction-graph": 1})
    found: Counter[str] = Counter()
    for component in components(edges):
        inner = {e for e in edges if e[1] in component and e[2] in component}
        has = {name: cyclic(inner, types) for name, _, types in KINDS}
        if has["G0"]:
            names = {"G0"}
        else:
            names = {n for n in ("G1c", "G0-realtime") if has[n]} or {"G1c-realtime"}
        for name, companion, _ in KINDS:
            if name in names:
                found[name] += 1
                found[companion] += 1
    return found


def cyclic(edges: set[Edge], types: set[str]) -> bool:
    """Tell whether the edges of some types close a cycle."""
    return bool(components({edge for edge in edges if edge[0] in types}))


def check_cycle(detail: dict[str, Any], name: str, edges: set[Edge]) -> None:
    """Demand that a cycle is one, simple, of edges that exist, and of the types of its name."""
    ops, steps = detail["cycle"], detail["steps"]
    types = {step["type"] for step in steps}
    assert ops[0] == ops[-1]
    assert len(set(ops)) == len(ops) - 1 == len(steps)
    assert [(step["from"], step["to"]) for step in steps] == list(pairwise(ops))
    assert {(step["type"], step["from"], step["to"]) for step in steps} <= edges
    assert ("wr" in types) == name.startswith("G1c")
    assert ("realtime" in types) == name.endswith("-realtime")


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Draw a history of up to 7 ops, most of them concurrent and most of them in disorder."""
    open_ops: list[int] = []
    spans: list[tuple[int, int]] = []
    clock = 0
    for _ in range(draw(st.integers(1, 7))):
        while open_ops and draw(st.integers(0, 2)) == 0:
            spans.append((open_ops.pop(draw(st.integers(0, len(open_ops) - 1))), clock))
            clock += 1
        open_ops.append(clock)
        clock += 1
    spans += [(begun, clock + n) for n, begun in enumerate(open_ops)]
    values = iter(range(100))
    sent: dict[str, list[int]] = {"0": [], "1": []}
    plans = []
    for span in spans:
        f = draw(st.sampled_from(["txn", "txn", "txn", "send", "poll"]))
        kinds = ["send", "poll"] if f == "txn" else [f]
        mops = [
            (draw(st.sampled_from(kinds)), draw(st.sampled_from(["0", "1"])))
            for _ in range(draw(st.integers(0, 4)))
        ]
        plans.append((span, f, mops))
        for kind, key in mops:
            if kind == "send":
                sent[key].append(next(values))
    left = {key: list(known) for key, known in sent.items()}
    deeds = [
        Deed(
            invoked=begun,
            op=done,
            f=f,
            type=draw(st.sampled_from(["ok", "ok", "ok", "info", "fail"])),
            did=[
                (kind, key, left[key].pop(0) if kind == "send" else draw(_value(sent[key])))
                for kind, key in mops
            ],
        )
        for (begun, done), f, mops in plans
    ]
    order: dict[str, list[int]] = {}
    for key, known in sent.items():
        order[key] = draw(st.permutations(known))
    # Now and then one of them lies in the log once more.
    again = {key: draw(st.lists(_value(known), max_size=1)) for key, known in sent.items()}
    return Past(deeds=deeds, order={key: [*order[key], *again[key]] for key in sent})


def _value(known: list[int]) -> st.SearchStrategy[int]:
    # Now and then somebody polls what nobody sent.
    return st.sampled_from([*known * 3, 1000])
