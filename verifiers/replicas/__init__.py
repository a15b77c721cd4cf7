"""What lies on the brokers' disks: batches, checkpoints, and who cut what away."""
