"""Crashes during the check of op histories: a sentence for each, with a file of its traceback."""

import logging
import tempfile
import traceback
from pathlib import Path

from verifiers.spark.errors import first_line

_LOG = logging.getLogger(__name__)


class Crashes:
    """The crashes of one check: sentences by name.

    The tracebacks are written into a new temporary folder, which the sentences name: nothing is
    written beside an op history. Without a crash there is no folder.
    """

    def __init__(self) -> None:
        self.sentences: dict[str, str] = {}
        self._folder: Path | None = None

    def note(self, name: str, error: Exception, *, kind: str, called: str) -> None:
        """Record the crash of something of a kind (as in "checker"), as people call it."""
        _LOG.error("The %s %s crashed.", kind, called, exc_info=error)
        sentence = f"The {kind} {called} crashed ({first_line(error)})"
        try:
            file = self._written(f"crash-{called}.txt", error)
        except OSError as failure:
            why = failure.strerror or type(failure).__name__
            self.sentences[name] = f"{sentence}: its traceback could not be written down ({why})."
        else:
            self.sentences[name] = f"{sentence}: its traceback is in {file}."

    def _written(self, name: str, error: Exception) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafka-chaos-crash-"))
        file = self._folder / name
        file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return file
