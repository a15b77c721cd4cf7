"""The errors of Spark and of storages, in a line."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises; the latter if Spark has no class of its own for the cause."""

_LONGEST = 300
_UNREADABLE = re.compile(r"FAILED_READ_FILE|\bat org\.apache\.parquet\.|\bHistoryUnreadable\b")
_OF_WORKER = re.compile(r"\bHistoryUnreadable: (.+)")


def is_unreadable(error: Exception) -> bool:
    """Tell whether a job failed because a file of the history could not be read."""
    return _UNREADABLE.search(str(error)) is not None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, shortened; of a Java error, of its cause's."""
    words = str(error)
    if isinstance(error, Py4JJavaError):
        # Its own first line names no cause; the Java exception does.
        words = error.java_exception.getMessage() or ""
    of_worker = _OF_WORKER.search(words)
    if of_worker is not None:
        return of_worker[1][:_LONGEST]
    return (words.strip().splitlines() or [type(error).__name__])[0][:_LONGEST]
