"""Which faults explain which answers, and for how long."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from harness.core.fault import FaultTraits
from verifiers.checkers.client_gave_up import FENCED, REFUSED, SEQUENCE
from verifiers.frames.answers import ANY_FAULT, FAMILIES, SERVER_AT_REST
from verifiers.oracle.table import chapter_of
from verifiers.timeline.explanations import AFTER_S, explanations

S = 1_000_000_000
FOR_EVER = (1 << 63) - 1


def decided(fault_id: str, at_s: int, **traits: Any) -> dict[str, Any]:
    return {"event": "decided", "id": fault_id, "time_ns": at_s * S, "traits": traits}


def healed(fault_id: str, at_s: int) -> dict[str, Any]:
    return {"event": "healed", "id": fault_id, "time_ns": at_s * S}


def stretches(family: str, *lines: dict[str, Any]) -> list[tuple[int, int]]:
    (row,) = [row for row in explanations(lines, [7]) if row["family"] == family]
    assert row["process"] == 7
    return list(zip(row["begins_ns"], row["ends_ns"], strict=True))


def test_every_error_has_one_family_and_is_one_of_the_clients() -> None:
    errors = [error for family in FAMILIES for error in family.errors]

    assert len(set(errors)) == len(errors)
    assert [e for e in (*errors, *FENCED, *SEQUENCE, *REFUSED) if not hasattr(KafkaError, e)] == []


def test_every_family_is_explained_by_traits_that_there_are_and_ruled_on() -> None:
    known = {ANY_FAULT, *FaultTraits.__dataclass_fields__}

    assert {trait for family in FAMILIES for trait in family.explained_by} <= known
    assert set(chapter_of("unexplained-answer").kinds) == {
        *(family.name for family in FAMILIES),
        SERVER_AT_REST,
    }


def test_any_fault_explains_an_unknown_error_until_requests_sent_in_it_have_run_out() -> None:
    lines = [decided("1", 5, cuts_links=True), healed("1", 9)]

    assert stretches("server", *lines) == [(5 * S, (9 + int(AFTER_S)) * S)]


def test_a_fault_that_was_never_healed_explains_to_the_end() -> None:
    assert stretches("server", decided("1", 5)) == [(5 * S, FOR_EVER)]


@pytest.mark.parametrize("trait", ["destroys_data", "damages_data"])
def test_bytes_that_were_damaged_stay_so(trait: str) -> None:
    lines = [decided("1", 5, **{trait: True}), healed("1", 9)]

    assert stretches("bytes", *lines) == [(5 * S, FOR_EVER)]


@pytest.mark.parametrize("family", ["bytes", "storage", "record", "settings"])
def test_a_cut_link_damages_neither_bytes_nor_disks(family: str) -> None:
    assert stretches(family, decided("1", 5, cuts_links=True), healed("1", 9)) == []


def test_a_disk_that_failed_explains_what_a_broker_cannot_store() -> None:
    assert stretches("storage", decided("1", 5, fails_disk=True)) == [(5 * S, FOR_EVER)]
    assert stretches("bytes", decided("1", 5, fails_disk=True)) == []
