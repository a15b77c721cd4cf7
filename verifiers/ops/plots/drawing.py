"""Drawing the plots of op histories beside their verification, which it never disturbs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from verifiers.checking.crashes import Crashes
from verifiers.ops.checking import OpChecked
from verifiers.ops.judgement import HistoryVerdict
from verifiers.ops.plots.page import prepare, write_plots
from verifiers.ops.plots.series import Series, series_of
from verifiers.ops.reading import OpHistories


class Plotter:
    """Gathers the series of some histories, and draws them once they are judged.

    If that fails, a sentence says so and names the file of the traceback: plots have no part in a
    verdict.

    Args:
        folder: in which the plots are written; made at once.
        tell: called with each sentence about what was drawn, or why nothing was.

    Raises:
        UsageError: the folder cannot be made.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        prepare(folder)
        self._folder = folder
        self._tell = tell
        self._series: Mapping[int, Series] | None = None

    def gather(self, spark: SparkSession, histories: OpHistories, checked: OpChecked) -> None:
        """Have Spark make and thin the series of all histories, while they are at hand."""
        self._tell("Gathering what the plots show.")
        try:
            self._series = series_of(spark, histories, checked)
        except Exception as error:  # noqa: BLE001  (whatever it is, the verdicts must be told)
            self._crashed(error)

    def write(self, verdicts: Sequence[HistoryVerdict]) -> None:
        """Draw all histories, each into a folder of its name."""
        if self._series is None:
            return
        try:
            write_plots(self._folder, self._series, verdicts)
        except Exception as error:  # noqa: BLE001  (whatever it is, the verdicts must be told)
            self._crashed(error)
        else:
            self._tell(f"Plots: {self._folder / 'index.html'}")

    def _crashed(self, error: Exception) -> None:
        crashes = Crashes()
        crashes.note("plots", error, kind="drawing of", called="plots")
        self._tell(crashes.sentences["plots"])
