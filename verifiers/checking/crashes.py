"""Crashes during a check: a sentence for each, with a file of its traceback."""

import logging
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from verifiers.spark.errors import first_line

_LOG = logging.getLogger(__name__)


class Crashes:
    """The crashes of one check.

    Args:
        folders: of the runs that are checked, into each of which the tracebacks are written.
            Without any, as nothing is written beside an op history, they go into a new temporary
            folder, which the sentences name; without a crash there is none.

    Attributes:
        sentences: what is said of each crash, by name.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self.sentences: dict[str, str] = {}
        self._is_told = not folders
        self._folders = list(folders)
        for folder in folders:
            for stale in folder.glob("crash-*.txt"):
                stale.unlink()

    def note(
        self, name: str, error: Exception, *, kind: str = "checker", called: str | None = None
    ) -> None:
        """Record the crash of something of a kind, as people call it if that is not its name."""
        word = called or name
        _LOG.error("The %s %s crashed.", kind, word, exc_info=error)
        sentence = f"The {kind} {word} crashed ({first_line(error)})"
        try:
            file = self._written(f"crash-{word}.txt", error)
        except OSError as failure:
            why = failure.strerror or type(failure).__name__
            self.sentences[name] = f"{sentence}: its traceback could not be written down ({why})."
        else:
            place = file if self._is_told else file.name
            self.sentences[name] = f"{sentence}: its traceback is in {place}."

    def _written(self, name: str, error: Exception) -> Path:
        text = "".join(traceback.format_exception(error))
        if not self._folders:
            self._folders.append(Path(tempfile.mkdtemp(prefix="kafka-chaos-crash-")))
        for folder in self._folders:
            (folder / name).write_text(text, encoding="utf-8")
        return self._folders[0] / name
