"""The harness: runs clusters, breaks them on a schedule, and keeps what happened."""
