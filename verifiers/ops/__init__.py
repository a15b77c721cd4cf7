"""Op histories in JSON lines, read, checked and judged as Jepsen's Kafka checker defines it."""
