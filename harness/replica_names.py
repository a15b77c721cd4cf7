"""What files of replicas are called, on a broker's disk and in the folder of a run."""

MANIFEST = "replicas.json"
"""Below `cluster/`: what was copied from whom, and why anything was not."""

EPOCHS = "leader-epoch-checkpoint"
"""In a replica's folder: which leader epochs there were, and where each began."""
