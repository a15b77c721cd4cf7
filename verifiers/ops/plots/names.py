"""Names of files that are made of foreign words: safe on any file system, and never the same."""

import hashlib
import re
from collections.abc import Sequence
from itertools import chain, count

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 60


def safe_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each of some words, in their order.

    A word that is a safe name already keeps it, unless one before it has that name, in whatever
    case. Others, and words that come again, carry a part of their hash, or a number.
    """
    names: dict[str, str] = {}
    for text in texts:
        plain = _UNSAFE.sub("_", text)[:_LONGEST].lstrip(".-") or "key"
        # A string of JSON may hold half of a surrogate pair.
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        first = plain if plain == text else f"{plain}-{digest}"
        possible = chain([first], (f"{plain}-{digest}-{n}" for n in count(2)))
        name = next(name for name in possible if name.casefold() not in names)
        names[name.casefold()] = name
    return tuple(names.values())
