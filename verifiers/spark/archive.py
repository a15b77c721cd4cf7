"""The class archive of Spark's JVM: later JVMs map the classes that an earlier one has loaded.

Half of the time of a short verification goes into loading ten thousand classes.
`verifiers.judging.warm_up` makes an archive of them in the cache folder, which every later session
on this machine uses. Each version and each folder of Spark and Java has an archive of its own,
because a JVM takes only one that fits; if it does not fit, the JVM goes on without it.
"""

import hashlib
from pathlib import Path

import pyspark

from harness.core.cache import cache_folder


def archive_of(java: Path) -> Path:
    """Return the path of the archive for this Java and our PySpark, whether it exists or not."""
    home = java.resolve().parent.parent
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        release = ""
    facts = "\n".join([pyspark.__version__, pyspark.__file__, str(home), release])
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return cache_folder() / f"spark-{pyspark.__version__}-{digest}.jsa"


def use_of(java: Path) -> list[str]:
    """Return the JVM's options for using the archive; none if there is no archive."""
    archive = archive_of(java)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
