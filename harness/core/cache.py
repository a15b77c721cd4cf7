"""The cache folder of this machine, for build logs, locks and archives."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for build logs and locks, made if need be: XDG cache, `kafka-chaos`."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(root) / "kafka-chaos"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
