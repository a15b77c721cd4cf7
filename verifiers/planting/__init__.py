"""What `verify --self-test` plants into copies of a run, and whether all that is found, no more."""
