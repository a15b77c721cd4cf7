"""Rules of adequacy: complete evidence keeps every rule, and each gap breaks the one that asks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.registry import first_sentence
from tests.unit.evidence_fixture import CONSUMER, PRODUCER, READER, RECORDS, Given, complete
from verifiers.adequacy.counted import ReadCount
from verifiers.adequacy.rule import RULES, State, apply_rules, named, reasons_of

S = 1_000_000_000
Change = Callable[[Given], Any]

BROKEN: dict[str, list[tuple[str, Change, str]]] = {
    "files-complete": [
        ("no inventory", lambda g: g.set(has_inventory=False), "has no inventory"),
        ("a file is gone", lambda g: g.rows.pop(("final", READER)), "final/900.parquet is missing"),
        (
            "a file is shorter",
            lambda g: g.rows.update({("poll", CONSUMER): 3}),
            "poll/100.parquet has 3, and 1,000 rows were sealed",
        ),
        (
            "a file too many",
            lambda g: g.rows.update({("send", 7): 3}),
            "send/7.parquet was not there when the history was sealed",
        ),
        (
            "a client without a history",
            lambda g: g.meta["clients"].append({"process": 5, "role": "producer", "mode": None}),
            "Client 5 (producer) left no history",
        ),
        (
            "a client that only its settings name",
            lambda g: g.settings.update({6: {}}),
            "Client 6 (role unknown) left no history",
        ),
        (
            "a producer that sent nothing",
            lambda g: (
                g.inventory["process-0.arrows"].update(rows={}),
                g.rows.pop(("send", PRODUCER)),
            ),
            "Client 0 (producer) recorded no send",
        ),
    ],
    "log-read-whole": [
        ("no final read", lambda g: g.ends.clear(), "There was no final read"),
        (
            "a partition was not read",
            lambda g: g.ends.pop(("orders", 1)),
            "did not get to the end: orders-1 was not read at all",
        ),
        (
            "read in part",
            lambda g: g.ends.update(
                {("orders", 1): replace(g.ends["orders", 1], reached=7, complete=False)}
            ),
            "orders-1 was read to 7 of 500",
        ),
        (
            "a partition that only the cluster names",
            lambda g: g.meta["partitions_at_end"]["orders"].update({"2": 9}),
            "orders-2 was not read at all",
        ),
        (
            "a partition that only lies on a disk",
            lambda g: g.disks.update({"1": {"orders-3": {}}}),
            "orders-3 was not read at all",
        ),
        (
            "rows are missing",
            lambda g: g.final(0, 490),
            "The final read of orders-0 has 490 rows, 10 fewer than the log has records",
        ),
        (
            "rows too many",
            lambda g: g.final(0, 501),
            "1 more than the log has records",
        ),
        (
            "the final read gave nothing",
            lambda g: g.set(counts=replace(g.counts, final=0)),
            "The final read gave no record at all",
        ),
        ("unseen", lambda g: g.fates(doubtful=2, unseen=2), "2 acknowledged records were read by"),
        (
            "without a fate",
            lambda g: g.fates(doubtful=3, found=1, lost=1),
            "1 acknowledged records were polled and are in no place",
        ),
        (
            "deleted by nobody",
            lambda g: g.fates(doubtful=4, deleted=4),
            "4 acknowledged records lie below the first offset",
        ),
    ],
    "load-met-damage": [
        (
            "nothing acknowledged",
            lambda g: g.set(counts=replace(g.counts, acked=0)),
            "No record was acknowledged",
        ),
        (
            "too few",
            lambda g: g.set(counts=replace(g.counts, acked=99, sends=99)),
            "Only 99 records were acknowledged",
        ),
        (
            "hardly any",
            lambda g: g.set(counts=replace(g.counts, acked=99, sends=1000)),
            "Of 1,000 sends only 99 were acknowledged, and 0 refused",
        ),
        (
            "nothing during a fault",
            lambda g: g.story.fault(50, 60, 2).send(70, 71),
            "Nothing was sent while made_up (2) was in force",
        ),
        (
            "nothing after the last healing",
            lambda g: g.story.fault(38, 80, 2),
            "Nothing was acknowledged after the last fault was healed",
        ),
    ],
    "readers-read": [
        (
            "no polls",
            lambda g: g.read(0, None).read(1, None),
            "Consumer 100 was given no record at all",
        ),
        (
            "began late",
            lambda g: g.read(1, ReadCount(rows=490, first=10, last=499)),
            "Consumer 100 did not begin at the start of what it was to read: orders-1 at 10",
        ),
        (
            "ended early",
            lambda g: g.read(1, ReadCount(rows=100, first=0, last=99)),
            "Consumer 100 did not come close to the end: it read orders-1 to 100 of 500",
        ),
        ("a partition was left out", lambda g: g.read(0, None), "it read orders-0 to 0 of 500"),
    ],
    "checkers-ran": [
        (
            "no high watermark",
            lambda g: g.frames.update(watermarks=[]),
            "hw-regression could not run: no high watermark was sampled",
        ),
        (
            "no ceilings",
            lambda g: g.frames.update(ceilings=[]),
            "read-beyond-hw could not run: no high watermark could be held against",
        ),
        (
            "nobody saw how it came back",
            lambda g: g.frames.update(recoveries=[]),
            "isr-not-whole could not run: nobody wrote down how the cluster came back",
        ),
        (
            "nobody saw how processes ended",
            lambda g: g.frames.update(processes=[]),
            "broker-ended could not run: nobody asked how the brokers' processes ended",
        ),
        (
            "coordinators were not copied",
            lambda g: g.set(transactional=True),
            "hanging-transaction could not run: the logs of the transaction coordinators",
        ),
        (
            "nobody asked the leaders",
            lambda g: g.story.state(40, 2, (2,)),
            "acked-below-min-isr could not run: no leader was asked for the size of its ISR",
        ),
        (
            "a crash",
            lambda g: g.set(crashes=("The checker duplicate crashed.",)),
            "The checker duplicate crashed.",
        ),
    ],
    "timeline-witnessed": [
        (
            "nobody watched",
            lambda g: g.set(watched=()),
            "Nobody watched who led orders-0, orders-1",
        ),
        (
            "no samples",
            lambda g: g.story._samples.clear(),
            "The high watermark was never sampled of orders-0, orders-1",
        ),
        (
            "samples end early",
            lambda g: g.story.fault(70, 80, 2).send(71, 72).send(90, 91),
            "Samples were not taken from the first fault to the last",
        ),
        (
            "states are not known",
            lambda g: g.set(forget_states=True),
            "The committed leaders and ISRs are not known",
        ),
        (
            "states of a partition are not known",
            lambda g: g.story._states.pop(("orders", 1)),
            "The committed leader and ISR of orders-1 are not known",
        ),
    ],
    "losses-explained": [
        (
            "unexplained",
            lambda g: g.found.update({("lost-write", "unexplained"): 2, ("lost-write", None): 1}),
            "2 of 3 lost records have no damage that explains them",
        ),
        (
            "unread",
            lambda g: g.found.update({("lost-write", "unread"): 2}),
            "2 of 2 lost records have no damage",
        ),
        (
            "leaders are not known",
            lambda g: g.set(found={("lost-write", None): 1}, forget_states=True),
            "what lost them cannot be told",
        ),
    ],
    "one-value-one-fate": [
        ("sent twice", lambda g: g.fates(twice=3), "3 values have more than one outcome"),
    ],
    "one-clock": [
        (
            "another machine",
            lambda g: g.inventory["process-100.arrows"].update(clock="there"),
            "The times of client 100 were read from another clock",
        ),
    ],
}
CASES = [(rule, *case) for rule, cases in BROKEN.items() for case in cases]


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """A run with complete evidence."""
    return complete(tmp_path)


def test_complete_evidence_breaks_no_rule(given: Given) -> None:
    answers = apply_rules(given.evidence())

    assert reasons_of(answers) == []
    states = {name: answer.state for name, answer in answers.items()}
    assert states == dict.fromkeys(RULES, State.HELD) | {"losses-explained": State.NOT_APPLICABLE}


def test_every_rule_is_broken_by_something() -> None:
    assert set(BROKEN) == set(RULES)


@pytest.mark.parametrize(
    ("rule", "change", "reason"),
    [(rule, change, reason) for rule, _, change, reason in CASES],
    ids=[f"{rule}: {name}" for rule, name, _, _ in CASES],
)
def test_a_gap_breaks_the_rule_that_asks_for_it(
    rule: str, change: Change, reason: str, given: Given
) -> None:
    change(given)

    answer = RULES[rule](given.evidence())

    assert answer.state is State.BROKEN
    assert any(reason in told for told in answer.reasons), answer.reasons
    assert reasons_of({rule: answer}) == list(answer.reasons)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda g: (
                g.fates(doubtful=9, found=4, lost=3, deleted=2),
                g.meta["cluster"].update(config={"log.retention.ms": "1000"}),
            ),
            id="deleted by retention",
        ),
        pytest.param(
            lambda g: g.read(1, ReadCount(rows=455, first=0, last=454)), id="close to the end"
        ),
        pytest.param(
            lambda g: g.set(counts=replace(g.counts, acked=100, sends=1000)),
            id="just enough",
        ),
    ],
)
def test_what_only_looks_like_a_gap_breaks_nothing(change: Change, given: Given) -> None:
    change(given)

    assert reasons_of(apply_rules(given.evidence())) == []


def test_control_records_and_aborted_ones_are_no_rows(given: Given) -> None:
    final = given.counted.final
    given.counted = replace(
        given.counted,
        gaps={(1, ("orders", 0)): (6, 4)},
        final={**final, ("orders", 0): ReadCount(rows=RECORDS - 10, first=0, last=499)},
    )

    answer = RULES["log-read-whole"](given.evidence())

    assert answer.state is State.HELD
    assert answer.figures["partitions"]["orders-0"]["missing"] == 0


@pytest.mark.parametrize(
    ("error", "state"),
    [("NOT_ENOUGH_REPLICAS_AFTER_APPEND", State.HELD), ("_MSG_TIMED_OUT", State.BROKEN)],
)
def test_refusals_count_as_kept_promises(given: Given, error: str, state: State) -> None:
    given.counts = replace(given.counts, acked=150, sends=2000)
    for _ in range(50):
        given.story.send(1, 2, kind="fail", error=error)

    assert RULES["load-met-damage"](given.evidence()).state is state


def test_the_members_of_a_group_are_one_reader(given: Given) -> None:
    group = {"mode": "subscribe", "topic": "orders", "config": {"group.id": "g"}}
    given.settings |= {CONSUMER: group, CONSUMER + 1: group}
    given.meta["clients"][1]["mode"] = "subscribe"
    given.meta["clients"].append({"process": CONSUMER + 1, "role": "consumer", "mode": "subscribe"})
    given.read(1, None)
    whole = ReadCount(rows=RECORDS, first=0, last=RECORDS - 1)
    polls = {**given.counted.polls, (CONSUMER + 1, ("orders", 1)): whole}
    given.counted = replace(given.counted, polls=polls)

    assert RULES["readers-read"](given.evidence()).state is State.HELD


def test_a_checker_without_anything_to_look_at_is_skipped_and_says_why(given: Given) -> None:
    answer = RULES["checkers-ran"](given.evidence())

    assert answer.state is State.HELD
    assert answer.figures["skipped"]["torn-transaction"] == "there were no transactions"
    assert answer.figures["skipped"]["unavailable"].startswith("the scenario sets no bound")
    assert not answer.figures["could_not_run"]


def test_without_word_of_how_clients_ended_nobody_knows_whether_one_gave_up(given: Given) -> None:
    given.frames["clients"] = [{"exit_code": None}]

    answer = RULES["checkers-ran"](given.evidence())

    assert answer.state is State.BROKEN
    assert list(answer.figures["could_not_run"]) == ["client-gave-up"]


def test_the_script_of_a_claim_decides_who_sends_and_reads_what(given: Given) -> None:
    given.meta |= {"claim": "some-claim", "fewest_acked": 1}
    given.story.fault(80, 90, 2)
    given.counts = replace(given.counts, acked=1)
    given.read(0, None)
    evidence = given.evidence()

    assert RULES["load-met-damage"](evidence).state is State.HELD
    assert RULES["readers-read"](evidence).state is State.NOT_APPLICABLE


def test_many_names_are_cut_short() -> None:
    assert named(["a"]) == "a"
    assert named("abcdefgh") == "a, b, c, d, e and 3 more"


def test_every_rule_says_in_one_sentence_what_it_asks_for() -> None:
    for name in RULES:
        sentence = first_sentence(RULES[name])
        assert sentence.endswith("."), name
        assert len(sentence) <= 100, name
