"""The Spark session, small on one machine and quiet on a cluster, and what its workers are sent."""
