"""The nouns of a chaos run; standard library only, imports nothing else of ours."""
