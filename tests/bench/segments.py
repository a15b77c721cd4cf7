"""How fast segments are read: their headers, and every batch against its checksum.

Run as a program: `kafka-chaos bench segments [--mib N]`. It writes segments of batches of
several sizes and formats, and prints one JSON document: megabytes of log a second of processor
time of one core. Reading with checksums is what a verification does.
"""

import argparse
import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.batches import old, v2, value_of
from verifiers.replicas import segments

FORMATS = ((2, 1), (2, 3), (2, 10), (2, 200), (1, 1))
"""Magic, and records a batch."""


def make(path: Path, *, magic: int, records: int, size_bytes: int) -> int:
    """Write a segment of equal batches; return how long a batch is."""
    values = [value_of(1, number) for number in range(records)]
    batch = v2(0, values) if magic == 2 else old(0, values, magic=magic)
    count = size_bytes // len(batch)
    content = bytearray(batch * count)
    step, offsets = len(batch) // (1 if magic == 2 else records), records if magic == 2 else 1
    for number in range(len(content) // step):
        struct.pack_into(">q", content, number * step, number * offsets)
    path.write_bytes(content)
    return step


def speed(path: Path, read: Callable[[Path], Any]) -> float:
    """Return the megabytes a second of processor time, the best of three."""
    best = 0.0
    for _ in range(3):
        begin_ns = time.process_time_ns()
        read(path)
        best = max(best, path.stat().st_size / 1e6 / ((time.process_time_ns() - begin_ns) / 1e9))
    return round(best, 1)


def whole(path: Path) -> int:
    """Read a segment as a verification does."""
    return sum(rows.num_rows for rows in segments.read_headers(path))


def headers(path: Path) -> int:
    """Read a segment without holding its batches against their checksums."""
    with patch.object(segments, "_checksums", _no_checksums):
        return whole(path)


def _no_checksums(_: object, places: list[int], *others: object) -> Any:
    return np.zeros(len(places), dtype=np.int64)


def main(arguments: list[str]) -> int:
    """Measure all, and print one document; there is no goal."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench segments", description=__doc__)
    parser.add_argument("--mib", type=int, default=48)
    size_bytes = parser.parse_args(arguments).mib * 1024**2
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{0:020}.log"
        for magic, records in FORMATS:
            batch_bytes = make(path, magic=magic, records=records, size_bytes=size_bytes)
            found.append(
                {
                    "magic": magic,
                    "batch_bytes": batch_bytes,
                    "headers_mb_per_s": speed(path, headers),
                    "with_checksums_mb_per_s": speed(path, whole),
                }
            )
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0
