"""Many runs and their verdicts: configure, conduct, judge, and tell in one page."""
