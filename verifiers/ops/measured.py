"""The metrics of one op history, for its document and its line on the console."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verifiers.ops.metrics import (
    CAUSES,
    CONSUMED,
    LAGS,
    OF_KEY,
    OF_PROCESS,
    REPEATED,
    WORST,
    Record,
)

_MOST_CAUSES = 3
_NO_LAG: Record = {"time": 0, "lag": 0}
_UNSAID = "no reason recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The metrics of one history, which are no part of the verdict.

    `records` are by measure, in the order of their ranks; of what did not happen there are none.
    `crashes` are sentences by part of the document that could not be measured.
    """

    records: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    crashes: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return `metrics` of the document (docs/op-history.md)."""
        document: dict[str, Any] = {
            WORST: _with_seconds(self._worst or _NO_LAG),
            LAGS: {
                "processes": self._many(OF_PROCESS),
                "keys": self._many(OF_KEY),
                "by-process": [_with_seconds(record) for record in self._of(OF_PROCESS)],
                "by-key": [_with_seconds(record) for record in self._of(OF_KEY)],
            },
            CONSUMED: {
                "distribution": {
                    str(record["times"]): record["values"] for record in self._of(CONSUMED)
                },
                "repeated": self._many(REPEATED),
                "examples": [_bare(record) for record in self._of(REPEATED)],
            },
            CAUSES: {
                "distinct": self._many(CAUSES),
                "causes": [
                    {"error": cause.get("error"), "ops": cause["ops"]} for cause in self._of(CAUSES)
                ],
            },
        }
        for part in self.crashes:
            document |= dict.fromkeys((WORST, LAGS) if part == LAGS else (part,))
        return document | ({"crashed": list(self.crashes.values())} if self.crashes else {})

    @property
    def sentence(self) -> str | None:
        """The metrics in one line; None if there is nothing to mention."""
        parts = []
        worst = self._worst
        if worst is not None and worst["lag"] > 0:
            parts.append(
                f"worst realtime lag {worst['lag'] / 1e9:.3g} s (process {worst['process']}, "
                f"key {worst['key']}, op {worst['op']})"
            )
        again = self._many(REPEATED)
        if again:
            plural = "value" if again == 1 else "values"
            parts.append(f"{again} {plural} given out more than once to one subscriber")
        causes = self._of(CAUSES)
        if causes:
            named = [f"{_cause(cause)} ({cause['ops']})" for cause in causes[:_MOST_CAUSES]]
            more = self._many(CAUSES) - len(named)
            named += [f"{more} more"] if more > 0 else []
            parts.append(f"outcomes unknown by {', '.join(named)}")
        parts += self.crashes.values()
        return "; ".join(parts) or None

    @property
    def _worst(self) -> Record | None:
        return next(iter(self._of(WORST)), None)

    def _of(self, measure: str) -> Sequence[Record]:
        return self.records.get(measure, ())

    def _many(self, measure: str) -> int:
        """Return how many records there are in all."""
        return next((int(record["of"]) for record in self._of(measure)), 0)


def _bare(record: Record) -> dict[str, Any]:
    return {name: what for name, what in record.items() if name != "of"}


def _with_seconds(record: Record) -> dict[str, Any]:
    seconds = {f"{name}_s": record[name] / 1e9 for name in ("time", "lag")}
    return _bare(record) | seconds


def _cause(record: Record) -> str:
    error = str(record.get("error", _UNSAID))
    return error if len(error) <= 60 else f"{error[:60]}…"
