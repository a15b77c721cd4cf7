"""When faults destroyed every copy that an acknowledgement stands for, and when only one."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.event_story import S, Story
from verifiers.replicas.copied import Replica
from verifiers.situations.loss_causes import copies_destroyed, loss_causes, taken_notes

ALL = (1, 2, 3)
State = tuple[float, int, tuple[int, ...]]
Cut = tuple[float, int, int]
"""When a fault cut which broker's log, and to which offset."""


def story(path: Path, min_isr: int, states: list[State], cuts: list[Cut]) -> Story:
    told = Story(path=path, min_isr=min_isr)
    for at_s, leader, isr in states:
        told.state(at_s, leader, isr)
    for at_s, broker, to in cuts:
        told.fault(at_s, at_s + 1, broker, cut={str(broker): {"orders-0": {"end_after": to}}})
    return told


@pytest.mark.parametrize(
    ("min_isr", "states", "cuts", "until_s", "cut_to"),
    [
        (1, [(0, 1, ALL), (10, 1, (1,))], [(20, 1, 7)], 20, 7),
        (2, [(0, 1, (1, 2))], [(20, 1, 7), (21, 2, 9)], 20, 9),
        (2, [(0, 1, (1, 2)), (25, 2, (2,))], [(20, 1, 7), (30, 2, 5)], 20, 7),
        (1, [(0, 1, (1, 2)), (15, 1, (1,))], [(10, 2, 9), (20, 1, 7)], 20, 7),
    ],
    ids=[
        "the only one in the ISR",
        "both in the ISR",
        "one that had just left the ISR, then the last",
        "one that had left the ISR is no copy where one is enough",
    ],
)
def test_a_loss_of_every_copy_is_told(
    min_isr: int, states: list[State], cuts: list[Cut], until_s: float, cut_to: int, tmp_path: Path
) -> None:
    events = story(tmp_path, min_isr, states, cuts).events()

    (row,) = (row for row in loss_causes(events, ()) if row["destroys"])

    assert (row["until_ns"], row["cut_to"]) == (until_s * S, cut_to)
    assert row["words"].startswith("made_up of broker")
    assert copies_destroyed(events)


@pytest.mark.parametrize(
    ("min_isr", "states", "cuts", "gone"),
    [
        (1, [(0, 1, ALL), (10, 1, (1,))], [(20, 1, 7), (30, 1, 7)], {(20, 7), (30, 7)}),
        (
            2,
            [(0, 1, (1, 2))],
            [(20, 1, 3), (30, 1, 7), (40, 2, 5), (50, 1, 9)],
            {(20, 5), (30, 7), (40, 9)},
        ),
    ],
    ids=["the only one in the ISR, twice", "one of two in the ISR, before and after the other"],
)
def test_a_replica_that_is_cut_again_loses_again(
    min_isr: int,
    states: list[State],
    cuts: list[Cut],
    gone: set[tuple[float, int]],
    tmp_path: Path,
) -> None:
    events = story(tmp_path, min_isr, states, cuts).events()

    rows = [row for row in loss_causes(events, ()) if row["destroys"]]

    # Whatever was acknowledged before, at this offset or beyond.
    assert {(row["until_ns"] / S, row["cut_to"]) for row in rows} == gone


@pytest.mark.parametrize(
    ("min_isr", "states", "cuts"),
    [
        (1, [(0, 1, ALL)], [(20, 1, 7)]),
        (2, [(0, 1, (1,))], [(20, 1, 7)]),
        (2, [(0, 1, ALL)], [(20, 1, 7), (21, 2, 9)]),
        (2, [(0, 1, (1, 2)), (25, 1, ALL), (28, 2, (2,))], [(20, 1, 7), (30, 2, 5)]),
        (1, [(0, 1, (1,)), (10, 1, ALL)], [(20, 1, 7)]),
    ],
    ids=[
        "others in the ISR have it",
        "one copy of the two that were promised",
        "the third in the ISR has it",
        "the ISR was full in between",
        "it was alone long ago",
    ],
)
def test_where_a_copy_is_left_nothing_excuses_a_loss(
    min_isr: int, states: list[State], cuts: list[Cut], tmp_path: Path
) -> None:
    events = story(tmp_path, min_isr, states, cuts).events()

    assert not any(row["destroys"] for row in loss_causes(events, ()))
    assert not copies_destroyed(events)


@pytest.mark.parametrize(("min_isr", "destroys"), [(1, True), (2, False)])
def test_where_the_isr_is_not_known_one_cut_may_have_taken_the_only_copy(
    min_isr: int, destroys: bool, tmp_path: Path
) -> None:
    events = story(tmp_path, min_isr, [], [(20, 1, 7)]).events()

    (row,) = loss_causes(events, ())

    assert (row["words"], row["destroys"]) == (None, destroys)
    assert copies_destroyed(events) is destroys


def test_the_lead_of_a_last_known_leader_is_told(tmp_path: Path) -> None:
    told = Story(path=tmp_path).state(0, 1, ALL).state(10, None, (), elr=(2,)).state(20, 1, (1,))

    (row,) = (row for row in loss_causes(told.events(), ()) if row["is_last_known"])

    assert row["until_ns"] == 20 * S
    assert row["words"] == "broker 1 led orders-0, neither in the ISR nor eligible, from 20.0 s on"


def test_where_nobody_leads_the_log_goes_on_where_the_next_leader_says(tmp_path: Path) -> None:
    told = Story(path=tmp_path).state(0, 1, ALL).state(10, None, (1,)).state(20, 1, (1,))
    replica = Replica(
        broker=1, topic="orders", partition=0, segments=(), sizes_bytes=(),
        epochs=((0, 0), (2, 40)), high_watermark=None, recovery_point=None, log_start=0,
        in_sync=True, leads=True,
    )  # fmt: skip

    (row,) = loss_causes(told.events(), [replica])

    assert (row["at_ns"], row["cut_to"], row["is_lead"]) == (10 * S, 40, True)
    assert row["words"] == (
        "broker 1 lost the lead of orders-0 to nobody at 10.0 s; the log went on at offset 40"
    )


@pytest.mark.parametrize(
    ("cut", "taken_s"),
    [
        ([(20, 1), (30, 2)], (20, 30)),
        ([(20, 3), (30, 1)], (20, None)),
        ([], (None, None)),
    ],
    ids=["both in the ISR", "one that was not, and one of the two", "none"],
)
def test_it_is_told_since_when_faults_had_taken_what_coordinators_noted(
    cut: list[tuple[float, int]], taken_s: tuple[int | None, int | None], tmp_path: Path
) -> None:
    topic = "__transaction_state"
    told = Story(path=tmp_path, min_isr=2).state(0, 1, (1, 2), topic=topic)
    for at_s, broker in cut:
        told.fault(at_s, at_s + 1, broker, cut={str(broker): {f"{topic}-0": {"end_after": 7}}})

    taken = taken_notes(loss_causes(told.events(), ()))

    nanoseconds = [None if at_s is None else at_s * S for at_s in taken_s]
    assert [taken["copy_taken_ns"], taken["all_taken_ns"]] == nanoseconds


def test_where_nobody_knows_who_led_nothing_is_laid_to_what_coordinators_noted(
    tmp_path: Path,
) -> None:
    told = Story(path=tmp_path)
    told.fault(20, 21, 1, cut={"1": {"__transaction_state-0": {"end_after": 7}}})

    assert taken_notes(loss_causes(told.events(), ())) == {
        "copy_taken_ns": None,
        "all_taken_ns": None,
    }


LED_BY_OTHERS: list[State] = [(0, 1, ALL), (12, 2, (2, 3)), (20, 2, ALL)]


@pytest.mark.parametrize(
    ("states", "broker", "started_s", "leads_no_more"),
    [
        (LED_BY_OTHERS, 1, 15, True),
        (LED_BY_OTHERS, 3, 15, True),
        (LED_BY_OTHERS, 1, 11.4, False),
        (LED_BY_OTHERS, 1, 11.6, True),
        (LED_BY_OTHERS, 2, 15, False),
        (LED_BY_OTHERS, 1, 11, False),
        (LED_BY_OTHERS, 1, None, False),
        (LED_BY_OTHERS, 1, 9, False),
        (LED_BY_OTHERS, 1, 31, False),
        ([*LED_BY_OTHERS, (80, 1, ALL)], 1, 15, False),
        ([*LED_BY_OTHERS, (80, 1, ALL), (90, 2, ALL)], 1, 15, False),
        ([(0, 2, ALL)], 1, 15, True),
        ([(0, 1, ALL)], 1, 15, False),
        ([], 1, 15, False),
    ],
)
def test_a_broker_that_lost_power_leads_no_more_if_others_do_to_the_end(
    states: list[State], broker: int, started_s: float | None, leads_no_more: bool, tmp_path: Path
) -> None:
    told = story(tmp_path, 2, states, [])
    cut = {str(broker): {"orders-0": {"end_after": 7}}}
    told.fault(10, 30, broker, cut=cut, started_s=started_s)
    told.fault(40, 50, 3)

    rows = loss_causes(told.events(), ())

    assert any(row["leads_no_more"] for row in rows) == leads_no_more
    assert not any(row["leads_no_more"] for row in rows if not row["takes_a_copy"])


@pytest.mark.parametrize(
    ("missed", "epochs", "leads_no_more"),
    [
        ((), (0, 1, 2), True),
        ((0,), (0, 1, 2), False),
        ((1,), (0, 1, 2), True),
        ((1,), (0, 1, 1), True),
        ((1,), (0, 1, 3), False),
    ],
    ids=[
        "every state is known",
        "the ISR when it lost power may have been another one",
        "only an ISR was missed later",
        "only an ISR was missed later, of one epoch",
        "a leader was missed later",
    ],
)
def test_whether_a_broker_leads_no_more_is_only_known_with_its_states(
    missed: tuple[int, ...], epochs: tuple[int, ...], leads_no_more: bool, tmp_path: Path
) -> None:
    told = story(tmp_path, 2, LED_BY_OTHERS, [])
    told.fault(10, 30, 1, cut={"1": {"orders-0": {"end_after": 7}}}, started_s=15)
    events = told.events()
    states = [
        replace(
            state,
            leader_epoch=epoch,
            after_ns=state.after_ns - 3 * S,
            joins_next=number not in missed,
        )
        for number, (state, epoch) in enumerate(
            zip(events.timeline.states["orders", 0], epochs, strict=True)
        )
    ]
    timeline = replace(events.timeline, states={("orders", 0): states})

    rows = loss_causes(replace(events, timeline=timeline), ())

    assert any(row["leads_no_more"] for row in rows) == leads_no_more
