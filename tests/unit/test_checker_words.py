"""What checkers say of their anomalies: severity, words, and the chapter of contracts."""

import pytest
from pyspark.sql import DataFrame

from harness.core.contract import Contract
from verifiers.checking.checker import CHECKERS, Severity, checker
from verifiers.checking.contracts import chapters, in_a_line
from verifiers.oracle.circumstances import ACKS_0, Circumstances
from verifiers.oracle.row import Chapter, Reason, forbidden, permitted
from verifiers.oracle.table import TABLE

SAFE = Circumstances(contract=Contract(), kafka="4.3.1")
FIRE_AND_FORGET = Circumstances(contract=Contract(acks="0"), kafka="4.3.1")


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkers that a test registers are gone after it."""
    CHECKERS.load()
    monkeypatch.setattr(CHECKERS, "_entries", dict(CHECKERS._entries))


def find_nothing(values: DataFrame) -> DataFrame:
    """Return the records that are odd."""
    return values


@pytest.mark.parametrize("anomaly", CHECKERS)
def test_every_checker_of_this_tree_says_how_bad_its_anomaly_is_and_in_which_words(
    anomaly: str,
) -> None:
    known = CHECKERS[anomaly]

    assert known.severity is not Severity.UNRATED
    assert known.phrase(1) != known.phrase(2) != ""
    assert known.chapter.means


def test_a_checker_that_says_nothing_comes_last_and_is_forbidden_by_every_contract() -> None:
    checker("odd-record")(find_nothing)

    odd = CHECKERS["odd-record"]

    assert max(CHECKERS, key=lambda name: CHECKERS[name].severity) == "odd-record"
    assert odd.phrase(3) == ""
    ruling = odd.chapter.rule(None, FIRE_AND_FORGET)
    assert (ruling.permitted, ruling.why.source) == (False, "the default")


def test_a_checker_may_bring_the_chapter_that_says_what_permits_its_anomaly() -> None:
    why = Reason("Nothing is promised.", "Kafka documentation, acks")
    chapter = Chapter(
        anomaly="odd-record",
        means="A record is odd.",
        rows=(permitted(why, given=ACKS_0, by="acks=0"), forbidden(why)),
    )

    checker("odd-record", chapter=chapter)(find_nothing)

    rulings = [CHECKERS["odd-record"].chapter.rule(None, at) for at in (FIRE_AND_FORGET, SAFE)]
    assert [ruling.permitted for ruling in rulings] == [True, False]
    assert [one for one in chapters() if one not in TABLE] == [chapter]
    assert in_a_line(chapter) == "A record is odd. Permitted by acks=0; else forbidden."


def test_the_chapter_of_another_anomaly_is_refused() -> None:
    with pytest.raises(ValueError, match="'odd-record' brings the chapter of 'lost-write'"):
        checker("odd-record", chapter=CHECKERS["lost-write"].chapter)
