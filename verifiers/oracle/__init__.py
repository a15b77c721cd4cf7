"""The oracle: which anomalies a contract permits, why, and the source of each rule.

Finding and judging are apart: checkers report all they find, and this table alone says what of it
the producers and consumers had no right to rely on. A chapter is what is ruled of one anomaly, its
rows are read from the top, and the first that fits rules. docs/contracts.md is written from it.
"""

from verifiers.oracle.circumstances import Circumstances, Condition
from verifiers.oracle.row import Chapter, Reason, Row, Ruling
from verifiers.oracle.table import TABLE, chapter_of, may_occur, rule

__all__ = [
    "TABLE",
    "Chapter",
    "Circumstances",
    "Condition",
    "Reason",
    "Row",
    "Ruling",
    "chapter_of",
    "may_occur",
    "rule",
]
