"""The frames of a history that checkers share: what was recorded, and what follows from it."""
