"""Names of files that are made of foreign words: safe on any file system, and never the same."""

import hashlib
import re
from collections.abc import Sequence

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 60


def safe_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each of some words, in their order.

    A word that is a safe name already keeps it, unless one before it has that name, in whatever
    case. Others, and words that come again, carry a part of their hash, or a number.
    """
    taken: set[str] = set()
    names = []
    for text in texts:
        plain = _plain(text)
        name = plain if plain == text else f"{plain}-{_hash(text)}"
        tries = 1
        while name.casefold() in taken:
            tries += 1
            name = f"{plain}-{_hash(text)}-{tries}"
        taken.add(name.casefold())
        names.append(name)
    return tuple(names)


def _plain(word: str) -> str:
    """Return what of the word may stand in a name: no separators, no dot before it, not nothing."""
    return _UNSAFE.sub("_", word)[:_LONGEST].lstrip(".-") or "key"


def _hash(word: str) -> str:
    # A string of JSON may hold half of a surrogate pair.
    return hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()[:8]
