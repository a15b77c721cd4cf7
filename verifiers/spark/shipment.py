"""Our code for a Spark cluster: its workers import the packages that the job refers to.

Where the workers have our packages installed, the sent ones come first, so that driver and
workers always have the same version.
Libraries cannot be sent: workers need numpy, pyarrow, crc32c and scipy,
and the Python of the driver's minor version.
"""

import zipfile
from pathlib import Path

from pyspark import SparkContext

_PACKAGES = ("verifiers", "harness")
_ARCHIVE = "kafka-chaos.zip"


def ship(context: SparkContext) -> None:
    """Send our packages to the workers of a cluster, once an application.

    Args:
        context: of the application; the archive lies in its own temporary folder.
    """
    folder = context._temp_dir
    if folder is None or (archive := Path(folder) / _ARCHIVE).exists():
        return
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        for package in _PACKAGES:
            for module in sorted((root / package).rglob("*.py")):
                content.write(module, module.relative_to(root))
    context.addPyFile(str(archive))
