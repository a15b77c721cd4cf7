"""Comparison: two runs, two campaigns or two versions side by side, like with like."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from markupsafe import Markup

from harness.campaigns.known import KnownFindings
from harness.campaigns.pages import render
from harness.campaigns.scenario_result import ScenarioResult
from harness.campaigns.sides import Side, kind_of
from harness.campaigns.small_ranges import small_ranges
from harness.campaigns.spread import FEWEST, LEVEL, Share, Spread, Values, chance, spreads
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.verdict import Verdict
from verifiers.report import units

Shown = Literal["only B", "no such runs of A", "both", "only A", "no such runs of B"]

KindOf = Callable[[ScenarioResult], str]
"""Says in what a run must be like another to be compared with it."""

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What runs measured and sides are compared by.

    Attributes:
        name: as a noun.
        more: what a side is that has more of it than the other.
        less: what a side is that has less of it.
        say: writes a value with its unit.
        values: returns those of one run; none if it measured none.
    """

    name: str
    more: str
    less: str
    say: Callable[[float], str]
    values: Callable[[ScenarioResult], Sequence[float]]


def _unavailable_s(run: ScenarioResult) -> Sequence[float]:
    return () if run.unavailable_s is None else (run.unavailable_s,)


def _acked_per_s(run: ScenarioResult) -> Sequence[float]:
    return (run.acked / run.measured.load_s,) if run.measured.load_s else ()


QUANTITIES = (
    Quantity(
        name="longest unavailability", more="longer", less="shorter", say=units.span,
        values=_unavailable_s,
    ),
    Quantity(
        name="recovery", more="slower", less="faster", say=units.span,
        values=lambda run: run.measured.recoveries_s,
    ),
    Quantity(
        name="election", more="slower", less="faster", say=units.span,
        values=lambda run: run.measured.elections_s,
    ),
    Quantity(
        name="ISR shrink", more="slower", less="faster", say=units.span,
        values=lambda run: run.measured.shrinks_s,
    ),
    Quantity(
        name="throughput", more="higher", less="lower",
        say=lambda value: f"{units.count(value)} records/s", values=_acked_per_s,
    ),
)  # fmt: skip
"""The longest time without an acknowledgement of each run; of each fault the time until all ISRs
were full after its healing, until others led, and until its victims had left the ISRs; records
acknowledged in a second of load of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityRow:
    """A quantity on both sides.

    Attributes:
        quantity: which.
        a: its spread on side A; None if no runs that are alike measured it on both sides.
        b: the same of side B.
        probability: how likely chance alone makes the sides differ so much; None if there are too
            few runs to tell.
        sign: of B minus A, 0 if there is no telling.
    """

    quantity: Quantity
    a: Spread | None
    b: Spread | None
    probability: float | None = None
    sign: int = 0

    @property
    def ratio(self) -> float | None:
        """The median of B by that of A; None if there is none, or it would be infinite."""
        return self.b.median / self.a.median if self.a and self.b and self.a.median else None

    @property
    def differs(self) -> bool:
        """Whether the sides differ by more than chance, and their medians in the same way."""
        if self.a is None or self.b is None or self.probability is None:
            return False
        return self.probability < LEVEL and (self.b.median - self.a.median) * self.sign > 0

    @property
    def words(self) -> str:
        """How B is, compared with A."""
        if self.a is None:
            return "not measured"
        if self.probability is None:
            return "too few to tell"
        if not self.differs:
            return "no difference beyond chance"
        return self.quantity.more if self.sign > 0 else self.quantity.less

    def cells(self) -> list[str]:
        """Return it as a row: name, either side, ratio, and how B is."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return [self.quantity.name, self._cell(self.a), self._cell(self.b), ratio, self.words]

    def _cell(self, spread: Spread | None) -> str:
        if spread is None:
            return "—"
        median, low, high = map(self.quantity.say, (spread.median, spread.low, spread.high))
        return f"{median} ({low} to {high}), {spread.n} in {units.counted(spread.runs, 'run')}"

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "name": self.quantity.name,
            "a": None if self.a is None else asdict(self.a),
            "b": None if self.b is None else asdict(self.b),
            "ratio": self.ratio,
            "probability": self.probability,
            "words": self.words,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyRow:
    """In how many judged runs each side shows something.

    Attributes:
        id: of a finding, its fingerprint's; of what is permitted, the anomaly.
        text: the finding in a line.
        forbidden: whether it is a finding.
        known: whether it is a finding that is known on every version of B that shows it.
        a: in how many runs of side A, of those that are like runs which show it.
        b: the same of side B.
    """

    id: str
    text: str
    forbidden: bool
    known: bool = False
    a: Share
    b: Share

    @property
    def shown_by(self) -> Shown:
        """Which side shows it, or has no run that is like those which show it."""
        if self.a.count and self.b.count:
            return "both"
        if self.b.count:
            return "only B" if self.a.of else "no such runs of A"
        return "only A" if self.b.of else "no such runs of B"

    def cells(self, a: str, b: str) -> list[str]:
        """Return it as a row: what, either side, and who shows it; the sides have these names."""
        text = f"{self.id}: {self.text}" if self.forbidden else self.text
        shown_by: str = self.shown_by
        if shown_by != "both":
            shown_by = f"{shown_by[:-1]}{a if shown_by.endswith('A') else b}"
        ruling = f"{'known' if self.known else 'FORBIDDEN'}, {shown_by}"
        return [text, str(self.a), str(self.b), ruling if self.forbidden else "permitted"]

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        shares = {
            side: {**asdict(share), "interval": share.interval}
            for side, share in (("a", self.a), ("b", self.b))
        }
        return {**asdict(self), **shares, "shown_by": self.shown_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides, compared over runs with the same workload and class of contract.

    Attributes:
        a: what B is compared with, such as the version that is in use.
        b: what the question is about.
        kinds: what both sides have runs of, in words.
        left_out: what only one side has runs of, or judged ones, in sentences.
        like: the runs of B that judged runs of A are like.
        quantities: each quantity on both sides, over runs that are alike.
        findings: what is forbidden and was shown; what only B shows is first.
        permitted: what was shown where the contract permits it, for each kind that both sides have
            judged runs of.
    """

    a: Side
    b: Side
    kinds: tuple[str, ...]
    left_out: tuple[str, ...]
    like: tuple[ScenarioResult, ...]
    quantities: tuple[QuantityRow, ...]
    findings: tuple[AnomalyRow, ...]
    permitted: tuple[AnomalyRow, ...]

    @property
    def judged(self) -> list[ScenarioResult]:
        """Those of the runs of B that judged runs of A are like whose verdict is known."""
        return [run for run in self.like if run.verdict is not Verdict.UNKNOWN]

    @property
    def doubt(self) -> str:
        """Why there is too little to say that B shows nothing new; empty if there is enough.

        It takes five judged runs of B that judged runs of A are like, one of them VALID, and no
        more UNKNOWN ones than those; and no finding of B in a run that none of A is like.
        """
        a, b, judged = self.a.name, self.b.name, self.judged
        if untried := self._shown("no such runs of A"):
            return f"{b} shows {_found(untried)} in runs that no judged run of {a} is like"
        if not self.like:
            return f"no run of {b} is like a judged run of {a} in workload and class of contract"
        if len(judged) < FEWEST:
            ran = units.counted(len(judged), "judged run")
            return f"{b} has {ran} like those of {a}, and it takes {FEWEST}"
        if all(run.verdict is not Verdict.VALID for run in judged):
            return f"no run of {b} is VALID"
        if 2 * len(judged) < len(self.like):
            unknown = len(self.like) - len(judged)
            return f"{unknown} of {len(self.like)} runs of {b} are UNKNOWN"
        return ""

    @property
    def verdict(self) -> Verdict:
        """INVALID if B shows something forbidden that A does not; UNKNOWN if that cannot be told.

        Findings that are known do not count.
        """
        if self._shown("only B"):
            return Verdict.INVALID
        return Verdict.UNKNOWN if self.doubt else Verdict.VALID

    @property
    def answer(self) -> str:
        """What there is to say in a sentence: no more than the runs carry."""
        a, b = self.a.name, self.b.name
        if new := self._shown("only B"):
            parts = [f"{b} shows {_found(new)} that {a} does not"]
        elif self.doubt:
            parts = [f"Too little to tell: {self.doubt}"]
        else:
            runs = units.counted(len(self.judged), "judged run")
            parts = [f"Nothing forbidden in {runs} of {b} that {a} does not show"]
        if both := self._shown("both"):
            parts.append(f"both show {_found(both)}")
        if gone := self._shown("only A"):
            parts.append(f"{a} alone shows {_found(gone)}")
        if known := [row for row in self.findings if row.known]:
            parts.append(f"{b} shows {_found(known)}, known already")
        return "; ".join([*parts, *self._differences()]) + "."

    def _shown(self, shown_by: Shown) -> list[AnomalyRow]:
        return [row for row in self.findings if row.shown_by == shown_by and not row.known]

    def _differences(self) -> list[str]:
        differences = [
            f"{row.quantity.name} is {row.words}: {row.quantity.say(row.b.median)}, "
            f"{row.quantity.say(row.a.median)} on {self.a.name}"
            for row in self.quantities
            if row.differs and row.a and row.b
        ]
        told = [row.quantity.name for row in self.quantities if row.probability is not None]
        if differences:
            return differences
        if told:
            return [f"no difference beyond chance in {', '.join(told)}"]
        return ["too few runs to compare times and throughput"]

    def about(self) -> list[list[str]]:
        """Return how many runs each side has and how long they were, as rows: name, either side."""
        a, b = self.a.about(), self.b.about()
        return [[name, words, b[name]] for name, words in a.items()]

    def anomalies(self) -> list[list[str]]:
        """Return findings and what is permitted as rows: what, either side, and who shows it."""
        return [row.cells(self.a.name, self.b.name) for row in (*self.findings, *self.permitted)]

    def write_page(self, path: Path) -> None:
        """Write it as one page, which needs no network.

        Raises:
            UsageError: the page cannot be written there.
        """

        def ranges(row: QuantityRow) -> Markup:
            sides = ((self.a.name, row.a), (self.b.name, row.b))
            return small_ranges(sides, what=row.quantity.name, say=row.quantity.say)

        try:
            write_atomically(path, render("compare.html.j2", comparison=self, ranges=ranges))
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}).") from error

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.name,
            "answer": self.answer,
            "a": self.a.document(),
            "b": self.b.document(),
            "kinds": list(self.kinds),
            "left_out": list(self.left_out),
            "quantities": [row.document() for row in self.quantities],
            "findings": [row.document() for row in self.findings],
            "permitted": [row.document() for row in self.permitted],
        }


def compare(a: Side, b: Side, known: KnownFindings | None = None) -> Comparison:
    """Return two sides side by side.

    If some version was run on both sides, its runs alone are compared with each other; else the
    version is what the sides differ in.

    Args:
        a: what B is compared with.
        b: what the question is about.
        known: the findings that are known; None: none is.
    """
    of = partial(kind_of, with_version=bool(set(a.kafka) & set(b.kafka)))
    made_a, made_b = ({of(run) for run in side.compared if run.run} for side in (a, b))
    judged = {of(run) for run in a.judged} & {of(run) for run in b.judged}
    tried = {of(run) for run in a.judged}
    return Comparison(
        a=a,
        b=b,
        kinds=tuple(sorted(made_a & made_b)),
        left_out=tuple([*_left_out(a, b, of), *_left_out(b, a, of)]),
        like=tuple(run for run in b.compared if of(run) in tried),
        quantities=tuple(_quantity_row(quantity, a, b, of) for quantity in QUANTITIES),
        findings=tuple(_findings(a, b, of, shared=judged, known=known or KnownFindings())),
        permitted=tuple(_permitted(a, b, of, shared=judged)),
    )


def _left_out(side: Side, other: Side, of: KindOf) -> list[str]:
    made = Counter(of(run) for run in side.compared)
    judged = {of(run) for run in side.judged}
    others = {of(run) for run in other.compared if run.run}
    others_judged = {of(run) for run in other.judged}
    return [
        f"{kind}: {units.counted(made[kind], 'run')} of {side.name}, none of {other.name}"
        if kind not in others
        else f"{kind}: no judged run of {other.name}"
        for kind in sorted(made)
        if kind not in others or kind in judged - others_judged
    ]


def _quantity_row(quantity: Quantity, a: Side, b: Side, of: KindOf) -> QuantityRow:
    values_a, values_b = (_values(quantity, side, of) for side in (a, b))
    spread_a, spread_b = spreads(values_a, values_b)
    probability, sign = chance(values_a, values_b) or (None, 0)
    return QuantityRow(
        quantity=quantity, a=spread_a, b=spread_b, probability=probability, sign=sign
    )


def _values(quantity: Quantity, side: Side, of: KindOf) -> Values:
    """Return what runs measured, UNKNOWN ones too: slowness may have made them so."""
    values: dict[str, list[Sequence[float]]] = {}
    for run in side.compared:
        if run.run and (measured := quantity.values(run)):
            values.setdefault(of(run), []).append(measured)
    return values


def _findings(
    a: Side, b: Side, of: KindOf, *, shared: Collection[str], known: KnownFindings
) -> list[AnomalyRow]:
    runs = (*a.judged, *b.judged)
    rows = []
    for shown in dict.fromkeys(each for run in runs for each in run.fingerprints):
        showing = [run for run in runs if shown in run.fingerprints]
        kinds = {of(run) for run in showing}
        share_a, share_b = _shares(a, b, of, showing, kinds & set(shared) or kinds)
        in_b = [run for run in b.judged if shown in run.fingerprints]
        is_known = bool(in_b) and all(known.of(shown, kafka=run.kafka) for run in in_b)
        rows.append(
            AnomalyRow(
                id=shown.id, text=shown.text, forbidden=True, known=is_known, a=share_a, b=share_b
            )
        )
    return sorted(rows, key=lambda row: (get_args(Shown).index(row.shown_by), row.id))


def _permitted(a: Side, b: Side, of: KindOf, *, shared: Collection[str]) -> list[AnomalyRow]:
    showing: dict[tuple[str, str], list[ScenarioResult]] = {}
    for run in (*a.judged, *b.judged):
        for name, found in run.anomalies.items():
            if found.count and found.permitted and of(run) in shared:
                showing.setdefault((name, of(run)), []).append(run)
    rows = []
    for (name, kind), runs in sorted(showing.items()):
        share_a, share_b = _shares(a, b, of, runs, {kind})
        text = f"{name} · {kind}"
        rows.append(AnomalyRow(id=name, text=text, forbidden=False, a=share_a, b=share_b))
    return rows


def _shares(
    a: Side, b: Side, of: KindOf, showing: Sequence[ScenarioResult], kinds: Collection[str]
) -> list[Share]:
    """Return for each side how many of its judged runs of some kinds are among those showing it."""
    ids = set(map(id, showing))
    return [
        Share(count=sum(id(run) in ids for run in judged), of=len(judged))
        for judged in ([run for run in side.judged if of(run) in kinds] for side in (a, b))
    ]


def _found(rows: Sequence[AnomalyRow]) -> str:
    """Return how many findings there are, and the first of them by name."""
    names = [row.id for row in rows[:_MOST_NAMED]]
    more = f" and {len(rows) - len(names)} more" if len(rows) > len(names) else ""
    return f"{units.counted(len(rows), 'finding')} ({', '.join(names)}{more})"
