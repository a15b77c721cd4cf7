"""What a run's history says of its records: plain sets and counts, no Spark."""

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds


def values(run_dir: Path, dataset: str) -> Counter[int]:
    """Return how often each value stands in a dataset."""
    table = ds.dataset(run_dir / "history" / dataset).to_table(columns=["value"])
    return Counter(table["value"].to_pylist())


def lost_records(run_dir: Path) -> dict[int, int | None]:
    """Return what was acknowledged and is not in the final read, by value: its offset, if known."""
    sends = ds.dataset(run_dir / "history" / "send").to_table(columns=["value", "type", "offset"])
    acked = sends.filter(pc.equal(sends["type"], "ok"))
    final = values(run_dir, "final")
    pairs = zip(acked["value"].to_pylist(), acked["offset"].to_pylist(), strict=True)
    return {value: offset for value, offset in pairs if value not in final}
