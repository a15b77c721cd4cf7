"""The findings of many nights: which are new tonight, which go on, are rare, or are gone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.night_log import NightRun, nights_of
from harness.core.version import numbers

State = Literal["new", "ongoing", "rare", "resolved"]

LOOKED_AT = 10
"""So many nights, the last one included, say whether a finding goes on."""
_ONGOING_SHARE = 0.25
_RANK: dict[State, int] = {"new": 0, "ongoing": 1, "rare": 2, "resolved": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFinding:
    """One finding, over all nights.

    Attributes:
        fingerprint: what it is.
        state: `new`: the last night was the first to show it; else, of the last ten nights,
            `ongoing`: at least a quarter showed it; `rare`: fewer did; `resolved`: none did.
        runs: all runs that showed it, the newest first.
        tonight: how many of them were of the last night.
        looked_at: how many nights there are to look at, ten at most.
        seen_in: how many of these showed it.
        known: the entry that makes it a known one wherever it was found; None if none does.
    """

    fingerprint: Fingerprint
    state: State
    runs: Sequence[NightRun]
    tonight: int
    looked_at: int
    seen_in: int
    known: Known | None = None

    @property
    def kafka(self) -> list[str]:
        """The versions that showed it, the oldest first."""
        return sorted({run.result.kafka for run in self.runs}, key=numbers)

    def document(self, *, night: str) -> dict[str, Any]:
        """Return it as a JSON object; `night` is the one that is told of."""
        tonight = [run for run in self.runs if run.night == night]
        return {
            **self.fingerprint.document(),
            "state": self.state,
            "known": None if self.known is None else self.known.document(),
            "nights": len({run.night for run in self.runs}),
            "first_night": self.runs[-1].night,
            "last_night": self.runs[0].night,
            "kafka": self.kafka,
            "tonight": [
                {
                    "run": run.result.run,
                    "kafka": run.result.kafka,
                    "seed": run.result.settings.get("seed"),
                    "report": run.report,
                }
                for run in tonight
            ],
        }


def findings_of(
    runs: Sequence[NightRun], *, night: str, known: KnownFindings | None = None
) -> list[NightFinding]:
    """Return every finding of some nights; new ones first, and of a state the last seen first.

    Args:
        runs: of all nights up to the last one.
        night: the name of the last one.
        known: the findings that are known.
    """
    nights = nights_of(runs)
    last = nights[-LOOKED_AT:]
    shown: dict[Fingerprint, list[NightRun]] = defaultdict(list)
    for run in runs:
        for fingerprint in run.result.fingerprints:
            shown[fingerprint].append(run)
    found = []
    for fingerprint, showing in shown.items():
        ordered = sorted(showing, key=lambda run: (run.night, run.result.run), reverse=True)
        seen = {run.night for run in showing}
        finding = NightFinding(
            fingerprint=fingerprint,
            state=_state(seen, last, night),
            runs=ordered,
            tonight=sum(run.night == night for run in showing),
            looked_at=len(last),
            seen_in=len(seen.intersection(last)),
            known=_known(fingerprint, ordered, known or KnownFindings(), night),
        )
        found.append(finding)
    found.sort(key=lambda each: (each.runs[0].night, each.tonight), reverse=True)
    return sorted(found, key=lambda each: _RANK[each.state])


def _state(seen: set[str], last: Sequence[str], night: str) -> State:
    if seen == {night}:
        return "new"
    count = len(seen.intersection(last))
    if not count:
        return "resolved"
    return "ongoing" if count / len(last) >= _ONGOING_SHARE else "rare"


def _known(
    fingerprint: Fingerprint, ordered: Sequence[NightRun], known: KnownFindings, night: str
) -> Known | None:
    """Return the entry of a finding; None if it was found tonight where it should not be."""
    tonight = [run for run in ordered if run.night == night] or ordered[:1]
    entries = [known.of(fingerprint, kafka=run.result.kafka) for run in tonight]
    return entries[0] if all(entries) else None
