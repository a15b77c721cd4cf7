"""The table: every chapter, and the ruling that it gives."""

from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.disks import DISKS
from verifiers.oracle.groups import GROUPS
from verifiers.oracle.integrity import INTEGRITY
from verifiers.oracle.losses import LOSSES
from verifiers.oracle.order import ORDER
from verifiers.oracle.row import Chapter, Reason, Ruling, forbidden

TABLE: tuple[Chapter, ...] = (*LOSSES, *ORDER, *GROUPS, *DISKS, *INTEGRITY)
"""Every anomaly of this tree."""

_BY_NAME = {chapter.anomaly: chapter for chapter in TABLE}
_UNHEARD_OF = Chapter(
    anomaly="",
    means="An anomaly that a checker from out of this tree reports.",
    rows=(forbidden(Reason("No contract permits it.", "the default")),),
)


def rule(anomaly: str, kind: str | None, circumstances: Circumstances) -> Ruling:
    """Return whether one kind of an anomaly is permitted, and why."""
    return _BY_NAME.get(anomaly, _UNHEARD_OF).rule(kind, circumstances)


def may_occur(anomaly: str, circumstances: Circumstances) -> bool:
    """Return whether any kind of an anomaly is permitted."""
    chapter = _BY_NAME.get(anomaly, _UNHEARD_OF)
    kinds = chapter.kinds or (None,)
    return any(chapter.rule(kind, circumstances).permitted for kind in kinds)
