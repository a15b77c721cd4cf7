"""The declared columns are those of docs/run-folder.md."""

import re
from pathlib import Path

import pytest

from verifiers.run_folder.schema import HISTORY_SCHEMAS

DOCUMENT = Path(__file__).parents[2] / "docs" / "run-folder.md"
KINDS = {"integer": "int32", "long": "int64", "string": "string", "boolean": "bool"}


def documented(dataset: str) -> list[tuple[str, str, bool]]:
    # The raw history, which has columns of its own, is described above the sealed one.
    *_, row = re.findall(rf"^\| `{dataset}` \| .* \| (.*) \|$", DOCUMENT.read_text(), re.MULTILINE)
    if row == "as `poll`":
        return documented("poll")
    columns = re.sub(r"\([^)]*\)", "", row).split(",")
    return [
        (name, kind.rstrip("?"), kind.endswith("?"))
        for name, kind in (column.split() for column in columns)
    ]


@pytest.mark.parametrize("dataset", sorted(HISTORY_SCHEMAS))
def test_a_dataset_has_the_documented_columns(dataset: str) -> None:
    declared = [
        (field.name, KINDS[field.dataType.typeName()], field.nullable)
        for field in HISTORY_SCHEMAS[dataset].fields
    ]

    assert declared == documented(dataset)
