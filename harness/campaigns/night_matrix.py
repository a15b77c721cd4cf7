"""A night of the user's own: versions × contracts × workloads × faults, with weights."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, product
from math import prod
from random import Random
from typing import Any

from harness.campaigns.campaign import RUNS_A_CLUSTER, SEED_RANGE, Cell
from harness.campaigns.night_log import CONTROL, NightRun, nights_of
from harness.campaigns.rarity import promises
from harness.campaigns.repetitions import numbered, topic_of, which
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.core.errors import UsageError
from harness.core.scenario import Scenario
from harness.run.nemesis import plan

Flags = Mapping[str, Any]

_OWN_CLUSTER = (
    "kafka",
    "image",
    "compose",
    "bootstrap",
    "brokers",
    "controllers",
    "metadata",
    "heap_mib",
    "security",
    "sasl",
    "client_config",
)
"""Settings of which runs on one cluster have the same."""
_LOOK_BACK = 30
"""Nights."""
_MOST_AHEAD = 2.0
"""Rounds."""
_CONTROL_KEEPS = (*_OWN_CLUSTER, "feature", "broker_config", "client")
"""What the control, whose contract and damage are its own, has of a night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a setting, and how often it is run.

    Attributes:
        value: as a flag has it.
        weight: how often, relative to the other values of the setting.
    """

    value: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Reject a weight that is none.

        Raises:
            UsageError: it is not above 0.
        """
        if not self.weight > 0:
            raise UsageError(f"The weight of {self.value} is to be above 0, not {self.weight:g}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightMatrix:
    """What a night is to do, as a file describes it.

    Attributes:
        make: makes the scenario that flags describe, on a topic of its own.
        common: settings that all runs have.
        choices: settings that runs differ in, and their values.
        exclude: combinations that are not run: each names some settings and their values.
        seed: draws the seeds of the runs; None: go on with a night of any seed.
    """

    make: Callable[[Flags, str], Scenario]
    common: Flags = field(default_factory=dict)
    choices: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    exclude: tuple[Flags, ...] = ()
    seed: int | None = None

    def asked(self) -> dict[str, Any]:
        """Return what is asked for as plain JSON."""
        matrix = {
            "common": {name: _plain(value) for name, value in self.common.items()},
            # In their order, which decides what is run first, and with which seed.
            "choices": [
                [name, [[_plain(choice.value), choice.weight] for choice in choices]]
                for name, choices in self.choices.items()
            ],
            "exclude": [
                {name: str(value) for name, value in entry.items()} for entry in self.exclude
            ],
        }
        return {"matrix": matrix, "seed": self.seed}

    @classmethod
    def read(
        cls, asked: Mapping[str, Any], make: Callable[[Flags, str], Scenario], seed: int | None
    ) -> "NightMatrix":
        """Return the night that was asked for, as `asked` tells it."""
        matrix = asked["matrix"]
        choices = {
            name: tuple(Choice(value=value, weight=weight) for value, weight in values)
            for name, values in matrix["choices"]
        }
        return cls(
            make=make, common=matrix["common"], choices=choices, exclude=tuple(matrix["exclude"]),
            seed=seed,
        )  # fmt: skip

    def with_seed(self, seed: int) -> "NightMatrix":
        """Return the same night with another seed."""
        return replace(self, seed=seed)

    def reject(self) -> None:
        """Reject a night in which nothing can be run.

        Raises:
            UsageError: nothing is left of what is asked for, with the reasons.
        """
        found, left_out = self.combinations()
        if not found:
            raise UsageError("Nothing of this night can be run. " + " ".join(left_out))

    def combinations(self) -> tuple[list[tuple[Flags, float]], dict[str, list[Flags]]]:
        """Return what is run, each with its weight, and what is left out, by the reason."""
        found: list[tuple[Flags, float]] = []
        left_out: dict[str, list[Flags]] = {}
        for chosen in product(*self.choices.values()):
            flags = dict(zip(self.choices, (choice.value for choice in chosen), strict=True))
            if why := self._why_not({**self.common, **flags}):
                left_out.setdefault(why, []).append(flags)
            else:
                found.append((flags, prod(choice.weight for choice in chosen)))
        return found, left_out

    def _why_not(self, flags: Flags) -> str | None:
        """Return why a combination is not run; None if it is."""
        for entry in self.exclude:
            if _fits(entry, flags):
                return f"{_words(entry)} is excluded."
        try:
            # A plan that cannot be made is known only by making it.
            plan(self.make(flags, "night"), 0)
        except UsageError as error:
            return str(error)
        return None

    def left_out_lines(self) -> list[str]:
        """Return what is left out, a line for each reason, with what all that it meets share."""
        of = prod(map(len, self.choices.values()))
        lines = []
        for why, left_out in self.combinations()[1].items():
            shared = {
                name: value for name, value in left_out[0].items()
                if len(self.choices[name]) > 1 and all(flags[name] == value for flags in left_out)
            }  # fmt: skip
            where = f" ({_words(shared)})" if shared and _words(shared) not in why else ""
            lines.append(f"left out: {len(left_out)} of {of} combinations{where}: {why}")
        return lines

    def cells(self, before: Sequence[NightRun] = ()) -> Iterator[Cell[ScenarioResult]]:
        """Yield a control for each version, then combinations by their weights, without an end.

        Of all combinations the next one is that which lags furthest behind its weight; three runs
        in a row are on one cluster. Those that earlier nights did not come to are first, and those
        whose runs reached what few others did weigh more.

        Args:
            before: the runs of earlier nights.
        """
        combinations, _ = self.combinations()
        random = Random(self.seed)  # noqa: S311 (a schedule, not a secret)
        controls = list(dict.fromkeys(_key(flags, _OWN_CLUSTER) for flags, _ in combinations))
        numbers = count(1)
        for key in controls:
            own = next(f for f, _ in combinations if _key(f, _OWN_CLUSTER) == key)
            common = {n: v for n, v in {**self.common, **own}.items() if n in _CONTROL_KEEPS}
            control = {**common, "scenario": CONTROL, "acks": "1", "min_isr": 2}
            told, seed = {"kafka": own.get("kafka")}, random.randrange(SEED_RANGE)
            # What it finds is what it must find.
            yield replace(self._cell(next(numbers), control, told, seed), again=None)
        run, promise = _seen(combinations, before)
        combinations = [
            (flags, weight * promise.get(n, 1.0)) for n, (flags, weight) in enumerate(combinations)
        ]
        while True:
            first = _furthest_behind(combinations, run, range(len(combinations)))
            cluster = _key(combinations[first][0], _OWN_CLUSTER)
            alike = [
                n for n, (flags, _) in enumerate(combinations)
                if _key(flags, _OWN_CLUSTER) == cluster
            ]  # fmt: skip
            for _ in range(RUNS_A_CLUSTER):
                number = _furthest_behind(combinations, run, alike)
                run[number] += 1
                flags = combinations[number][0]
                seed = random.randrange(SEED_RANGE)
                yield self._cell(next(numbers), {**self.common, **flags}, flags, seed)

    def _cell(
        self, number: int, flags: Flags, told: Flags, seed: int, again: int | None = None
    ) -> Cell[ScenarioResult]:
        scenario = self.make(flags, topic_of(number, again))
        settings = {
            "number": number,
            **{name: _plain(value) for name, value in told.items() if value is not None},
            "scenario": scenario.name,
            "acks": scenario.contract.acks,
            "min_isr": scenario.contract.min_isr,
            "workload": told.get("workload"),
            "seed": seed,
        }
        return scenario_cell(
            scenario,
            settings=numbered(settings, again),
            title=f"{scenario.name} {_words(told)} seed={seed}{which(again)}",
            seed=seed,
            shares_cluster=True,
            again=partial(self._cell, number, flags, told, seed),
        )


def _seen(
    combinations: Sequence[tuple[Flags, float]], before: Sequence[NightRun]
) -> tuple[dict[int, float], Mapping[int, float]]:
    """Return how many runs combinations are ahead, by number, and how rare was what they reached.

    Whoever is ahead of the others lets them have two rounds by their weights, and no more.
    """
    run = Counter[int]()
    dealt: dict[int, set[int]] = {}
    reached: dict[int, set[str]] = {}
    last = set(nights_of(before)[-_LOOK_BACK:])
    for index, each in enumerate(before):
        if each.night not in last or not each.result.run:
            continue
        settings = each.result.settings
        for number, (flags, _) in enumerate(combinations):
            if settings.get("scenario") != CONTROL and _fits(flags, settings):
                run[number] += 1
                dealt[index] = {number}
                reached[index] = {name for name, n in each.result.situations.items() if n}
    ahead = {n: run[n] / weight for n, (_, weight) in enumerate(combinations)}
    fewest = min(ahead.values())
    waits = {
        n: min(ahead[n] - fewest, _MOST_AHEAD) * weight
        for n, (_, weight) in enumerate(combinations)
    }
    return waits, promises(dealt, reached)


def _furthest_behind(
    combinations: Sequence[tuple[Flags, float]], run: Mapping[int, float], among: Sequence[int]
) -> int:
    """Return the number of the combination that was run least for its weight, the first of such."""
    return min(among, key=lambda number: (run.get(number, 0) + 1) / combinations[number][1])


def _fits(entry: Flags, flags: Flags) -> bool:
    return all(_word(flags.get(name)) == _word(value) for name, value in entry.items())


def _words(flags: Flags) -> str:
    return ", ".join(f"{name}={value}" for name, value in flags.items() if value is not None)


def _word(value: Any) -> str:  # noqa: ANN401 (any flag's)
    return "" if value is None else str(_plain(value)).strip()


def _key(flags: Flags, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_word(flags.get(name)) for name in names)


def _plain(value: Any) -> Any:  # noqa: ANN401 (any flag's)
    """Return a value as JSON has it after it was written and read."""
    return [*value] if isinstance(value, tuple) else value
