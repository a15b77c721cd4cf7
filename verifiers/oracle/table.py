"""The table of all chapters, and the rulings that it gives."""

from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.clients import CLIENTS
from verifiers.oracle.cluster import CLUSTER
from verifiers.oracle.disks import DISKS
from verifiers.oracle.groups import GROUPS
from verifiers.oracle.integrity import INTEGRITY
from verifiers.oracle.losses import LOSSES
from verifiers.oracle.order import ORDER
from verifiers.oracle.row import Chapter, Row, chapter, forbidden

TABLE: tuple[Chapter, ...] = (*LOSSES, *ORDER, *GROUPS, *CLIENTS, *DISKS, *INTEGRITY, *CLUSTER)
"""Every anomaly of this tree."""

_BY_NAME = {chapter.anomaly: chapter for chapter in TABLE}
_BY_DEFAULT = forbidden(
    "No contract permits what a checker finds that says nothing else.", source="the default"
)


def chapter_of(anomaly: str) -> Chapter:
    """Return the chapter of an anomaly; if the table has none, one that always forbids."""
    return _BY_NAME.get(anomaly) or chapter(anomaly, "", _BY_DEFAULT)


def rule(anomaly: str, kind: str | None, circumstances: Circumstances) -> Row:
    """Return whether one kind of an anomaly is permitted, and why."""
    return chapter_of(anomaly).rule(kind, circumstances)


def may_occur(anomaly: str, circumstances: Circumstances) -> bool:
    """Return whether any kind of an anomaly is permitted."""
    kinds = chapter_of(anomaly).kinds or (None,)
    return any(rule(anomaly, kind, circumstances).permitted for kind in kinds)
