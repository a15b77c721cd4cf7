"""The argument of a verb: a JSON object whose fields are checked as they are taken."""

import json
from dataclasses import dataclass
from typing import Any

from fault_agent import AgentError


@dataclass(frozen=True, slots=True)
class Arguments:
    """A JSON object.

    Attributes:
        fields: as parsed.
    """

    fields: dict[str, Any]

    @staticmethod
    def parse(text: str) -> "Arguments":
        """Return the object that a text holds.

        Raises:
            AgentError: it is no JSON object.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise AgentError(f"The argument is no JSON: {error}.") from None
        return Arguments._of(document)

    @staticmethod
    def _of(document: object) -> "Arguments":
        if not isinstance(document, dict):
            raise AgentError(f"An object is wanted, not {document!r}.")
        return Arguments(document)

    def get(self, name: str) -> object:
        """Return a field as it is, None if it is missing."""
        return self.fields.get(name)

    def whole(self, name: str) -> int:
        """Return a whole number."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise AgentError(f"{name} must be a whole number, not {value!r}.")
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise AgentError(f"{name} must be a text, not {value!r}.")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None if it is missing."""
        return None if self.fields.get(name) is None else self.text(name)

    def optional_whole(self, name: str) -> int | None:
        """Return a whole number, or None if it is missing."""
        return None if self.fields.get(name) is None else self.whole(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(Arguments({name: value}).text(name) for value in self._list(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        return tuple(Arguments({name: value}).whole(name) for value in self._list(name))

    def documents(self, name: str) -> tuple["Arguments", ...]:
        """Return a list of objects."""
        return tuple(self._of(value) for value in self._list(name))

    def _list(self, name: str) -> list[Any]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise AgentError(f"{name} must be a list, not {value!r}.")
        return value
