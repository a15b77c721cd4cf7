"""The histories of short runs, gathered into files that one Spark job reads.

One job for each of five hundred runs would mostly plan and open files. So the histories of short
runs are copied once, under names that no two runs share (`verifiers.run_folder.member`), into a few
files.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.errors import HistoryUnreadable
from verifiers.frames.consumption import TELLS_GROUP
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.member import MEMBER, Member
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.run_folder.sealed import Files, unreadable_named
from verifiers.spark import storage

_SCHEMAS = {name: to_arrow_schema(schema) for name, schema in HISTORY_SCHEMAS.items()}


def gather(
    histories: Sequence[tuple[Member, Files]], target: str
) -> tuple[Files, dict[int, HistoryUnreadable]]:
    """Copy the histories of runs into a few files.

    Args:
        histories: the members, and the files of each.
        target: the name of a folder for the copies.

    Returns:
        The common files; and why a member's history could not be read, by its number: nothing of it
        is in the files.
    """
    shares = max(1, min(len(histories), os.cpu_count() or 1))
    for name in _SCHEMAS:
        storage.make_folder(storage.join(target, name))
    failures: dict[int, HistoryUnreadable] = {}

    def copy(share: int) -> None:
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(
                    storage.parquet_writer(_part(target, name, share), schema, compression="zstd")
                )
                for name, schema in _SCHEMAS.items()
            }
            for member, files in histories[share::shares]:
                try:
                    tables = [
                        (name, _read(file, _SCHEMAS[name]))
                        for name, paths in files.items()
                        for file in paths
                    ]
                except HistoryUnreadable as error:
                    failures[member.number] = error
                    continue
                for name, table in tables:
                    writers[name].write_table(_renamed(table, member))

    with ThreadPoolExecutor(shares, "gather") as pool:
        list(pool.map(copy, range(shares)))
    files = {name: [_part(target, name, share) for share in range(shares)] for name in _SCHEMAS}
    return files, failures


def _part(target: str, dataset: str, share: int) -> str:
    return storage.join(target, dataset, f"part-{share}.parquet")


def _read(file: str, schema: pa.Schema) -> pa.Table:
    with unreadable_named(file):
        table = storage.read_parquet(file)
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _renamed(table: pa.Table, member: Member) -> pa.Table:
    columns = {name: table[name] for name in table.schema.names}
    columns["process"] = pc.add(table["process"], pa.scalar(member.base, pa.int32()))
    if "topic" in columns:
        # The result is null where the name is null.
        prefix = pa.scalar(member.named(""))
        columns["topic"] = pc.binary_join_element_wise(prefix, table["topic"], "")
    if "f" in columns:
        # A member of a consumer group records how it commits, a space, and the group's name.
        joins = pc.is_in(table["f"], pa.array(TELLS_GROUP))
        has_group = pc.match_substring(table["detail"], " ")
        named = pc.replace_substring(
            table["detail"], " ", f" {member.named('')}", max_replacements=1
        )
        columns["detail"] = pc.if_else(pc.and_(joins, has_group), named, table["detail"])
    return pa.table(columns, schema=table.schema)


def hand_out(parts: str, members: Sequence[Member], name: str, schema: StructType) -> None:
    """Move each member's part of a dataset into the folder of its run.

    Args:
        parts: the dataset, partitioned by MEMBER, on the storage of the runs or on this machine.
        members: the runs.
        name: of the folder that each is given; the one it had is replaced.
        schema: of the dataset, for a member that has no row in it.
    """
    for member in members:
        own = storage.join(parts, f"{MEMBER}={member.number}")
        if storage.kind_of(own) is None:
            storage.make_folder(own)
            none = to_arrow_schema(schema).empty_table()
            with storage.parquet_writer(storage.join(own, "part-0.parquet"), none.schema) as writer:
                writer.write_table(none)
        # What was made on this machine of a run elsewhere is stored there with its verdict.
        home = LargeFiles.of(member.run.path).home if storage.is_uri(parts) else member.run.path
        target = storage.join(str(home), name)
        with storage.reachable(target):
            storage.replace_folder(own, target)
