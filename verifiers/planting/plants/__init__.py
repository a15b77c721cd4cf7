"""The plants, a family of anomalies a file."""
