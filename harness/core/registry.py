"""Registries: what the modules of a package declare, by name."""

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from harness.core.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T], Mapping[str, T]):
    """Named things of one kind, found by importing the modules of one package.

    Packages outside this tree add theirs through the entry-point group `kafka_chaos.<kind>s`.

    Args:
        kind: singular noun, as it stands in errors: "fault", "scenario", …
        package: the import name of the package whose modules declare them.
    """

    def __init__(self, kind: str, package: str) -> None:
        self._kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._loaded = False

    @property
    def kind(self) -> str:
        """Singular noun, as it stands in errors."""
        return self._kind

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates under `name`.

        Raises:
            ValueError: the name is taken; a programming error, so not a UsageError.
        """

        def decorate(entry: T) -> T:
            earlier = self._entries.get(name)
            if earlier is not None and _origin(earlier) != _origin(entry):
                raise ValueError(
                    f"The {self._kind} name {name!r} is taken by {_origin(earlier)}; "
                    f"{_origin(entry)} must choose another."
                )
            self._entries[name] = entry
            _NAMES[entry] = name
            return entry

        return decorate

    def load(self) -> None:
        """Import every module of the package, then every entry point, once.

        Raises:
            UsageError: an entry point names what cannot be imported.
        """
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        from importlib import metadata

        kind = self._kind.replace(" ", "_")
        for entry_point in metadata.entry_points(group=f"kafka_chaos.{kind}s"):
            try:
                entry_point.load()
            except ImportError as error:
                owner = entry_point.dist.name if entry_point.dist else "a package"
                raise UsageError(
                    f"The {self._kind} {entry_point.name} = {entry_point.value} of {owner} "
                    f"cannot be loaded ({error}): install that again, or uninstall it."
                ) from error

    def _load_module(self, name: str) -> None:
        """Import the module that is called like an entry, if there is one: most are."""
        if name not in self._entries and not self._loaded and name.isidentifier():
            module = f"{self._package}.{name}"
            if importlib.util.find_spec(module) is not None:
                importlib.import_module(module)

    def __getitem__(self, name: str) -> T:
        """Return the entry of that name.

        Raises:
            UsageError: there is none; the message lists what there is.
        """
        self._load_module(name)
        if name not in self._entries:
            self.load()
        if name not in self._entries:
            similar = difflib.get_close_matches(name, self._entries, n=1)
            hint = f" Did you mean {similar[0]!r}?" if similar else ""
            names = ", ".join(sorted(self._entries)) or "none"
            raise UsageError(f"There is no {self._kind} {name!r}.{hint} Known: {names}.")
        return self._entries[name]

    def name_of(self, entry: object) -> str:
        """Return the name under which an entry, or the class of an instance, is registered."""
        # Whoever has an instance has imported its module, which has declared it.
        for name, registered in self._entries.items():
            if registered is entry or registered is type(entry):
                return name
        return type(entry).__name__

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self.load()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        self.load()
        return name in self._entries


_NAMES: dict[object, str] = {}
"""The names of all entries of all registries."""


def registered_name(thing: object) -> str:
    """Return the name of an instance's class in whatever registry it is, else the class's own."""
    return _NAMES.get(type(thing), type(thing).__name__)


def _origin(entry: object) -> str:
    entry = inspect.unwrap(entry) if callable(entry) else entry
    module = getattr(entry, "__module__", "?")
    return f"{module}.{getattr(entry, '__qualname__', repr(entry))}"


def first_sentence(entry: object) -> str:
    """Return the first line of an entry's docstring, for lists."""
    documented = inspect.unwrap(entry) if callable(entry) else entry
    return (documented.__doc__ or "").strip().split("\n", 1)[0]
