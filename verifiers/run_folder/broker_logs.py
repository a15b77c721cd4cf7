"""The brokers' own logs: whose they are, and when a line was written."""

import re
from datetime import UTC, datetime
from pathlib import Path

from harness.core.run_dir import REPLICAS_MANIFEST, RunDir

_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[,.]\d{3})?)\]")


def broker_logs(folder: RunDir) -> list[tuple[int, Path]]:
    """Return the server.log of each node of a run, behind its node id."""
    logs = [(node_id, path / "server.log") for node_id, path in node_folders(folder)]
    return [(node_id, log) for node_id, log in logs if log.is_file()]


def node_folders(folder: RunDir) -> list[tuple[int, Path]]:
    """Return what was kept of each node of a run, behind its node id.

    The manifest of the copied replicas says which broker a folder belongs to; where it does not,
    the number at the end of the folder's name does, and a folder without one is left out.
    """
    cluster = folder.path / "cluster"
    is_known = (cluster / REPLICAS_MANIFEST).is_file()
    manifest = folder.read_json(f"cluster/{REPLICAS_MANIFEST}") if is_known else {"brokers": {}}
    node_ids = {str(broker["service"]): node_id for node_id, broker in manifest["brokers"].items()}
    found = []
    for path in sorted(cluster.glob("*/")):
        node_id = node_ids.get(path.name) or re.sub(r".*\D", "", path.name)
        if node_id:
            found.append((int(node_id), path))
    return found


def logged_ms(line: str) -> int | None:
    """Return when a line was written, milliseconds since 1970; None if it does not say.

    It is by the broker's clock, which shows UTC in our images.
    """
    when = _TIME.search(line)
    if when is None:
        return None
    return round(datetime.fromisoformat(f"{when[1]}+00:00").timestamp() * 1000)


def in_utc(at_ms: int) -> str:
    """Return a reading of a broker's clock, milliseconds since 1970, as brokers' logs write it."""
    when = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return when.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
