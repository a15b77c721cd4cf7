"""The sends under way: which values were invoked and have no outcome yet, and when."""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

_LEAST_ROOM = 4_096


class UnderWay:
    """Values that were invoked and not completed, with their times; made for many at once.

    Values are invoked in rising order and complete nearly so: a window of times slides over them,
    as long as the distance from the oldest one under way to the newest.
    """

    def __init__(self, first: int) -> None:
        """Begin with none.

        Args:
            first: no value will be below this one.
        """
        self._base = first
        self._end = first
        self._count = 0
        # A place holds the time of invocation; 0 is not under way.
        self._times: Int64s = np.zeros(_LEAST_ROOM, dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    def add(self, values: range, time_ns: int) -> None:
        """Take note that these values, above all before them, are invoked at that time."""
        if values.stop - self._base > len(self._times):
            self._make_room(len(values))
        self._times[values.start - self._base : values.stop - self._base] = time_ns
        self._count += len(values)
        self._end = values.stop

    def withdraw(self, values: range) -> None:
        """Forget the last values added: they were not sent after all."""
        self._times[values.start - self._base : values.stop - self._base] = 0
        self._count -= len(values)
        self._end = values.start

    def remove(self, values: Int64s) -> Int64s:
        """Take completed values out and return when they were invoked.

        Raises:
            KeyError: one of them is not under way.
        """
        places = values - self._base
        inside = len(places) == 0 or (places.min() >= 0 and places.max() < len(self._times))
        times: Int64s = self._times[places] if inside else np.zeros(1, dtype=np.int64)
        if not times.all():
            raise KeyError(f"Among {values} there are some that are not under way.")
        self._times[places] = 0
        self._count -= len(values)
        return times

    def since(self, value: int) -> tuple[Int64s, Int64s]:
        """Return the values under way from that one on, in order, and when they were invoked."""
        low = max(0, value - self._base)
        places = low + np.flatnonzero(self._times[low : self._end - self._base])
        return places + self._base, self._times[places]

    def _make_room(self, more: int) -> None:
        """Let the window begin at the oldest value under way, with room for more at its end."""
        used = self._times[: self._end - self._base]
        live = np.flatnonzero(used)
        oldest = int(live[0]) if len(live) else len(used)
        kept = used[oldest:]
        self._times = np.zeros(2 * (len(kept) + more) + _LEAST_ROOM, dtype=np.int64)
        self._times[: len(kept)] = kept
        self._base += oldest
