"""The horizontal axis of a picture: in which unit, from where on, and what stands below it."""

from dataclasses import dataclass
from typing import Self

from verifiers.ops.plots.axes import Axis
from verifiers.ops.plots.plane import Unit, told_time, unit_of_time


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalAxis:
    """The labels of an axis: from low to high in `unit`, `zero` is the value that is labelled 0."""

    zero: int
    unit: Unit
    low: float
    high: float
    title: str

    @classmethod
    def of(cls, axis: Axis) -> Self:
        """Return the labels of an axis.

        Times are those of the history, as in its document; if its clock began long before it, they
        are counted from its first event.
        """
        length = axis.high - axis.low
        zero, unit, title = 0, Unit(name="", size=1), "index of the completion"
        if axis.timed and 0 <= axis.low <= length:
            unit = unit_of_time(axis.high)
            title = f"time of the history, {unit.name}"
        elif axis.timed:
            zero, unit = axis.low, unit_of_time(length)
            title = f"{unit.name} since the first event, whose time is {_zero_label(zero)}"
        low = (axis.low - zero) / unit.size
        high = (axis.high - zero) / unit.size
        return cls(zero=zero, unit=unit, low=low, high=high if high > low else low + 1, title=title)

    def told(self, place: int) -> float:
        """Return a place of the axis as its numbers tell it."""
        return (place - self.zero) / self.unit.size

    def said(self, place: int) -> str:
        """Return a time in words, as in "at 12.3 s"."""
        return told_time(place - self.zero)


def _zero_label(time_ns: int) -> str:
    return f"{time_ns:,} ns".replace(",", "\u202f")
