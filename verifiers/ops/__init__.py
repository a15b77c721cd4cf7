"""Op histories in JSON lines: reading, checking and judging them as Jepsen's Kafka checker does."""
