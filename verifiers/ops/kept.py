"""Frames of op histories that occupy memory for some time."""

from contextlib import ExitStack

from pyspark.sql import DataFrame

from verifiers.spark.plans import keep


class Kept(ExitStack):
    """The frames that occupy memory until this is closed."""

    def keep(self, frame: DataFrame) -> DataFrame:
        """Return a frame that holds its rows until then (`verifiers.spark.plans.keep`)."""
        held = keep(frame)
        self.callback(held.unpersist)
        return held
