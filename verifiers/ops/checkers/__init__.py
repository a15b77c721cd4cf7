"""One anomaly of op histories a file."""
