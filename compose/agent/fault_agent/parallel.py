"""Several things at once: a cut that reaches nine brokers one after the other is nine cuts."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from fault_agent import AgentError

T = TypeVar("T")


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T | AgentError]:
    """Make every call in a thread of its own.

    Threads and not processes: a thread may enter a network namespace without taking the others
    with it.

    Args:
        calls: each must bound its own time.

    Returns:
        In the order of the calls, what each returned, or the AgentError it ended with; an OSError
        counts as one.
    """
    results: list[T | AgentError] = [AgentError("It was never called.")] * len(calls)

    def make(place: int) -> None:
        try:
            results[place] = calls[place]()
        except AgentError as error:
            results[place] = error
        except OSError as error:
            results[place] = AgentError(f"The kernel refused: {error}.")

    threads = [threading.Thread(target=make, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def all_or_error(results: Sequence[T | AgentError]) -> list[T]:
    """Return the results if every call succeeded.

    Raises:
        AgentError: the first one that a call ended with.
    """
    good: list[T] = []
    for result in results:
        if isinstance(result, AgentError):
            raise result
        good.append(result)
    return good
