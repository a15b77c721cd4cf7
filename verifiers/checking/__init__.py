"""What a checker is, what checkers share, and how all of them are run in one job."""
