"""The class archive of Spark's JVM: what it once loaded and checked, later runs map into memory.

Half of a short verification is a JVM that loads ten thousand classes. `verifiers.judging.warm_up`
makes an archive of them in the cache folder; every session on this machine uses it from then on.
Spark and Java of other versions, or from other folders, have archives of their own, for the JVM
takes only one that fits; and if it does not fit after all, the JVM goes on without.
"""

import hashlib
from pathlib import Path

import pyspark

from harness.core.cache import cache_folder


def archive_of(java: Path) -> Path:
    """Return where the archive for this Java and our PySpark lies, or would lie."""
    home = java.resolve().parent.parent
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        release = ""
    facts = "\n".join([pyspark.__version__, pyspark.__file__, str(home), release])
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return cache_folder() / f"spark-{pyspark.__version__}-{digest}.jsa"


def use_of(java: Path) -> list[str]:
    """Return the JVM's options for using the archive; none if it was never made."""
    archive = archive_of(java)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
