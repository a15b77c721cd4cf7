"""The oracle over the whole product of its dimensions, and the page that is written from it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.version import numbers
from verifiers.checking.checker import CHECKERS
from verifiers.checking.contracts import COLUMNS, in_a_line, main, markdown_page
from verifiers.oracle.circumstances import ACKS_0, Circumstances
from verifiers.oracle.row import Chapter, Reason, Row, forbidden, permitted
from verifiers.oracle.table import TABLE, rule

ROOT = Path(__file__).resolve().parents[2]

# Each dimension from the weakest promise to the strongest. The replication factor has no such
# order: with one replica nobody can take over what it lacks, and nobody has a copy either.
DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "acks": ("0", "1", "all"),
    "min_isr": (1, 2, 3),
    "idempotence": (False, True),
    "retries": (None, 0),
    "max_in_flight": (5, 1),
    "unclean_election": (True, False),
    "kafka": ("0.10.2.2", "0.11.0.3", "1.0.2", "3.6.2", "3.9.1", "4.3.1"),
    "destroyed": (True, False),
    "last_known_led": (True, False),
    "clients_renew_epochs": (False, True),
}
Place = tuple[Any, ...]


def circumstances(replicas: int, place: tuple[Any, ...]) -> Circumstances | None:
    """The circumstances at a place of the product; None where they cannot be."""
    values = dict(zip(DIMENSIONS, place, strict=True))
    of_run = ("kafka", "destroyed", "last_known_led", "clients_renew_epochs")
    kafka, destroyed, led, renew = (values.pop(name) for name in of_run)
    if (led or renew) and numbers(kafka) < (4,):
        return None
    try:
        contract = Contract(replication_factor=replicas, **values)
    except UsageError:
        return None
    planned = Circumstances.planned(contract, kafka, destroys=destroyed)
    return replace(planned, last_known_led=led, clients_renew_epochs=renew)


@cache
def everywhere() -> dict[Place, Circumstances]:
    """All circumstances that can be, by their places; a place begins with the replicas."""
    places = ((replicas, *rest) for replicas in (1, 3) for rest in product(*DIMENSIONS.values()))
    found = {place: circumstances(place[0], place[1:]) for place in places}
    return {place: at for place, at in found.items() if at is not None}


@cache
def swept(anomaly: str, kind: str | None) -> dict[Place, Row]:
    """Which row rules, everywhere."""
    (chapter,) = (chapter for chapter in TABLE if chapter.anomaly == anomaly)
    return {place: chapter.rule(kind, at) for place, at in everywhere().items()}


def weaker(place: Place) -> Iterator[Place]:
    """The places one step down in one dimension."""
    for number, values in enumerate(DIMENSIONS.values(), start=1):
        step = values.index(place[number])
        if step:
            yield (*place[:number], values[step - 1], *place[number + 1 :])


KINDS = [(chapter.anomaly, kind) for chapter in TABLE for kind in (None, *chapter.kinds)]


def test_the_product_is_large_and_leaves_out_only_what_cannot_be() -> None:
    assert len(everywhere()) > 1500
    assert all(at.contract.acks == "all" or not at.contract.idempotent
               for at in everywhere().values())  # fmt: skip


@pytest.mark.parametrize(("anomaly", "kind"), KINDS)
def test_a_stronger_contract_never_permits_more(anomaly: str, kind: str | None) -> None:
    rows = swept(anomaly, kind)
    for place, row in rows.items():
        if row.permitted:
            for below in weaker(place):
                assert below not in rows or rows[below].permitted, (place, below)


@pytest.mark.parametrize("chapter", TABLE, ids=lambda chapter: chapter.anomaly)
def test_every_row_is_reached(chapter: Chapter) -> None:
    reached = [
        row for kind in (None, *chapter.kinds) for row in swept(chapter.anomaly, kind).values()
    ]

    assert {id(row) for row in reached} == {id(row) for row in chapter.rows}


@pytest.mark.parametrize("chapter", TABLE, ids=lambda chapter: chapter.anomaly)
def test_every_row_has_a_reason_a_source_and_what_of_the_contract_permits(
    chapter: Chapter,
) -> None:
    assert chapter.means.endswith(".")
    for row in chapter.rows:
        assert row.why.sentence.endswith(".")
        assert row.why.source
        assert str(row.why).endswith(f"({row.why.source}).")
        assert bool(row.permits) == row.permitted or chapter.anomaly == "unseen"


def test_every_checker_has_a_chapter_and_every_chapter_is_there_once() -> None:
    names = [chapter.anomaly for chapter in TABLE]

    assert len(names) == len(set(names))
    assert set(CHECKERS) <= set(names)


def test_what_nobody_has_heard_of_is_forbidden() -> None:
    at = Circumstances(contract=Contract(acks="0"), kafka="4.3.1")

    assert not rule("moved-to-mars", None, at).permitted
    assert not rule("duplicate", "moved-to-mars", replace(at, contract=Contract())).permitted


def test_a_chapter_that_leaves_something_open_is_refused() -> None:
    why = Reason("It is so.", "a test")
    with pytest.raises(UsageError, match="must fit always"):
        Chapter(anomaly="x", means="X.", rows=(permitted(why, given=ACKS_0),))
    with pytest.raises(UsageError, match="must fit always"):
        Chapter(anomaly="x", means="X.", kinds=("a",), rows=(forbidden(why, "a"),))
    with pytest.raises(UsageError, match="kinds it does not name: b"):
        Chapter(anomaly="x", means="X.", kinds=("a",), rows=(permitted(why, "b"), forbidden(why)))
    with pytest.raises(UsageError, match="a reason without a source"):
        Chapter(anomaly="x", means="X.", rows=(forbidden("It is so."),))


# -- single cells that versions decide -------------------------------------------------------------


@pytest.mark.parametrize(
    ("anomaly", "kind", "contract", "kafka", "permitted", "source"),
    [
        ("lost-write", None, {}, "0.10.2.2", False, "KIP-101"),
        ("lost-write", "partly-destroyed", {}, "0.10.2.2", False, "KIP-966"),
        ("lost-write", "partly-destroyed", {}, "4.0.1", False, "KIP-966"),
        ("lost-write", "partly-destroyed", {}, "4.1.0", False, "replication design"),
        ("lost-write", "explained", {}, "4.0.1", False, "replication design"),
        ("dirty-read", None, {}, "3.6.2", True, "KAFKA-15583"),
        ("dirty-read", None, {}, "3.7.0", False, "KIP-966"),
        ("duplicate", "log", {"idempotence": True}, "0.10.2.2", True, "KIP-98"),
        ("duplicate", "log", {"idempotence": True}, "0.11.0.3", False, "KAFKA-5494"),
        ("duplicate", "log", {"idempotence": True}, "1.0.2", False, "KIP-98"),
        ("nonmonotonic-send", "order", {"max_in_flight": 1}, "0.11.0.3", False, "KIP-98"),
        ("nonmonotonic-send", "lost", {}, "0.11.0.3", False, "as lost-write"),
        ("read-beyond-hw", None, {}, "2.5.0", False, "KAFKA-9835"),
        ("read-beyond-hw", None, {}, "2.5.1", False, "replication design"),
        ("G1a", "read_committed", {}, "3.9.1", False, "KAFKA-17754"),
        ("G1a", "read_uncommitted", {}, "3.9.1", True, "isolation.level"),
        ("G1a", None, {}, "3.9.1", False, "Adya"),
        ("lost-write", "destroyed", {"acks": "1", "replication_factor": 1, "min_isr": 1}, "4.3.1",
         True, "KIP-966"),
        ("dirty-read", None, {}, "unknown", False, "replication design"),
        ("broker-ended", "exited", {}, "2.0.1", False, "KAFKA-7414"),
        ("broker-ended", "exited", {}, "2.1.1", False, "KIP-112"),
        ("broker-ended", "crashed", {}, "2.0.1", False, "KIP-112"),
    ],
)  # fmt: skip
def test_versions_decide_under_a_fault_that_destroys(
    anomaly: str, kind: str | None, contract: dict[str, Any], kafka: str, permitted: bool,
    source: str,
) -> None:  # fmt: skip
    ruling = rule(anomaly, kind, Circumstances.planned(Contract(**contract), kafka, destroys=True))

    assert (ruling.permitted, source in ruling.why.source) == (permitted, True), ruling


def test_a_single_replica_loses_nothing_by_a_kill_even_under_acks_1() -> None:
    alone = Contract(acks="1", replication_factor=1, min_isr=1, unclean_election=True)
    killed = Circumstances(contract=alone, kafka="4.3.1")

    assert not rule("lost-write", "explained", killed).permitted
    destroyed = replace(killed, destroyed=True, copies_destroyed=True)
    assert rule("lost-write", "destroyed", destroyed).permitted


# -- on paper --------------------------------------------------------------------------------------


def test_the_page_is_up_to_date() -> None:
    text = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")

    assert text == markdown_page(), "`make contracts` writes it anew."


def test_the_page_is_written_where_it_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == markdown_page()
    assert main([]) == 2


def test_the_page_tells_every_row_and_marks_every_contract() -> None:
    page = markdown_page()

    for chapter in TABLE:
        assert f"## {chapter.anomaly}\n" in page
        for row in chapter.rows:
            assert row.why.sentence in page
    (lost,) = (line for line in page.splitlines() if line.startswith("| [lost-write]"))
    marks = dict(zip(COLUMNS, [cell.strip() for cell in lost.split("|")[2:]], strict=False))
    assert [name for name, mark in marks.items() if mark] == [
        "acks=0", "acks=1", "the same, unclean election", "the same, power lost",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("anomaly", "line"),
    [
        ("lost-commit", "Permitted by unclean election, copies destroyed; else forbidden."),
        ("phantom", "Never permitted."),
        ("unseen", "No offence: it leaves the verdict UNKNOWN."),
    ],
)
def test_a_line_says_what_permits(anomaly: str, line: str) -> None:
    (chapter,) = (chapter for chapter in TABLE if chapter.anomaly == anomaly)

    assert in_a_line(chapter).endswith(line)
