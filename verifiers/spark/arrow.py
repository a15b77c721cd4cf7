"""Frames made from Arrow data or mapped through Arrow batches, without pandas."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def frame_of(
    spark: SparkSession, rows: Sequence[Sequence[object]], schema: StructType
) -> DataFrame:
    """Return a frame of a few rows, or none, which Spark knows when it plans.

    `createDataFrame` makes a frame of which Spark knows nothing: a Python worker reads the rows
    again, each join is planned and run, and a join with no rows is never left out. With a table of
    Arrow it opens a socket for each frame, which takes longer than a small query.

    Args:
        spark: the session.
        rows: values in the order of the columns.
        schema: of the frame.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")
    jvm: Any = spark.sparkContext._jvm
    # Qualified by dots in one word, a class is looked up once.
    batches = getattr(jvm, "java.util.ArrayList")()
    if rows:
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), arrow, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
        batches.add(batch.serialize().to_pybytes())
    converters = getattr(jvm, "scala.jdk.javaapi.CollectionConverters")
    given = converters.asScala(batches.iterator())
    made = jvm.PythonSQLUtils.toDataFrame(given, schema.json(), spark._jsparkSession)
    return DataFrame(made, spark)


def nothing_like(frame: DataFrame) -> DataFrame:
    """Return a frame of no rows in the columns of another, which Spark knows to be empty."""
    return frame_of(frame.sparkSession, [], frame.schema)


def map_in_arrow(frame: DataFrame, function: BatchFunction, schema: StructType) -> DataFrame:
    """Return the results of a function on the batches of each partition, in columns of `schema`.

    The same as `DataFrame.mapInArrow`, which imports pandas although it needs none of it.
    """
    make = UserDefinedFunction(
        function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = make(*(frame[name] for name in frame.columns))
    together, resources = False, None
    mapped = frame._jdf.mapInArrow(column._jc, together, resources)
    return DataFrame(mapped, frame.sparkSession)
