"""Adequacy: whether the evidence is enough for a VALID, one rule a file."""
