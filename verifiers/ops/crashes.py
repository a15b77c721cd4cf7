"""What crashed while op histories were checked: a sentence for each, its traceback in a file."""

import logging
import tempfile
import traceback
from pathlib import Path

from verifiers.checking.execution import first_line

_LOG = logging.getLogger(__name__)


class Crashes:
    """What crashed, by name.

    The tracebacks lie in a new folder for temporary files, which the sentences name: an op history
    may lie anywhere, and nothing is written beside it. Without a crash there is no folder.

    Attributes:
        sentences: one by name.
    """

    def __init__(self) -> None:
        self.sentences: dict[str, str] = {}
        self._folder: Path | None = None

    def note(self, name: str, error: Exception, *, kind: str, called: str) -> None:
        """Keep a crash.

        Args:
            name: of what crashed.
            error: why.
            kind: what it is, as in "checker".
            called: its name for people; the file of the traceback has it too.
        """
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
