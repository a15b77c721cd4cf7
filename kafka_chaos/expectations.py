"""What a claim may expect of a run: each function returns a test for an `Expectation`."""

from harness.lab.expectations import (
    all_of,
    appends_in_doubt,
    finds,
    finds_no,
    follows,
    keeps_all,
    keeps_order,
    loses,
    loses_some,
    refuses,
    reorders,
    repeats,
    repeats_only,
    sees,
)

__all__ = [
    "all_of",
    "appends_in_doubt",
    "finds",
    "finds_no",
    "follows",
    "keeps_all",
    "keeps_order",
    "loses",
    "loses_some",
    "refuses",
    "reorders",
    "repeats",
    "repeats_only",
    "sees",
]
