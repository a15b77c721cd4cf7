"""A run's folder as the verifier reads it, alone or beside others in one job; its verdict.json."""
