"""From run folders to verdicts: one Spark job finds anomalies, and the contracts judge them."""
