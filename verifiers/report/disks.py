"""The logs on the brokers' disks, as a table and in sentences."""

from collections.abc import Iterator
from itertools import zip_longest

from verifiers.report import fields
from verifiers.report.fields import Json
from verifiers.report.units import count

_MOST_ROWS = 300
_MOST_STRETCHES = 10
_MOST_EPOCHS = 6


def table(replicas: Json) -> list[dict[str, str]]:
    """Return a row for each replica, by partition and broker; empty if none was compared."""
    brokers = fields.objects(replicas, "brokers")
    rows = [
        (name, int(broker), log)
        for broker in brokers
        if broker.isdigit()
        for name, log in fields.objects(brokers, broker).items()
    ]

    def place(row: tuple[str, int, Json]) -> tuple[str, int, int]:
        topic, _, number = row[0].rpartition("-")
        return (topic, int(number) if number.isdigit() else 0, row[1])

    return [_row(*row) for row in sorted(rows, key=place)[:_MOST_ROWS]]


def _row(name: str, broker: int, log: Json) -> dict[str, str]:
    in_sync = log.get("in_sync")
    role = "unknown" if in_sync is None else "in the ISR" if in_sync else "not in the ISR"
    if log.get("leader"):
        role = "leader"
    numbers = ("leo", "high_watermark", "recovery_point", "batches", "size_bytes")
    return {
        "partition": name,
        "broker": str(broker),
        "role": role,
        **{key: _number(log.get(key)) for key in numbers},
        "epochs": _epochs(log.get("epochs")),
        "problem": str(log.get("problem") or ""),
    }


def _number(value: object) -> str:
    return count(value) if isinstance(value, int) else "—"


def _epochs(entries: object) -> str:
    if not isinstance(entries, list) or not entries:
        return "—"
    epochs = [
        f"{entry[0]} from {_number(entry[1])}"
        for entry in entries[-_MOST_EPOCHS:]
        if isinstance(entry, list) and len(entry) == 2
    ]
    return ("… " if len(entries) > _MOST_EPOCHS else "") + ", ".join(epochs)


def sentences(replicas: Json) -> list[str]:
    """Return sentences on the replicas: whether they agree, and on which disks lost records are."""
    if not replicas:
        return []
    compared = "The replicas were compared batch by batch, up to the high watermark."
    if not replicas.get("compared"):
        compared = "The replicas were not compared in full: the reasons say why."
    located = fields.mapping(replicas, "located")
    return [compared, *(_located(located) if located else ())]


def _located(located: Json) -> Iterator[str]:
    held, gone = int(located.get("held", 0)), int(located.get("gone", 0))
    yield (
        f"Of {_number(located.get('lost'))} lost records {count(held)} still lie on a disk, and "
        f"{count(gone)} on none."
    )
    stretches = fields.mappings(located, "stretches")
    for stretch in stretches[:_MOST_STRETCHES]:
        yield _stretch(stretch)
    if len(stretches) > _MOST_STRETCHES:
        yield f"{len(stretches) - _MOST_STRETCHES} more stretches: verdict.json has them."


def _stretch(stretch: Json) -> str:
    first, last = _number(stretch.get("first")), _number(stretch.get("last"))
    where = f"{stretch.get('topic')}/{stretch.get('partition')}"
    what = f"{where}, offsets {first} to {last} ({_number(stretch.get('count'))} lost)"
    held, lacking = str(stretch.get("held_by") or ""), str(stretch.get("lacking") or "")
    kept = f"still on {_brokers(held)}, not on {_brokers(lacking)}" if held else "on no broker"
    cut = "; no broker's log tells of a truncation there"
    if stretch.get("cut_by"):
        epoch = stretch.get("cut_epoch")
        under = f", leader epoch {epoch} goes on from there" if epoch is not None else ""
        cut = f"; {_cuts(stretch)}{under}"
    return f"{what}: {kept}{cut}."


def _cuts(stretch: Json) -> str:
    """Return which brokers cut their logs; the three lists name the brokers in the same order."""
    columns = [str(stretch.get(key) or "").split(",") for key in ("cut_by", "cut_to", "cut_at_utc")]
    return "; ".join(
        f"broker {who} cut its log to offset {to}" + (f" at {when}" if when else "")
        for who, to, when in zip_longest(*columns, fillvalue="")
    )


def _brokers(ids: str) -> str:
    names = [name for name in ids.split(",") if name]
    if not names:
        return "no broker"
    return ("broker " if len(names) == 1 else "brokers ") + ", ".join(names)
