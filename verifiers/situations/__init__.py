"""Situations: the dangerous moments that a run has put Kafka through, recognised and counted."""
