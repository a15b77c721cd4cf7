"""What a checker is, which frames checkers share, and how one job runs all checkers."""
