"""Whole histories at the speed of a scan: digests first, and single records only where in doubt."""
