"""What a long history tells of sends, as Spark's workers read it."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import BinaryType

from verifiers.frames.history import History
from verifiers.scanning.scan import scan
from verifiers.situations.sends import COLUMNS, Sends, SendsWanted, sends_in
from verifiers.spark.columns import struct

_PACKED = struct(packed=BinaryType())


def scan_sends(history: History, wanted: SendsWanted) -> Sends:
    """Return what the sends of a run that is verified alone tell; one job."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = sends_in((pa.Table.from_batches([batch]) for batch in batches), wanted)
        yield pa.RecordBatch.from_pydict({"packed": [pickle.dumps(part)]})

    sends = sends_in((), wanted)
    for row in scan(history, "send", COLUMNS, tell, _PACKED).collect():
        sends.add(pickle.loads(row["packed"]))  # noqa: S301  (our own worker wrote it)
    return sends
