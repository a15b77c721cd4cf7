"""The argument of a verb: a JSON object, checked against the parameters that take its fields."""

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

from fault_agent import AgentError

T = TypeVar("T")

_TYPES = {int: "a whole number", str: "a text", tuple: "a list"}


def call(taker: Callable[..., T], document: object) -> T:
    """Call a function, or a dataclass, with the fields of a JSON object that it takes.

    Other fields are passed over; null counts as missing where there is a default.

    Args:
        taker: its annotations are int, str, object, tuples of one of these, or `… | None`.
        document: the JSON object.

    Raises:
        AgentError: it is no object, or a field is missing or has another type.
    """
    if not isinstance(document, dict):
        raise AgentError(f"The argument must be a JSON object, not {document!r}.")
    fields = {}
    for name, parameter in inspect.signature(taker).parameters.items():
        value = document.get(name)
        if value is not None or parameter.default is parameter.empty:
            fields[name] = _checked(name, value, parameter.annotation)
    return taker(**fields)


def _checked(name: str, value: object, annotation: Any) -> object:  # noqa: ANN401 (a type)
    """Return a value as its parameter takes it."""
    if get_origin(annotation) is UnionType:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is tuple and isinstance(value, list):
        return tuple(_checked(name, item, get_args(annotation)[0]) for item in value)
    # The type itself: True is no whole number.
    if annotation is not object and type(value) is not annotation:
        wanted = _TYPES[get_origin(annotation) or annotation]
        raise AgentError(f"{name} must be {wanted}, not {value!r}.")
    return value
