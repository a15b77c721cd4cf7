"""Effects: what was felt of a fault, and by which sign; what is not its doing is no sign of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.event_story import S, Story
from verifiers.situations.effects import Effect, Latency, effects

SIGNS: dict[str, tuple[Callable[[Story], object], str]] = {
    "leader": (
        lambda s: s.state(0, 1, (1, 2, 3)).state(13, 2, (1, 2, 3)),
        "broker 1 lost the lead of orders-0 after 3.0 s",
    ),
    "isr": (
        lambda s: s.state(0, 2, (1, 2, 3)).state(13, 2, (2, 3)),
        "broker 1 left the ISR of orders-0 after 3.0 s",
    ),
    "controller": (
        lambda s: s.controller(0, 1).controller(13, 2),
        "node 2 became the controller after 3.0 s",
    ),
    "registration": (
        lambda s: s.registration(13, 1, "fenced"),
        "broker 1 was fenced after 3.0 s",
    ),
    "cut": (
        lambda s: s.log(13, 1, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7"),
        "broker 1 cut orders-0 to offset 7 after 3.0 s",
    ),
    "failed sends": (
        lambda s: s.send(11, 13, kind="info", error="_TIMED_OUT"),
        "1 sends ended in _TIMED_OUT",
    ),
    "session of a consumer": (
        lambda s: s.event(13, "rebalance", "lost"),
        "consumer 200 was cut off past its session",
    ),
}


def _effect(story: Story, *, proven: bool = True, latencies: tuple[Latency, ...] = ()) -> Effect:
    """Return the effect of a fault that hits broker 1 from 10 s to 20 s."""
    story.fault(10, 20, 1)
    return effects(story.events(), latencies, {"1": proven})["1"]


@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_a_fault_is_felt_by_a_sign(sign: str, tmp_path: Path) -> None:
    tell, sentence = SIGNS[sign]
    story = Story(path=tmp_path)
    tell(story)

    effect = _effect(story)

    assert effect == Effect(felt="felt", signs=(sentence,))


@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_what_happened_before_a_fault_is_no_sign_of_it(sign: str, tmp_path: Path) -> None:
    tell, _ = SIGNS[sign]
    story = Story(path=tmp_path)
    tell(story)

    story.fault(40, 50, 1)

    assert effects(story.events(), (), {"1": True})["1"] == Effect(felt="unfelt")


def test_what_befell_another_broker_is_no_sign(tmp_path: Path) -> None:
    story = Story(path=tmp_path).state(0, 2, (1, 2, 3)).state(13, 3, (1, 3)).controller(0, 2)
    story.controller(13, 3).registration(13, 2, "fenced")

    assert _effect(story) == Effect(felt="unfelt")


def test_slow_sends_are_a_sign_beside_a_quiet_phase(tmp_path: Path) -> None:
    quiet = tuple(Latency(at_ns=n * S, p99_s=0.02) for n in range(1, 9))

    effect = _effect(Story(path=tmp_path), latencies=(*quiet, Latency(at_ns=13 * S, p99_s=3.0)))

    assert effect.signs == ("sends took up to 3.0 s, 0.020 s in the quiet phase",)


def test_sends_that_are_slow_all_the_time_are_no_sign(tmp_path: Path) -> None:
    quiet = tuple(Latency(at_ns=n * S, p99_s=1.0) for n in range(1, 9))

    effect = _effect(Story(path=tmp_path), latencies=(*quiet, Latency(at_ns=13 * S, p99_s=3.0)))

    assert effect == Effect(felt="unfelt")


def test_a_fault_without_witness_is_unproven_whatever_happened(tmp_path: Path) -> None:
    story = Story(path=tmp_path).state(0, 1, (1, 2, 3)).state(13, 2, (2, 3))

    assert _effect(story, proven=False) == Effect(felt="unproven")


def test_what_follows_the_next_fault_is_put_down_to_that_one(tmp_path: Path) -> None:
    story = Story(path=tmp_path).state(0, 1, (1, 2, 3)).state(26, 2, (2, 3))
    story.fault(10, 20, 1).fault(25, 30, 1)

    found = effects(story.events(), (), {"1": True, "2": True})

    assert (found["1"].felt, found["2"].felt) == ("unfelt", "felt")
