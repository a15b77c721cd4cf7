"""Whether a cluster was whole again within its bound after the last healing, as run.json has it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.core.grouping import by_key

_Row = dict[str, Any]
CAUGHT_UP_S = 30.0
"""How long a replica outside the ISR must have held all that its leader held, seconds, to count as
caught up: as long as replica.lag.time.max.ms is by default.
"""


def recoveries(meta: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> list[_Row]:
    """Return the rows of the frame `recoveries`, by run.json and the lines of samples.jsonl."""
    recovery = meta.get("recovery")
    if recovery is None:
        return []
    times = {
        "from_ns": int(recovery["from_ns"]),
        "to_ns": int(recovery["to_ns"]),
        "bound_ns": round(float(recovery["bound_s"]) * 1e9),
    }
    if not recovery["whole"] and not recovery["answered"]:
        return [{"topic": "", "kind": "unanswered", **times}]
    rows: list[_Row] = [{"topic": "", "kind": None, **times}]
    if not recovery["whole"]:
        span = (times["from_ns"], times["to_ns"])
        rows += [{**row, **times} for row in _missing(recovery, samples, span)]
    return rows


def recovery_in(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return, for verdict.json, how long the cluster took to be whole, and how long it may take.

    That is `bound_s`, `took_s` and `whole`; None where run.json has no record of it.
    """
    recovery = meta.get("recovery")
    if recovery is None:
        return None
    took_ns = int(recovery["to_ns"]) - int(recovery["from_ns"])
    return {
        "bound_s": recovery["bound_s"],
        "took_s": round(took_ns / 1e9, 3),
        "whole": bool(recovery["whole"]),
    }


def _missing(
    recovery: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], span: tuple[int, int]
) -> Iterator[_Row]:
    unregistered = {int(node) for node in recovery["unregistered"]}
    left_down = {int(node) for node in recovery["left_down"]}
    told: set[int] = set()
    for state in recovery["partitions"]:
        place = {"topic": str(state["topic"]), "partition": int(state["partition"])}
        known = {"leader": state["leader"], "isr": ",".join(map(str, state["isr"]))}
        if state["leader"] is None:
            yield {**place, **known, "kind": "leaderless"}
            continue
        for node in sorted(set(state["replicas"]) - set(state["isr"]) - left_down):
            told.add(node)
            since_ns = _caught_up_since(samples, place, int(state["leader"]), node, span)
            caught_up_ns = None if since_ns is None else span[1] - since_ns
            kind = "behind"
            if node in unregistered:
                kind = "unregistered"
            elif caught_up_ns is not None and caught_up_ns >= CAUGHT_UP_S * 1e9:
                kind = "caught-up"
            yield {**place, **known, "missing": node, "kind": kind, "caught_up_ns": caught_up_ns}
    for node in sorted(unregistered - told):
        yield {"topic": "", "missing": node, "kind": "unregistered"}


def _caught_up_since(
    samples: Sequence[Mapping[str, Any]],
    place: Mapping[str, Any],
    leader: int,
    node: int,
    span: tuple[int, int],
) -> int | None:
    """Return since when a replica has held all that its leader held one sample earlier.

    Both are looked at in one round, one after the other, while records come in.
    """
    sampled = (
        sample
        for sample in samples
        if sample.get("sample") == "replica"
        and place.items() <= sample.items()
        and span[0] <= int(sample["asked_ns"]) <= span[1]
    )
    since_ns, before = None, None
    for asked_ns, in_round in sorted(by_key(sampled, lambda line: int(line["asked_ns"])).items()):
        by_broker = {int(line["broker"]): int(line["log_end"]) for line in in_round}
        if leader not in by_broker or node not in by_broker:
            since_ns, before = None, None
            continue
        holds_all = before is not None and by_broker[node] >= before
        since_ns = (since_ns or asked_ns) if holds_all else None
        before = by_broker[leader]
    return since_ns
