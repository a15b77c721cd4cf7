"""Fast checks of long histories: digests first, and single records only where those differ."""
