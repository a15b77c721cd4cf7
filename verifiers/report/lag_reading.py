"""How far consumers were behind the high watermark over time, as their own history tells."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from verifiers.report import fields
from verifiers.report.fields import Json
from verifiers.report.model import Lag, Partition

_MOST_ROWS = 2_000_000
"""Of more polled records the report does not wait for the lag."""
_GROUP = "group"
_COLUMNS = ["topic", "partition", "offset", "time_ns"]

_Progress = Mapping[Partition, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
"""By partition: times, and the offset behind the furthest record that was polled until then."""


def lags(
    run_dir: Path, run: Json, samples: Sequence[Json], origin_ns: int, until_s: float
) -> tuple[Lag, ...]:
    """Return the lag of each reader, in records, whenever the high watermarks were sampled.

    A consumer that was told what to read is a reader, and so are all who have subscribed together.
    Of a partition whose leader did not answer the lag is that known last.

    Args:
        run_dir: the folder of the run.
        run: its run.json.
        samples: the lines of its samples.jsonl.
        origin_ns: the zero of the time axis.
        until_s: the consumers are told to end then.
    """
    rounds = list(_rounds(samples))
    found = []
    for reader, files in _files(run_dir, run).items():
        if sum(pq.read_metadata(file).num_rows for file in files) > _MOST_ROWS:
            continue
        progress = _progress(pa.concat_tables(pq.read_table(f, columns=_COLUMNS) for f in files))
        behind: dict[Partition, int] = {}
        line = []
        for at_ns, marks in rounds:
            at_s = (at_ns - origin_ns) / 1e9
            if at_s > until_s:
                break
            behind.update(
                {place: max(0, mark - _position(progress, place, at_ns)) for place, mark in marks}
            )
            line.append((at_s, sum(behind.values())))
        found.append(Lag(reader=reader, records=tuple(line)))
    return tuple(found)


def _files(run_dir: Path, run: Json) -> dict[str, list[Path]]:
    """Return the sealed files of what each reader polled."""
    files: dict[str, list[Path]] = {}
    for client in fields.mappings(run, "clients"):
        process, mode = client.get("process"), client.get("mode")
        file = run_dir / "history" / "poll" / f"{process}.parquet"
        if client.get("role") == "consumer" and file.is_file():
            reader = _GROUP if mode == "subscribe" else f"client {process}"
            files.setdefault(reader, []).append(file)
    return files


def _rounds(samples: Sequence[Json]) -> Iterator[tuple[int, list[tuple[Partition, int]]]]:
    """Yield the high watermarks that were asked for at one time, and when they had been told."""
    marks = (line for line in samples if line.get("sample") == "high-watermark")
    for _, together in groupby(marks, itemgetter("asked_ns")):
        told = list(together)
        places = [((line["topic"], line["partition"]), int(line["offset"])) for line in told]
        yield max(int(line["answered_ns"]) for line in told), places


def _progress(polled: pa.Table) -> _Progress:
    polled = polled.sort_by("time_ns")
    places = polled.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    topics = np.array(polled["topic"].to_pylist(), dtype=object)
    numbers, offsets, times = (polled[name].to_numpy() for name in _COLUMNS[1:])
    progress = {}
    for place in places:
        here = (topics == place["topic"]) & (numbers == place["partition"])
        ends = np.maximum.accumulate(offsets[here] + 1)
        progress[place["topic"], place["partition"]] = (times[here], ends)
    return progress


def _position(progress: _Progress, place: Partition, at_ns: int) -> int:
    if place not in progress:
        return 0
    times, ends = progress[place]
    number = int(np.searchsorted(times, at_ns, side="right"))
    return int(ends[number - 1]) if number else 0
