"""Frames that are made of others, on demand: no Spark is needed to see which."""

from typing import Any

import pytest

from harness.core.errors import UsageError
from verifiers.frames.shared import SHARED_FRAMES, Frames, made_of, shared_frame


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Declare two frames, one made of the other; return which were made, in order."""
    SHARED_FRAMES.load()
    monkeypatch.setattr(SHARED_FRAMES, "_entries", dict(SHARED_FRAMES._entries))
    made: list[str] = []

    @shared_frame("doubled")
    def doubled(sends: Any) -> Any:
        made.append("doubled")
        return [*sends, *sends]

    @shared_frame("counted")
    def counted(doubled: Any, polls: Any) -> Any:
        made.append("counted")
        return len(doubled) + len(polls)

    return made


def frames(**by_name: Any) -> Any:
    return Frames(by_name)


def test_a_frame_is_made_of_others_when_it_is_asked_for_and_once(declared: list[str]) -> None:
    given = frames(sends=[1, 2], polls=[3])
    assert declared == []

    assert given["counted"] == 5
    assert given["doubled"] == [1, 2, 1, 2]
    assert declared == ["doubled", "counted"]


def test_a_frame_that_is_there_goes_before_one_that_is_declared(declared: list[str]) -> None:
    assert frames(doubled=[7], polls=[], sends=[1])["counted"] == 1
    assert declared == ["counted"]


def test_a_frame_that_nobody_has_is_an_error_that_names_it() -> None:
    with pytest.raises(UsageError, match="no frame 'sends'"):
        _ = frames(polls=[3])["counted"]


def test_what_a_frame_is_made_of_is_known_without_making_it(declared: list[str]) -> None:
    assert made_of("counted") == {"sends", "polls"}
    assert made_of("polls") == {"polls"}
    assert declared == []
