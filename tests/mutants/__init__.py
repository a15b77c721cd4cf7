"""Dangerous lines, broken one at a time: the tests must notice each."""
