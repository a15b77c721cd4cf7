"""One sentence about Kafka a file."""
