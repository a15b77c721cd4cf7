"""All files are there."""

from collections.abc import Iterable, Iterator, Mapping

from verifiers.adequacy.evidence import ClientEvidence, Evidence
from verifiers.adequacy.rule import Answer, judged, rule

_WRITES = {"producer": ("send",), "reader": ("final", "event")}
"""The datasets in one of which a client of a role leaves rows, whatever happens to it."""


@rule("files-complete")
def files_complete(evidence: Evidence) -> Answer:
    """Every client has left its history, with as many rows as were counted when it was sealed.

    The clients are those that run.json names, and those whose settings lie in the folder; the rows
    are those of `history/sealed.json`, which is written while the raw files are read.
    """
    inventory = evidence.history.inventory
    if inventory is None:
        return judged(
            ["The history has no inventory (history/sealed.json): whether files are missing is "
             "unknown. Seal the raw history again."],
        )  # fmt: skip
    # A client that was killed before its first frame has an empty raw file.
    entries = [
        e for e in inventory.values() if isinstance(e, dict) and e.get("process") is not None
    ]
    listed = {int(entry["process"]) for entry in entries}
    clients = evidence.clients
    reasons = [
        f"Client {client.process} ({client.role or 'role unknown'}) left no history: see "
        f"clients/process-{client.process}.log, and run again."
        for client in clients.values()
        if client.process not in listed
    ]
    rows = {
        (dataset, int(entry["process"])): int(count)
        for entry in entries
        for dataset, count in entry["rows"].items()
    }
    for (dataset, process), count in sorted(rows.items()):
        found = evidence.history.rows_by_file.get((dataset, process))
        if found != count:
            what = "is missing" if found is None else f"has {found:,}"
            reasons.append(
                f"history/{dataset}/{process}.parquet {what}, and {count:,} rows were sealed: "
                "restore it, or seal the raw history again."
            )
    unlisted = sorted(set(evidence.history.rows_by_file) - set(rows))
    reasons += [
        f"history/{dataset}/{process}.parquet was not there when the history was sealed: whose it "
        "is, is unknown."
        for dataset, process in unlisted
    ]
    if not evidence.is_claim:
        reasons += _silent(clients.values(), rows)
    return judged(
        reasons,
        clients=len(clients),
        files=len(evidence.history.rows_by_file),
        rows=evidence.history.rows,
    )


def _silent(
    clients: Iterable[ClientEvidence], rows: Mapping[tuple[str, int], int]
) -> Iterator[str]:
    """Yield a sentence for each client that left none of the rows that its role leaves."""
    for client in clients:
        datasets = _WRITES.get(client.role or "", ())
        if datasets and not any(rows.get((dataset, client.process)) for dataset in datasets):
            yield (
                f"Client {client.process} ({client.role}) recorded no {datasets[0]}: see "
                f"clients/process-{client.process}.log, and run again."
            )
