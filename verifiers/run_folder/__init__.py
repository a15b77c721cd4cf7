"""The folder of a run: what the verifier reads there, and the verdict.json that it writes."""
