"""The doctor tries, repairs what it may, and says what is missing and what that costs."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.core.errors import EnvironmentBroken, WaitTimeout
from harness.core.progress import Say
from harness.machine import images
from harness.machine.doctor import Check, checks, examine


@dataclass
class Machine:
    """A thing that works or not, and counts how often it was tried and repaired."""

    works: bool = True
    reparable: bool = True
    tries: int = 0
    repairs: int = 0
    said: list[str] = field(default_factory=list)

    def attempt(self, _: Say) -> str:
        self.tries += 1
        if not self.works:
            raise EnvironmentBroken("it is not there")
        return "version 7"

    def repair(self, _: Say) -> None:
        self.repairs += 1
        if not self.reparable:
            raise EnvironmentBroken("that needs root")
        self.works = True

    def say(self, line: str) -> None:
        self.said.append(line)


def _check(
    machine: Machine,
    name: str = "engine",
    needs: tuple[str, ...] = (),
    *,
    quick: bool = False,
    repair: Callable[[Say], None] | None = None,
) -> Check:
    return Check(
        name=name,
        cost="no cluster",
        remedy="install it",
        attempt=machine.attempt,
        repair=repair,
        needs=needs,
        quick=quick,
    )


def test_what_works_is_said_in_one_line() -> None:
    machine = Machine()

    findings = examine([_check(machine)], fix=False, say=machine.say)

    assert [finding.ok for finding in findings] == [True]
    assert machine.said == ["ok       engine: version 7"]


def test_what_is_missing_is_said_with_its_cost_and_remedy() -> None:
    machine = Machine(works=False)

    findings = examine([_check(machine)], fix=False, say=machine.say)

    assert not findings[0].ok
    assert "it is not there" in machine.said[0]
    assert "no cluster" in machine.said[0]
    assert "install it" in machine.said[0]


def test_nothing_is_repaired_unasked() -> None:
    machine = Machine(works=False)

    examine([_check(machine, repair=machine.repair)], fix=False, say=machine.say)

    assert machine.repairs == 0


def test_what_was_repaired_is_tried_again() -> None:
    machine = Machine(works=False)

    findings = examine([_check(machine, repair=machine.repair)], fix=True, say=machine.say)

    assert findings[0].ok
    assert (machine.tries, machine.repairs) == (2, 1)


def test_a_repair_that_fails_is_told_together_with_the_first_reason() -> None:
    machine = Machine(works=False, reparable=False)

    findings = examine([_check(machine, repair=machine.repair)], fix=True, say=machine.say)

    assert "it is not there" in findings[0].detail
    assert "that needs root" in findings[0].detail


def test_a_wait_that_ends_is_a_finding_and_no_crash() -> None:
    def attempt(_: Say) -> str:
        raise WaitTimeout("Waited 11 s for a lease.")

    check = Check(name="agent", cost="no fault", remedy="none", attempt=attempt)

    findings = examine([check], fix=False, say=lambda _: None)

    assert findings[0].detail == "Waited 11 s for a lease."


def test_what_needs_a_missing_thing_is_not_tried() -> None:
    broken, other = Machine(works=False), Machine()

    findings = examine(
        [_check(broken), _check(other, "images", needs=("engine",))], fix=False, say=broken.say
    )

    assert not findings[1].ok
    assert other.tries == 0
    assert "needs: engine" in findings[1].detail


def test_what_passed_before_is_trusted_unless_it_is_quick_to_try() -> None:
    slow, fast = Machine(), Machine()
    trusted = {"spark": "version 6", "engine": "version 6"}

    findings = examine(
        [_check(slow, "spark"), _check(fast, "engine", quick=True)],
        fix=False,
        say=slow.say,
        trusted=trusted,
    )

    assert (slow.tries, fast.tries) == (0, 1)
    assert [finding.detail for finding in findings] == ["version 6 (tried before)", "version 7"]


def test_everything_that_is_needed_is_tried_earlier() -> None:
    seen: set[str] = set()

    for check in checks():
        assert set(check.needs) <= seen, check.name
        seen.add(check.name)


def test_the_images_of_the_versions_that_are_named_are_built_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[str] = []

    def build(kafka: str, *, say: Say) -> str:
        built.append(kafka)
        return f"broker:{kafka}"

    monkeypatch.setattr(images, "ensure_broker_image", build)
    monkeypatch.setattr(images, "ensure_agent_image", lambda *, say: "agent")
    wanted = ("0.10.2.2", images.DEFAULT_KAFKA)
    (check,) = (check for check in checks(wanted) if check.name == "images")

    detail = check.attempt(print)

    assert built == [images.DEFAULT_KAFKA, "0.10.2.2"]
    assert detail == f"broker:{images.DEFAULT_KAFKA}, broker:0.10.2.2, agent"
