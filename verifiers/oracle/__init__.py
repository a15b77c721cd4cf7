"""The oracle: which anomalies a contract permits, why, and the source of each rule.

Finding and judging are apart: checkers report all they find, and this table alone says what of it
the producers and consumers had no right to rely on. A chapter is what is ruled of one anomaly, its
rows are read from the top, and the first that fits rules. docs/contracts.md is written from it.
"""
