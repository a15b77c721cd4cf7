"""The history of a run: what every client did and met, as it happens and sealed."""
