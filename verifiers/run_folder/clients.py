"""The clients of a run: what they were told, and how they ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.run_dir import RunDir
from verifiers.run_folder.journal import damage_named


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """One client.

    Attributes:
        process: its number.
        role: producer, consumer or reader; None if that was not written down.
        txn_timeout_s: `transaction.timeout.ms` of its transactions, seconds; None if it does none.
        exit_code: 0 or more by itself, -n by signal n; None if that was not written down.
        asked_to_stop: whether the run had asked it to end.
        killed: whether the run had killed it.
        ended_ns: when it ended, on our monotonic clock.
    """

    process: int
    role: str | None = None
    txn_timeout_s: float | None = None
    exit_code: int | None = None
    asked_to_stop: bool = False
    killed: bool = False
    ended_ns: int | None = None


def read_clients(path: Path) -> tuple[ClientRecord, ...]:
    """Return the clients of a run, by their settings and by clients.jsonl.

    Raises:
        HistoryUnreadable: a file of them is damaged.
    """
    folder = RunDir.open(path)
    endings = _endings(folder)
    settings = client_settings(folder)
    return tuple(
        _client(process, settings.get(process, {}), endings.get(process, {}))
        for process in sorted({*settings, *endings})
    )


def client_settings(folder: RunDir) -> dict[int, Mapping[str, Any]]:
    """Return what each client was told, by process.

    Raises:
        HistoryUnreadable: a file of it is damaged.
    """
    names = settings_files(folder.path).items()
    return {process: folder.read_json(f"clients/{name}") for process, name in names}


def settings_files(run: Path) -> dict[int, str]:
    """Return the names of the files in which the settings of clients lie, by process."""
    names = sorted(file.stem for file in (run / "clients").glob("process-*.json"))
    numbers = {name.removeprefix("process-"): f"{name}.json" for name in names}
    return {int(number): name for number, name in numbers.items() if number.isdigit()}


def _endings(folder: RunDir) -> dict[int, Mapping[str, Any]]:
    endings: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(folder.lines("clients.jsonl"), start=1):
        with damage_named(f"clients.jsonl, line {number} is no ending of a client"):
            endings[int(line["process"])] = line
    return endings


def _client(process: int, settings: Mapping[str, Any], end: Mapping[str, Any]) -> ClientRecord:
    timeout_s = settings.get("timeout_s")
    return ClientRecord(
        process=process,
        role=end.get("role", settings.get("role")),
        txn_timeout_s=float(timeout_s) if isinstance(timeout_s, int | float) else None,
        exit_code=end.get("exit_code"),
        asked_to_stop=end.get("asked_to_stop") is True,
        killed=end.get("killed") is True,
        ended_ns=end.get("time_ns"),
    )
