"""What a plant is: an anomaly put into a copy of a run on purpose; and the registry of plants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.registry import Registry
from verifiers.planting.run_contents import FoundRow, Record
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence(FoundRow):
    """One row that a verification of the planted copy must find.

    Attributes:
        detail: facts that its detail must hold, among others.
        because: empty for what is planted; else why it follows by definition from what is.
    """

    detail: Mapping[str, str] = field(default_factory=dict)
    because: str = ""

    @property
    def in_words(self) -> str:
        """For a sentence: lost-write at orders/0 offset 17, value 42."""
        where = "" if self.topic is None else f" at {self.topic}"
        where += "" if self.partition is None else f"/{self.partition}"
        facts = [f"offset {self.offset}"] if self.offset is not None else []
        facts += [f"value {self.value}"] if self.value is not None else []
        facts += [f"process {self.process}"] if self.process is not None else []
        facts += [f"kind {self.kind}"] if self.kind else []
        return f"{self.anomaly}{where} {', '.join(facts)}".rstrip()


def offence_at(
    anomaly: str,
    tp: TopicPartition,
    offset: int | None = None,
    value: int | None = None,
    process: int | None = None,
    **more: Any,  # noqa: ANN401  (the other attributes)
) -> Offence:
    """Return an offence at a place of a partition."""
    topic, partition = tp
    return Offence(
        anomaly=anomaly, topic=topic, partition=partition, offset=offset, value=value,
        process=process, **more,
    )  # fmt: skip


def offence_of(anomaly: str, record: Record, **more: Any) -> Offence:  # noqa: ANN401  (as above)
    """Return an offence about a record, at its offset, by its producer unless `more` says so."""
    return replace(
        offence_at(anomaly, record.topic_partition, record.offset, record.value, record.process),
        **more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The change that a plant made to the copy.

    Attributes:
        told: in one sentence.
        offences: all that a verification must find on top of what the run has without it; none of
            a plant that takes evidence away.
    """

    told: str
    offences: tuple[Offence, ...] = ()


def planted(told: str, *offences: Offence) -> Planted:
    """Return what was done to the copy, and every offence that follows from it."""
    return Planted(told=told, offences=offences)


PlantFunction = Callable[[RunCopy], Planted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """One way to bring about one anomaly, or to take evidence away.

    Attributes:
        name: the checker that must find it, or the rule that it must break, with a word in brackets
            where that has several plants.
        checker: that checker; empty if evidence is taken away.
        rule: that rule of adequacy; empty if an anomaly is brought about.
        apply: changes a copy; raises NothingToPlant if the run has nothing that it could change.
    """

    name: str
    checker: str = ""
    rule: str = ""
    apply: PlantFunction

    @property
    def subject(self) -> str:
        """The checker or the rule that is put to the test."""
        return self.checker or self.rule


PLANTS: Registry[Plant] = Registry("plant", "verifiers.planting.plants")


def plant(checker: str, kind: str = "") -> Callable[[PlantFunction], PlantFunction]:
    """Return a decorator that registers a function as a plant for a checker.

    Args:
        checker: its registered name.
        kind: what tells it apart from the checker's other plants; empty for the first one.
    """
    return _registering(kind, checker=checker)


def evidence_plant(rule: str, kind: str = "") -> Callable[[PlantFunction], PlantFunction]:
    """Return a decorator that registers a function as a plant that breaks a rule of adequacy.

    Args:
        rule: its registered name.
        kind: what tells it apart from the rule's other plants; empty for the only one.
    """
    return _registering(kind, rule=rule)


def _registering(
    kind: str, *, checker: str = "", rule: str = ""
) -> Callable[[PlantFunction], PlantFunction]:
    subject = checker or rule
    name = f"{subject} ({kind})" if kind else subject

    def decorate(apply: PlantFunction) -> PlantFunction:
        PLANTS.register(name)(Plant(name=name, checker=checker, rule=rule, apply=apply))
        return apply

    return decorate
