"""The replicas on the brokers' disks: batches, checkpoints and truncations."""
