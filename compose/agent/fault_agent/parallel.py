"""Several things at once: a cut that reaches nine brokers one after the other is nine cuts."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make every call in a thread, and return what each returned, in their order.

    Threads and not processes: a thread may enter a network namespace without taking the others
    with it. Each call must bound its own time. If calls fail, the first error is raised, after
    all of them have ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=len(calls) or 1) as threads:
        futures = [threads.submit(call) for call in calls]
    return [future.result() for future in futures]
