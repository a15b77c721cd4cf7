"""From folders of runs to their verdicts: one job over what they hold, then the contract's word."""
