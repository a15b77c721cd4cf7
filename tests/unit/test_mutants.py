"""The table of dangerous lines: each of them is still there, once, and so are its tests."""

from tests.mutants.__main__ import ROOT, read_mutants


def test_every_mutant_can_be_tried() -> None:
    why_not = {mutant.what: mutant.reason_not_to_try(ROOT) for mutant in read_mutants()}

    assert {what: why for what, why in why_not.items() if why} == {}
