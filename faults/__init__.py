"""One fault a file, and the targets that say who is hit."""
