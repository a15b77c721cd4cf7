"""What the clients do, what an error means, and how it is recorded."""
