"""A file that one worker parses as a whole: its suspected keys and its lags, found on the way."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

import pyarrow as pa

from verifiers.ops.first_look import suspects_of
from verifiers.ops.lag_tracker import LagTracker
from verifiers.ops.parser import OP_COLUMNS, WITH_KEYS, Row, Stretch
from verifiers.ops.schema import LAG, SUSPECT

_LOG = logging.getLogger(__name__)

MOST_SUSPECTS = 1_000
"""A file with more suspected keys than this has all of its keys checked."""

SUSPECT_COLUMNS = ("row", "key", "value")
LAG_COLUMNS = ("row", "process", "key", "value", "invoke_ns", "op")


class WholeFile:
    """The ops and values of one file, kept in memory until all of it is parsed."""

    def __init__(self) -> None:
        self._mops: list[pa.RecordBatch] = []
        self._assigns: list[tuple[int, int, Collection[str]]] = []
        self._lags = LagTracker()

    def keep(
        self, ops: Iterable[Row], stretches: Iterable[Stretch], mops: Iterable[pa.RecordBatch]
    ) -> None:
        """Keep some rows in OP_COLUMNS, their values, and the same as rows of MOPS_SCHEMA."""
        self._mops += mops
        touched: dict[int, dict[str, int]] = defaultdict(dict)
        for stretch in stretches:
            highest = max((offset for offset in stretch.offset if offset is not None), default=None)
            if highest is not None:
                of_op = touched[stretch.op]
                of_op[stretch.key] = max(highest, of_op.get(stretch.key, highest))
        for row in ops:
            op = dict(zip(OP_COLUMNS, row, strict=True))
            if op["type"] not in ("ok", "info") or op["f"] is None:
                continue
            if op["f"] in WITH_KEYS:
                self._assigns.append((op["op"], op["process"], op["keys"]))
            self._lags.take(
                op=op["op"],
                process=op["process"],
                ok=op["type"] == "ok",
                f=op["f"],
                invoke_ns=op["invoke_ns"],
                complete_ns=op["complete_ns"],
                keys=op["keys"] or (),
                touched=touched[op["op"]],
            )

    def lags(self) -> list[Row]:
        """Return the worst lags, as rows in LAG_COLUMNS."""
        return [
            (LAG, process, key, lag, time, op) for process, key, lag, time, op in self._lags.worst()
        ]

    def suspects(self) -> list[Row]:
        """Return the keys that are suspected, as rows in SUSPECT_COLUMNS."""
        if not self._mops:
            return []
        try:
            found = suspects_of(pa.Table.from_batches(self._mops), self._assigns)
        except Exception:  # noqa: BLE001  (logged)
            # The first look decides nothing: without it the checkers check every key.
            _LOG.exception("The first look at the keys crashed: the checkers look at all of them.")
            return [(SUSPECT, None, 0)]
        if len(found) > MOST_SUSPECTS:
            return [(SUSPECT, None, 0)]
        return [(SUSPECT, key, int(against)) for key, against in found]
