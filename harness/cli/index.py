"""The command `kafka-chaos index`: the page about the nights of a store."""

from harness.cli import console
from harness.cli.options import DEFAULT_STORE, KnownFile, Store


def index(store: Store = DEFAULT_STORE, known: KnownFile = None) -> None:
    """Write index.html, the page about all nights of a store, again."""
    from harness.campaigns.night_index import write_index
    from harness.campaigns.night_log import read_nights
    from harness.cli.known_file import known_findings

    findings = known_findings(known)
    console.say(f"page: {write_index(store, read_nights(store), known=findings)}")
