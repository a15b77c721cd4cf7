"""Leaders, ISRs and high watermarks over time, on our clock, as far as they are certain."""
