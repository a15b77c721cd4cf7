"""Frames of a history that checkers share: what was recorded, and what is known of each record."""
