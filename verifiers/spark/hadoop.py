"""Hadoop's own file systems, opened by the driver's JVM, where pyarrow has none for a scheme.

Files pass through this machine's disk, whole: run folders have small files, and what is large there
is read by Spark.
"""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from harness.core.errors import EnvironmentBroken
from verifiers.spark import storage


def hadoop_files(session: SparkSession, scheme: str, authority: str) -> pafs.FileSystem:
    """Return a file system as the session's Hadoop client opens it.

    Raises:
        EnvironmentBroken: the client does not know the scheme, or cannot reach the storage.
    """
    root = f"{scheme}://{authority}/"
    jvm: Any = session.sparkContext._jvm
    settings = session.sparkContext._jsc.hadoopConfiguration()
    try:
        opened = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI(root), settings)
    except Py4JJavaError as error:
        why = error.java_exception.getMessage()
        raise EnvironmentBroken(
            f"Spark cannot open {root} ({why}): is what it takes among its jars "
            "(spark.jars.packages), and its settings among Hadoop's (HADOOP_CONF_DIR)?"
        ) from error
    return pafs.PyFileSystem(_Files(jvm, opened, root))


def reject_unknown(session: SparkSession, name: str) -> None:
    """Reject what Spark cannot open, before a job fails on it.

    Raises:
        EnvironmentBroken: Spark lacks what it takes.
    """
    if storage.is_uri(name):
        scheme, _, rest = storage.spark_name(name).partition("://")
        hadoop_files(session, scheme, rest.partition("/")[0])


class _Files(pafs.FileSystemHandler):  # type: ignore[misc]  # its base has no types
    """What pyarrow asks of a file system, asked of Hadoop's."""

    def __init__(self, jvm: Any, opened: Any, root: str) -> None:  # noqa: ANN401  (Java's)
        self._jvm, self._opened, self._root = jvm, opened, root

    def get_type_name(self) -> str:
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        folders, found = [selector.base_dir], []
        while folders:
            try:
                entries = self._call(self._opened.listStatus, self._path(folders.pop()))
            except FileNotFoundError:
                if selector.allow_not_found:
                    continue
                raise
            for status in entries:
                path = status.getPath().toUri().getPath()
                found.append(_info_of(path, status))
                if status.isDirectory() and selector.recursive:
                    folders.append(path)
        return found

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: ARG002, FBT001
        self._call(self._opened.mkdirs, self._path(path))

    def delete_dir(self, path: str) -> None:
        self._call(self._opened.delete, self._path(path), True)  # noqa: FBT003

    def delete_file(self, path: str) -> None:
        self._call(self._opened.delete, self._path(path), False)  # noqa: FBT003

    def move(self, src: str, dest: str) -> None:
        if self._info(dest).type == pafs.FileType.File:
            self.delete_file(dest)
        if not self._call(self._opened.rename, self._path(src), self._path(dest)):
            raise OSError(f"{self._root} did not rename {src} to {dest}")

    def open_input_file(self, path: str) -> pa.NativeFile:
        if self._info(path).type != pafs.FileType.File:
            raise FileNotFoundError(path)
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
            copy = Path(folder) / "copy"
            remove, raw = False, True
            self._call(
                self._opened.copyToLocalFile, remove, self._path(path), self._local(copy), raw
            )
            # It can be read as long as it is open.
            return pa.PythonFile(copy.open("rb"), mode="r")

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        _, draft = tempfile.mkstemp(prefix="kafka-chaos-")

        def store() -> None:
            remove, replace = True, True
            self._call(
                self._opened.copyFromLocalFile,
                remove, replace, self._local(Path(draft)), self._path(path),
            )  # fmt: skip

        return pa.PythonFile(_Draft(draft, store), mode="w")

    def _unsupported(self, *_: object) -> None:
        raise NotImplementedError

    copy_file = open_append_stream = delete_dir_contents = delete_root_dir_contents = _unsupported

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            return _info_of(path, self._call(self._opened.getFileStatus, self._path(path)))
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def _local(self, path: Path) -> Any:  # noqa: ANN401
        return self._jvm.org.apache.hadoop.fs.Path(f"file://{path}")

    def _path(self, path: str) -> Any:  # noqa: ANN401
        return self._jvm.org.apache.hadoop.fs.Path(self._root + path.lstrip("/"))

    def _call(self, method: Any, *arguments: Any) -> Any:  # noqa: ANN401
        try:
            return method(*arguments)
        except Py4JJavaError as error:
            java = error.java_exception
            if java.getClass().getSimpleName() == "FileNotFoundException":
                raise FileNotFoundError(java.getMessage()) from error
            raise OSError(f"{java.getClass().getSimpleName()}: {java.getMessage()}") from error


class _Draft(io.FileIO):
    """A file of this machine that is stored elsewhere when it is closed."""

    def __init__(self, path: str, store: Callable[[], None]) -> None:
        super().__init__(path, "wb")
        self._store = store

    def close(self) -> None:
        """Close the file, then store it."""
        if not self.closed:
            super().close()
            self._store()


def _info_of(path: str, status: Any) -> pafs.FileInfo:  # noqa: ANN401
    if status.isDirectory():
        return pafs.FileInfo(path, pafs.FileType.Directory)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.getLen())
