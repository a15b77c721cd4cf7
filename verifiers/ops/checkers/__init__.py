"""The checkers of op histories, one anomaly a file."""
