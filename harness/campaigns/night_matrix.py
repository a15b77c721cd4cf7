"""A night of the user's own: versions × contracts × workloads × faults, with weights."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, product
from math import prod
from random import Random
from typing import Any

from harness.campaigns.campaign import RUNS_A_CLUSTER, SEED_RANGE, Cell, key_of
from harness.campaigns.configure import DEALS
from harness.campaigns.night_log import CONTROL, NightRun, nights_of
from harness.campaigns.rarity import promises
from harness.campaigns.repetitions import numbered, topic_of
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.campaigns.titles import in_words, title, words_of
from harness.campaigns.turns import Turns
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
    "feature",
    "heap_mib",
    "security",
    "sasl",
    "client_config",
    "broker_config",
)
"""Settings of which runs on one cluster have the same."""
_LOOK_BACK = 30
"""Nights."""
_MOST_AHEAD = 2.0
"""Rounds."""
_CONTROL_KEEPS = (*_OWN_CLUSTER, "client")
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
        below: settings that count where nothing else says any.
        files: what scenario files say, by their names; it stands below all that the night says.
        common: settings that all runs have.
        choices: settings that runs differ in, and their values.
        exclude: combinations that are not run: each names some settings and their values.
        seed: draws the seeds of the runs; None: go on with a night of any seed.
    """

    make: Callable[[Flags, str], Scenario]
    below: Flags = field(default_factory=dict)
    files: Mapping[str, Flags] = field(default_factory=dict)
    common: Flags = field(default_factory=dict)
    choices: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    exclude: tuple[Flags, ...] = ()
    seed: int | None = None

    def asked(self) -> dict[str, Any]:
        """Return what is asked for as plain JSON."""
        matrix = {
            "below": self.below,
            "files": self.files,
            "common": self.common,
            # In their order, which decides what is run first, and with which seed.
            "choices": [
                [name, [[choice.value, choice.weight] for choice in choices]]
                for name, choices in self.choices.items()
            ],
            "exclude": self.exclude,
        }
        return {"matrix": _plain(matrix), "seed": self.seed}

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
            make=make, below=matrix["below"], files=matrix["files"], common=matrix["common"],
            choices=choices, exclude=tuple(matrix["exclude"]), seed=seed,
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
        found: dict[str, tuple[Flags, float]] = {}
        left_out: dict[str, list[Flags]] = {}
        for chosen in product(*self.choices.values()):
            flags = dict(zip(self.choices, (choice.value for choice in chosen), strict=True))
            weight = prod(choice.weight for choice in chosen)
            if "steps" in self._said(flags):
                flags = _not_dealt(flags)
            if why := self._why_not(flags):
                left_out.setdefault(why, []).append(flags)
            else:
                # Where steps are written down, many mixes are one combination.
                _, before = found.get(key_of(flags), (flags, 0.0))
                found[key_of(flags)] = (flags, before + weight)
        return list(found.values()), left_out

    def _why_not(self, flags: Flags) -> str | None:
        """Return why a combination is not run; None if it is."""
        for entry in self.exclude:
            if _fits(entry, {**self.common, **flags}):
                return f"{_words(entry)} is excluded."
        try:
            # A plan that cannot be made is known only by making it.
            plan(self.make(self._whole(flags), "night"), 0)
        except UsageError as error:
            return str(error)
        return None

    def _said(self, flags: Flags) -> Flags:
        """Return what the scenario file of a combination says; nothing if it has none."""
        return self.files.get(str(flags.get("scenario") or self.common.get("scenario")), {})

    def _whole(self, flags: Flags) -> Flags:
        """Return all settings of a combination, those of its scenario file among them."""
        said, own = self._said(flags), {**self.common, **flags}
        if own.get("scenario") in self.files:
            # The file says which scenario it describes.
            del own["scenario"]
        return {**self.below, **said, **(_not_dealt(own) if "steps" in said else own)}

    def left_out_lines(self) -> list[str]:
        """Return what is left out, a line for each reason, with what all that it meets share."""
        of = prod(map(len, self.choices.values()))
        lines = []
        for why, left_out in self.combinations()[1].items():
            shared = {
                name: value for name, value in left_out[0].items()
                if len(self.choices[name]) > 1
                and all(flags.get(name) == value for flags in left_out)
            }  # fmt: skip
            where = f" ({_words(shared)})" if shared and _words(shared) not in why else ""
            lines.append(f"left out: {len(left_out)} of {of} combinations{where}: {why}")
        return lines

    def cells(self, before: Sequence[NightRun] = ()) -> Iterator[Cell[ScenarioResult]]:
        """Yield a control for each version, then combinations by their weights, without an end.

        The next one is that which was run least for its weight, and whose settings, and pairs of
        settings, were; three runs in a row are on one cluster. Those that earlier nights did not
        come to are first, and those whose runs reached what few others did weigh more.

        Args:
            before: the runs of earlier nights.
        """
        combinations, _ = self.combinations()
        random = Random(self.seed)  # noqa: S311 (a schedule, not a secret)
        wholes = [self._whole(flags) for flags, _ in combinations]
        clusters = [tuple(words_of(whole.get(name)) for name in _OWN_CLUSTER) for whole in wholes]
        numbers = count(1)
        for cluster in dict.fromkeys(clusters):
            first = clusters.index(cluster)
            common = {n: v for n, v in wholes[first].items() if n in _CONTROL_KEEPS}
            control = {**common, "scenario": CONTROL, "acks": "1", "min_isr": 2}
            told = {n: v for n, v in combinations[first][0].items() if n in _OWN_CLUSTER}
            seed = random.randrange(SEED_RANGE)
            # What it finds is what it must find.
            yield replace(self._cell(next(numbers), control, CONTROL, told, seed), again=None)
        run, promise = _seen(combinations, before)
        words = [
            {name: words_of(value) for name, value in flags.items()} for flags, _ in combinations
        ]
        weights = [weight * promise.get(n, 1.0) for n, (_, weight) in enumerate(combinations)]
        turns = Turns([*zip(words, weights, strict=True)], run)
        while True:
            first = turns.next_of(range(len(combinations)))
            alike = [n for n, cluster in enumerate(clusters) if cluster == clusters[first]]
            for _ in range(RUNS_A_CLUSTER):
                number = turns.next_of(alike)
                turns.take(number)
                told = dict(combinations[number][0])
                scenario = told.pop("scenario", self.common.get("scenario"))
                seed = random.randrange(SEED_RANGE)
                yield self._cell(next(numbers), wholes[number], scenario, told, seed)

    def _cell(
        self, number: int, flags: Flags, name: str | None, told: Flags, seed: int,
        again: int | None = None,
    ) -> Cell[ScenarioResult]:  # fmt: skip
        scenario = self.make(flags, topic_of(number, again))
        settings = {
            "number": number,
            **_plain(told),
            "scenario": name or scenario.name,
            "acks": scenario.contract.acks,
            "min_isr": scenario.contract.min_isr,
            "workload": told.get("workload"),
            "seed": seed,
        }
        settings = numbered(settings, again)
        return scenario_cell(
            scenario,
            settings=settings,
            title=title(settings),
            seed=seed,
            shares_cluster=True,
            again=partial(self._cell, number, flags, name, told, seed),
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


def _not_dealt(flags: Flags) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if name not in DEALS}


def _fits(entry: Flags, flags: Flags) -> bool:
    return all(words_of(flags.get(name)) == words_of(value) for name, value in entry.items())


def _words(flags: Flags) -> str:
    return ", ".join(in_words(flags))


def _plain(value: Any) -> Any:  # noqa: ANN401 (any flag's)
    """Return a value as JSON has it after it was written and read."""
    return json.loads(json.dumps(value))
