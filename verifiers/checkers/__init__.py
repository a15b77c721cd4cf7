"""One anomaly a file."""
