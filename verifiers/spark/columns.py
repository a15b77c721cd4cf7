"""Schemas of frames, as the names and types of their columns."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

BOOL, BYTE, INT, LONG = BooleanType(), ByteType(), IntegerType(), LongType()
DOUBLE, TEXT = DoubleType(), StringType()


def struct(**columns: DataType) -> StructType:
    """Return the schema that has these columns, in this order; each of them may be null."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def declared(*nullable: str, **columns: DataType) -> StructType:
    """Return the schema that has these columns, of which only those named may be null."""
    return StructType(
        [StructField(name, kind, nullable=name in nullable) for name, kind in columns.items()]
    )


def in_columns(rows: DataFrame, schema: StructType, given: Mapping[str, Column]) -> DataFrame:
    """Return rows in the columns of a schema; those that are not given are null."""
    none = F.lit(None)
    return rows.select(
        *(given.get(f.name, none).cast(f.dataType).alias(f.name) for f in schema.fields)
    )
