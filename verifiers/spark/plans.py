"""Plans that stay short: Spark resolves all of a plan again whenever a frame is made from it."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of frames that have the same columns, by their names.

    With `unionByName`, frame after frame, the time grows with the square of their number.
    """
    first, *others = frames
    if not others:
        return first
    jvm: Any = first.sparkSession.sparkContext._jvm
    node = getattr(jvm, "org.apache.spark.sql.catalyst.plans.logical.Union")
    plans = jvm.PythonUtils.toSeq([frame._jdf.logicalPlan() for frame in frames])
    by_name, with_missing = True, False
    return DataFrame(_planned(first, node(plans, by_name, with_missing)), first.sparkSession)


def keep(frame: DataFrame) -> DataFrame:
    """Return a frame that holds its rows from the first job that needs them until `unpersist`.

    What is made from it has its rows in its plan; with `persist` it has all that made them, which
    is resolved and searched for kept rows again and again.
    """
    frame.persist()
    return _Kept(frame, _planned(frame, frame._jdf.queryExecution().withCachedData()))


class _Kept(ClassicDataFrame):
    def __init__(self, made_by: DataFrame, rows: Any) -> None:  # noqa: ANN401  (of Java)
        super().__init__(rows, made_by.sparkSession)
        self._made_by = made_by

    def unpersist(self, blocking: bool = False) -> DataFrame:  # noqa: FBT001, FBT002  (as Spark's)
        """Give the memory back; whoever goes on using the rows has them made again."""
        self._made_by.unpersist(blocking)
        return self


def _planned(like: DataFrame, plan: Any) -> Any:  # noqa: ANN401  (both of Java)
    session = like.sparkSession
    jvm: Any = session.sparkContext._jvm
    dataset = getattr(jvm, "org.apache.spark.sql.classic.Dataset")
    return dataset.ofRows(session._jsparkSession, plan)
