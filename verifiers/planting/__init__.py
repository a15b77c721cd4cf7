"""`verify --self-test`: anomalies are planted into copies of a run, and have to be found."""
