"""Sizes as people write them: 500MB, 20GB, 2GiB."""

import re

from harness.core.errors import UsageError

_UNIT_BYTES: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", start=1)},
}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)")


def parse_size_bytes(text: str) -> int:
    """Return the bytes that `text` means.

    Raises:
        UsageError: it is not a number with one of the units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB.
    """
    match = _FORM.fullmatch(text.strip())
    unit = match[2].replace("KB", "kB") if match else ""
    if match is None or unit not in _UNIT_BYTES:
        raise UsageError(f"{text!r} is not a size: write a number and a unit, as in 500MB or 20GB.")
    return round(float(match[1]) * _UNIT_BYTES[unit])


def size_text(size_bytes: int) -> str:
    """Return a size with the digits that matter: 12 MB, 3.4 GB."""
    unit, size = "B", float(size_bytes)
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        unit, size = larger, size / 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
