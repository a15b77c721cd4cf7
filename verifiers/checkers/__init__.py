"""The checkers of run folders, one anomaly a file."""
