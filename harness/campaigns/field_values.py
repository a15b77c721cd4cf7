"""Values of a dataclass's fields that come from outside: from flags, files and run.json."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from harness.core.errors import HistoryUnreadable, UsageError

T = TypeVar("T")


def field_values(kind: type, values: Mapping[str, Any], *, owner: str) -> dict[str, Any]:
    """Return values as the types of a dataclass's fields demand them.

    Text is read ("5", "on"), and lists become tuples.

    Args:
        kind: the dataclass.
        values: by name of the field; those that are None are left out.
        owner: what has these fields, for errors: "The fault gc_pause".

    Raises:
        UsageError: there is no such field, or its type does not allow the value.
    """
    # Only who changes something needs pydantic, and it takes a tenth of a second to import.
    from pydantic import ValidationError

    given = {name: value for name, value in values.items() if value is not None}
    hints = _hints(kind)
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(
            f"{owner} has no {', '.join(unknown)}; it has {', '.join(sorted(known)) or 'nothing'}."
        )
    typed = {}
    for name, value in given.items():
        try:
            typed[name] = _adapter(hints[name]).validate_python(value)
        except ValidationError as error:
            reasons = dict.fromkeys(
                entry["msg"].replace("Input should", "it should") for entry in error.errors()
            )
            raise UsageError(f"{owner}: {name}={value!r}: {'; '.join(reasons)}.") from error
    return typed


def read_dataclass(kind: type[T], document: Mapping[str, Any]) -> T:
    """Return the instance of a dataclass that a JSON object holds; other fields are passed over.

    Raises:
        HistoryUnreadable: the object is something else.
    """
    from pydantic import ValidationError

    try:
        instance: T = _adapter(kind).validate_python(dict(document))  # type: ignore[arg-type]  # a class is hashable
    except ValidationError as error:
        raise HistoryUnreadable(f"{document} is no {kind.__name__}: {error}") from error
    return instance


_hints = cache(get_type_hints)


@cache
def _adapter(kind: Any) -> Any:  # noqa: ANN401 (any type; pydantic is imported where it is needed)
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
