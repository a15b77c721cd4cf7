"""Plants, a family of anomalies a file."""
