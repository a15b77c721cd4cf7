"""The Spark job that judges a run."""
