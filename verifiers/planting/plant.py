"""What a plant is: an anomaly put into a copy of a run on purpose; and the registry of plants."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.core.registry import Registry
from verifiers.planting.run_contents import Offence, Record
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition


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


def plant(
    checker: str = "", kind: str = "", *, rule: str = ""
) -> Callable[[PlantFunction], PlantFunction]:
    """Return a decorator that registers a function as a plant.

    Args:
        checker: the registered name of the checker that must find what is planted.
        kind: what tells it apart from the subject's other plants; may be empty for one of them.
        rule: instead of a checker, the registered name of the rule of adequacy that it breaks.
    """
    subject = checker or rule
    name = f"{subject} ({kind})" if kind else subject

    def decorate(apply: PlantFunction) -> PlantFunction:
        PLANTS.register(name)(Plant(name=name, checker=checker, rule=rule, apply=apply))
        return apply

    return decorate
