"""One run, from an empty machine to a sealed folder."""
