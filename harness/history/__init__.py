"""The history of a run: what every client did and met; the front of its modules.

The recorders (`harness.history.recorder`) write it as it happens, `harness.history.seal` seals it
into Parquet, and `harness.history.format` says what either looks like.
"""

from harness.history.format import EVENT_SCHEMA, POLL_SCHEMA, SEND_SCHEMA, TXN_SCHEMA
from harness.history.seal import seal

__all__ = ["EVENT_SCHEMA", "POLL_SCHEMA", "SEND_SCHEMA", "TXN_SCHEMA", "seal"]
