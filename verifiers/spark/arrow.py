"""Frames made from Arrow data or mapped through Arrow batches, without pandas."""

from collections.abc import Callable, Iterator, Sequence

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
    """Return a frame of a few rows, which Spark knows when it plans.

    `createDataFrame` would let a Python worker read the rows again, and starting that worker would
    take a tenth of a short verification.

    Args:
        spark: the session.
        rows: values in the order of the columns.
        schema: of the frame.
    """
    if not rows:
        return spark.createDataFrame([], schema)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), arrow, strict=True)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)


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
