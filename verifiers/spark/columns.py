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
    return rows.select(*(converted(given.get(field.name), field) for field in schema.fields))


def converted(given: Column | str | None, field: StructField) -> Column:
    """Return a column, or that of a name, in a field's name and type; null if none is given.

    Each part of a column is a message to the JVM: an expression in SQL is one.
    """
    kind = field.dataType.simpleString()
    if isinstance(given, Column):
        return given.cast(kind).alias(field.name)
    return F.expr(f"cast({'null' if given is None else f'`{given}`'} as {kind}) as `{field.name}`")
