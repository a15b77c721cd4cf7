"""Schemas of frames, as the names and types of their columns."""

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
