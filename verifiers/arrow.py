"""A frame through a function of Arrow batches, in an environment without pandas."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
