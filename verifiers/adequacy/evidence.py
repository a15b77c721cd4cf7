"""The evidence of a run, as the rules of adequacy look at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.core.run_dir import RunDir
from verifiers.adequacy.counted import Counted
from verifiers.checking.execution import Found
from verifiers.replicas.comparison import ReplicaVerdict
from verifiers.run_folder.clients import client_settings
from verifiers.run_folder.folder import RunInput, TopicPartition
from verifiers.run_folder.result import Counts
from verifiers.run_folder.sealed import Sealed
from verifiers.situations.events import RunEvents
from verifiers.timeline.frames import TimelineRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvidence:
    """One client that a run is known to have had.

    Attributes:
        process: its number.
        role: producer, consumer or reader; None where nothing says it.
        mode: of a consumer, assign or subscribe; else None.
        settings: all that it was told; empty if that is not in the folder.
    """

    process: int
    role: str | None
    mode: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that it was told to read; none if a group assigns them."""
        return [int(number) for number in self.settings.get("partitions") or ()]


@dataclass(kw_only=True)
class Evidence:
    """Everything that the rules look at.

    Attributes:
        run: what the folder holds beside the history.
        history: the sealed files, and the inventory that was made when they were sealed.
        counted: what was counted in the history.
        counts: how many operations there were in all.
        events: the faults, the leaders, and the sends around them.
        timeline: the rows of the timeline frames.
        found: what the checkers found.
        replicas: how the replicas compare.
    """

    run: RunInput
    history: Sealed
    counted: Counted
    counts: Counts
    events: RunEvents
    timeline: TimelineRows
    found: Found
    replicas: ReplicaVerdict

    @property
    def is_claim(self) -> bool:
        """Whether the script of a claim decided who sends and reads what, and when."""
        return "claim" in self.run.meta

    @property
    def planned_partitions(self) -> set[TopicPartition]:
        """The partitions of the topics that run.json names."""
        topics = self.run.meta.get("topics", [])
        return {(str(t["name"]), number) for t in topics for number in range(t["partitions"])}

    @cached_property
    def clients(self) -> Mapping[int, ClientEvidence]:
        """Every client that run.json names or whose settings lie in the folder, by process."""
        known = {int(c["process"]): dict(c) for c in self.run.meta.get("clients", [])}
        settings = client_settings(RunDir(self.run.path))
        return {
            process: ClientEvidence(
                process=process,
                role=known.get(process, {}).get("role"),
                mode=known.get(process, {}).get("mode") or settings.get(process, {}).get("mode"),
                settings=settings.get(process, {}),
            )
            for process in sorted({*known, *settings})
        }
