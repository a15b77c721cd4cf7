"""Frames from and through Arrow, in an environment without pandas."""

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
    """Return a frame of a few rows, which Spark has at hand when it plans.

    The same as `createDataFrame`, which leaves it to a Python worker to read the rows again: of a
    short verification the start of that would be a tenth.

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
    """Return what a function makes of each partition's batches, in columns of `schema`.

    The same as `DataFrame.mapInArrow`, which asks for pandas on its way and then needs none of it.
    """
    make = UserDefinedFunction(
        function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = make(*(frame[name] for name in frame.columns))
    together, resources = False, None
    mapped = frame._jdf.mapInArrow(column._jc, together, resources)
    return DataFrame(mapped, frame.sparkSession)
