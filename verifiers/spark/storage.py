"""Storage: files and folders on any storage that Spark reads, by their names.

A name is a path of this machine, or a URI: `hdfs://`, `s3a://` or `s3://`, or any other that Spark
knows. Python opens files through pyarrow's file systems, on the driver and in tasks alike; the
file systems of Hadoop that pyarrow does not know are opened by the driver's JVM
(`verifiers.spark.hadoop`), and in tasks by Spark's own reader only.

What is written appears whole or not at all: a draft of a name that nobody else uses is renamed, and
an object store shows an object only when it is complete.
"""

import io
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from harness.core.errors import EnvironmentBroken
from verifiers.spark.errors import first_line

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/+")
_S3 = frozenset({"s3", "s3a"})
_OBJECT_STORES = frozenset({*_S3, "gs", "gcs", "abfs", "abfss"})
"""Their schemes: nothing is renamed there, and a folder is a common beginning of names."""

ERRORS = (OSError, RuntimeError, pa.ArrowException)
"""What opening, reading and writing raises if a storage fails; hdfs-native raises the second."""

_AT_ONCE = 8
"""So many files are copied at the same time."""
_COPIED_BYTES = 4 << 20
_CONNECT_S = 20

_LOCAL = pafs.LocalFileSystem()
_others: list[Callable[[str, str], pafs.FileSystem]] = []
"""What opens a file system that pyarrow does not know, by its scheme and authority."""


def open_others_by(opener: Callable[[str, str], pafs.FileSystem]) -> None:
    """Let this process open file systems that pyarrow does not know.

    Args:
        opener: returns a file system by the scheme and the authority of a URI.
    """
    _others[:] = [opener]
    _filesystem.cache_clear()


def is_uri(name: str) -> bool:
    """Tell whether a name is that of something that does not lie on this machine's disks."""
    match = _URI.match(name)
    return match is not None and match[1].lower() != "file"


def name_of(given: Path | str) -> str:
    """Return the name of what a person names: an absolute path, or a URI without a last slash."""
    text = str(given)
    match = _URI.match(text)
    if match is None:
        return str(Path(text).absolute())
    if match[1].lower() == "file":
        return "/" + text[match.end() :]
    return text.rstrip("/")


def join(name: str, *parts: str) -> str:
    """Return the name of something below a folder."""
    return "/".join([name.rstrip("/"), *parts])


def root_of(name: str) -> str:
    """Return what stands for the storage that something lies on."""
    return "file:" if not is_uri(name) else ":".join(_parts(name)[:2])


def last_part(name: str) -> str:
    """Return the last part of a name, that of a file or folder within its own folder."""
    return name.rstrip("/").rpartition("/")[2]


def spark_name(name: str) -> str:
    """Return the URI by which Spark reads and writes it.

    Spark takes a path without a scheme for one of its default file system, which need not be that
    of this machine. What pyarrow calls s3, Hadoop calls s3a.
    """
    if not is_uri(name):
        return f"file://{name}"
    scheme, _, rest = name.partition(":")
    return f"s3a:{rest}" if scheme in _S3 else name


def opens_in_tasks(name: str) -> bool:
    """Tell whether a Spark task can open it by pyarrow."""
    return not is_uri(name) or _parts(name)[0] in {"hdfs", *_OBJECT_STORES}


def filesystem(name: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system in which something lies, and its path there.

    Raises:
        EnvironmentBroken: what it takes to open the file system is not installed, or not reachable.
    """
    if not is_uri(name):
        return _LOCAL, name
    scheme, authority, path = _parts(name)
    opened = _filesystem(scheme, authority)
    if scheme in _S3:
        return opened, f"{authority}/{path}".rstrip("/")
    if scheme in _OBJECT_STORES:
        _, path = pafs.FileSystem.from_uri(name)
        return opened, path
    return opened, f"/{path}"


def _parts(name: str) -> tuple[str, str, str]:
    scheme, _, rest = name.partition(":")
    authority, _, path = rest.removeprefix("//").partition("/")
    if not rest.startswith("//"):
        authority, path = "", rest.lstrip("/")
    return scheme.lower(), authority, path.rstrip("/")


@lru_cache(maxsize=64)
def _filesystem(scheme: str, authority: str) -> pafs.FileSystem:
    if scheme == "hdfs":
        return _hdfs(authority)
    if scheme in _OBJECT_STORES:
        name = f"s3://{authority}" if scheme in _S3 else f"{scheme}://{authority}/"
        try:
            return pafs.FileSystem.from_uri(name)[0]
        except (OSError, pa.ArrowException, NotImplementedError) as error:
            raise _unreachable(name, error) from error
    if not _others:
        raise EnvironmentBroken(
            f"Only Spark opens {scheme}:// here, and Spark has not been started."
        )
    return _others[0](scheme, authority)


def _hdfs(authority: str) -> pafs.FileSystem:
    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError as error:
        raise EnvironmentBroken(
            "Reading hdfs:// takes the package hdfs-native: pip install 'kafka-chaos[hdfs]'."
        ) from error

    host, _, port = authority.partition(":")
    try:
        if port:
            # The client goes on trying for minutes.
            socket.create_connection((host, int(port)), _CONNECT_S).close()
        native = HdfsFileSystem(host or None, int(port) if port else None, skip_instance_cache=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable(f"hdfs://{authority}", error) from error

    class Replacing(pafs.FSSpecHandler):  # type: ignore[misc]  # its base has no types
        def move(self, src: str, dest: str) -> None:
            self.fs.mv(src, dest, overwrite=True)

    return pafs.PyFileSystem(Replacing(native))


def _unreachable(name: str, error: BaseException) -> EnvironmentBroken:
    return EnvironmentBroken(
        f"{name} cannot be used ({first_line(error)}): does it exist, is it up, and may this user "
        "read and write there? See docs/scaling.md for what each storage needs."
    )


@contextmanager
def reachable(name: str) -> Iterator[None]:
    """Turn the errors of a storage into one sentence that names it.

    Raises:
        EnvironmentBroken: the storage did not answer, or refused.
    """
    try:
        yield
    except ERRORS as error:
        raise _unreachable(name, error) from error


# -- what lies there -------------------------------------------------------------------------------


def kind_of(name: str) -> str | None:
    """Return "file" or "folder", or None if there is nothing of that name."""
    info = _info(name)
    if info.type == pafs.FileType.NotFound:
        return None
    return "file" if info.is_file else "folder"


def size_bytes(name: str) -> int:
    """Return the size of a file, bytes.

    Raises:
        FileNotFoundError: there is no such file.
    """
    info = _info(name)
    if not info.is_file:
        raise FileNotFoundError(f"There is no file {name}.")
    return int(info.size)


def _info(name: str) -> pafs.FileInfo:
    opened, path = filesystem(name)
    return opened.get_file_info(path)


def files_below(name: str) -> dict[str, int]:
    """Return the sizes of all files below a folder, by their paths in it, in their order."""
    opened, path = filesystem(name)
    found = opened.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    begin = len(path.rstrip("/")) + 1
    files = {info.path[begin:]: int(info.size) for info in found if info.is_file}
    return dict(sorted(files.items()))


# -- reading ---------------------------------------------------------------------------------------


def open_input(name: str) -> IO[bytes]:
    """Open a file for reading from any place in it."""
    if not is_uri(name):
        return Path(name).open("rb")
    opened, path = filesystem(name)
    return io.BufferedReader(opened.open_input_file(path), 1 << 20)


def open_parquet(name: str, **options: Any) -> pq.ParquetFile:  # noqa: ANN401  (pyarrow's own)
    """Open a Parquet file; options are those of `pyarrow.parquet.ParquetFile`."""
    opened, path = filesystem(name)
    # Where a read takes a round trip, the columns of a row group are fetched together.
    return pq.ParquetFile(path, filesystem=opened, pre_buffer=is_uri(name), **options)


def parquet_footer(name: str) -> pq.FileMetaData:
    """Return the footer of a Parquet file."""
    opened, path = filesystem(name)
    return pq.read_metadata(path, filesystem=opened)


def parquet_footers(names: Sequence[str]) -> Iterator[pq.FileMetaData]:
    """Yield the footers of Parquet files, in their order; of files elsewhere, read together."""
    if not any(map(is_uri, names)):
        yield from map(parquet_footer, names)
        return
    with ThreadPoolExecutor(_AT_ONCE, "footers") as pool:
        yield from pool.map(parquet_footer, names)


def read_parquet(name: str, columns: list[str] | None = None) -> pa.Table:
    """Return a Parquet file, or some of its columns."""
    with open_parquet(name) as file:
        return file.read(columns=columns)


def fetch(name: str, target: Path) -> None:
    """Copy a file to a path of this machine, whose folder is made if need be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_input(name) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy, _COPIED_BYTES)


@contextmanager
def at_hand(name: str) -> Iterator[Path]:
    """Give a path of this machine under which a file can be read, as long as that is needed.

    A file that lies elsewhere is copied for so long; the copy has its name.
    """
    if not is_uri(name):
        yield Path(name)
        return
    with TemporaryDirectory(prefix="kafka-chaos-") as folder:
        copy = Path(folder) / last_part(name)
        fetch(name, copy)
        yield copy


def fetch_all(files: Mapping[str, Path]) -> None:
    """Copy many files to paths of this machine, by their names."""
    with ThreadPoolExecutor(_AT_ONCE, "fetch") as pool:
        list(pool.map(fetch, files.keys(), files.values()))


# -- writing ---------------------------------------------------------------------------------------


def make_folder(name: str) -> None:
    """Make a folder, and those that it lies in; an object store has none, and none is made."""
    opened, path = filesystem(name)
    if not _is_object_store(name):
        opened.create_dir(path, recursive=True)


def remove(name: str) -> None:
    """Remove a file, or a folder and all that is in it; nothing happens if there is none."""
    opened, path = filesystem(name)
    kind = opened.get_file_info(path).type
    if kind == pafs.FileType.File:
        opened.delete_file(path)
    elif kind == pafs.FileType.Directory:
        opened.delete_dir(path)


def parquet_writer(name: str, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:  # noqa: ANN401
    """Return a writer of a Parquet file; options are those of `pyarrow.parquet.ParquetWriter`."""
    opened, path = filesystem(name)
    return pq.ParquetWriter(path, schema, filesystem=opened, **options)


def unused(folder: str, stem: str, suffix: str) -> str:
    """Return a name in a folder that no other task, and no other attempt of this one, uses."""
    return join(folder, f"{stem}-{uuid.uuid4().hex}{suffix}")


def put(source: Path, name: str) -> None:
    """Copy a file of this machine to where it is named; readers see all of it or nothing."""
    opened, path = filesystem(name)
    if _is_object_store(name):
        _copy(source, opened, path)
        return
    try:
        _put(source, opened, path)
    except ERRORS:
        # Where a DataNode dies, Hadoop's own client goes on with the others.
        if not (is_uri(name) and _others):
            raise
        scheme, authority, _ = _parts(name)
        _put(source, _others[0](scheme, authority), path)


def _put(source: Path, opened: pafs.FileSystem, path: str) -> None:
    folder, _, last = path.rpartition("/")
    draft = f"{folder}/.{last}.{uuid.uuid4().hex}.draft"
    opened.create_dir(folder, recursive=True)
    try:
        _copy(source, opened, draft)
        opened.move(draft, path)
    except BaseException:
        with suppress(*ERRORS):
            opened.delete_file(draft)
        raise


def _copy(source: Path, opened: pafs.FileSystem, path: str) -> None:
    with source.open("rb") as content, opened.open_output_stream(path) as copy:
        shutil.copyfileobj(content, copy, _COPIED_BYTES)


def put_all(files: Mapping[Path, str]) -> None:
    """Copy many files of this machine to where they are named."""
    with ThreadPoolExecutor(_AT_ONCE, "put") as pool:
        list(pool.map(put, files.keys(), files.values()))


def move_file(source: str, target: str) -> None:
    """Give a file another name on the same storage; what had that name is replaced."""
    opened, path = filesystem(source)
    opened.move(path, filesystem(target)[1])


def replace_folder(source: str, target: str) -> None:
    """Move a folder to another name, also from this machine to a storage; replace what is there."""
    remove(target)
    if not is_uri(source) and is_uri(target):
        # Spark writes checksums of its own beside files of this machine.
        files = [file for file in files_below(source) if not last_part(file).startswith(".")]
        put_all({Path(source) / file: join(target, file) for file in files})
        shutil.rmtree(source)
        return
    opened, path = filesystem(source)
    if _is_object_store(source):
        # Only objects have names there.
        for file in files_below(source):
            move_file(join(source, file), join(target, file))
        return
    make_folder(target.rpartition("/")[0])
    opened.move(path, filesystem(target)[1])


def _is_object_store(name: str) -> bool:
    return is_uri(name) and _parts(name)[0] in _OBJECT_STORES
