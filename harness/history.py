"""The history of a run: what every client did and met; the front of its modules.

`harness.send_recorder` and `harness.poll_recorder` write it as it happens, `harness.history_seal`
seals it into Parquet, and `harness.history_format` says what either looks like.
"""

from harness.history_format import EVENT_SCHEMA, POLL_SCHEMA, SEND_SCHEMA, TXN_SCHEMA
from harness.history_seal import seal

__all__ = ["EVENT_SCHEMA", "POLL_SCHEMA", "SEND_SCHEMA", "TXN_SCHEMA", "seal"]
