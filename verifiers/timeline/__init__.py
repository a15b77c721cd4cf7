"""Who led, who was in sync, and how far it was committed: when, on our clock, and how surely."""
