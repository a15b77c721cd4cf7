"""How far polls lag behind the log, tracked op by op while a whole history is parsed.

`lags.realtime_lags` computes the same for histories that no worker holds as a whole.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

_LIMIT = 1 << 63
"""Times and lags are integers of 64 bits; a difference beyond is none."""

Worst = tuple[int, str, int, int, int]
"""A process and key; the largest lag of its polls (ns), when that was invoked (ns), and its op."""


class LagTracker:
    """The positions of processes in each key, and the known offsets of the keys."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._places: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
        self._polls: dict[int, tuple[int, int]] = {}
        self._stands: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)

    def take(  # noqa: PLR0913  (the columns of an op)
        self,
        *,
        op: int,
        process: int,
        ok: bool,
        f: str,
        invoke_ns: int | None,
        complete_ns: int | None,
        keys: Sequence[str],
        touched: Mapping[str, int],
    ) -> None:
        """Take the next OK or INFO op.

        Args:
            op: the index of its completion.
            process: the number of its process.
            ok: whether it ended ok.
            f: the kind of op, such as send.
            invoke_ns: when it was invoked; None if the history does not say.
            complete_ns: when it completed; None if the history does not say.
            keys: those of an assign or subscribe.
            touched: the highest known offset of each key that it sent or polled.
        """
        places = self._places[process]
        if ok and f in ("assign", "subscribe"):
            for key, left in places.items():
                self._stand(process, key, left)
            kept = keys if f == "assign" else ()
            self._places[process] = {key: (places.get(key, (-1, 0))[0], op) for key in kept}
            return
        polls = ok and f in ("poll", "txn")
        for key, high in touched.items():
            if complete_ns is not None:
                self._known[key].append((high, complete_ns))
            place = places.get(key)
            if place is not None:
                self._stand(process, key, place)
            if polls:
                places[key] = (high if place is None else max(high, place[0]), op)
            elif place is not None:
                places[key] = (place[0], op)
        if polls and invoke_ns is not None:
            self._polls[process] = (op, invoke_ns)

    def worst(self) -> Iterator[Worst]:
        """Yield the worst lag of each process and polled key; call it after the last op."""
        for process, places in self._places.items():
            for key, place in places.items():
                self._stand(process, key, place)
        for key, stands in self._stands.items():
            known = sorted(self._known[key])
            highs = [high for high, _ in known]
            # A record at a higher offset proves that there is one above this position.
            since = [*accumulate((time for _, time in reversed(known)), min)][::-1]
            worst: dict[int, tuple[int, int, int, int]] = {}
            for position, time, op, process in stands:
                above = bisect_right(highs, position)
                lag = max(0, time - since[above]) if above < len(highs) else 0
                # Of equal lags the first counts.
                sooner = -time if -time < _LIMIT else -_LIMIT
                found = (lag if lag < _LIMIT else 0, sooner, time, op)
                worst[process] = max(worst.get(process, found), found)
            for process, (lag, _, time, op) in worst.items():
                yield process, key, lag, time, op

    def _stand(self, process: int, key: str, place: tuple[int, int]) -> None:
        """Record the last poll at a position, where the lag was the largest."""
        position, since = place
        op, time = self._polls.get(process, (-1, 0))
        if op >= since:
            self._stands[key].append((position, time, op, process))
