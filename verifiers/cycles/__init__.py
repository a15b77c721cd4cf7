"""Cycles of dependencies: which edges may lie on one, and the search for them."""
