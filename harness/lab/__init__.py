"""The words in which a claim is scripted, and those in which it is judged."""
