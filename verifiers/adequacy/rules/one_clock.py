"""One clock."""

from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import Answer, judged, named, not_applicable, rule


@rule("one-clock")
def one_clock(evidence: Evidence) -> Answer:
    """All clients, and the harness, read their times from one clock.

    A clock is named by the kernel's id of a machine's start, which clients write into their raw
    histories and the harness into run.json. Times of two clocks say nothing about each other, and
    realtime order, the load during faults and the timeline would be made up.
    """
    own = evidence.run.meta.get("clock")
    inventory = evidence.history.inventory or {}
    clocks = {str(entry["process"]): entry["clock"] for entry in inventory.values()}
    if own is None or not clocks:
        return not_applicable("The history was recorded before clocks were named.")
    foreign = sorted(process for process, clock in clocks.items() if clock != own)
    reasons = [
        f"The times of client {named(foreign)} were read from another clock than those of the "
        "faults: they cannot be compared. Run all clients on one machine."
    ] if foreign else []  # fmt: skip
    return judged(reasons, clocks=len({own, *clocks.values()}))
