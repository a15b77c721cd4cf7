"""The Spark session, frames through Arrow, and the code that workers of a cluster receive."""
