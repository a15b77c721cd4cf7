"""Segments of all formats: batches by their headers, records by their bodies, garbage as rows."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batches import GZIP, old, v2, value_of
from verifiers.replicas import segments
from verifiers.replicas.records import values_in
from verifiers.replicas.segments import HEADERS, read_headers

VALUES = [value_of(1, n) for n in range(5)]


class Headers:
    """The rows of a segment, column by column."""

    def __init__(self, rows: Iterable[pa.RecordBatch]) -> None:
        self.columns: dict[str, list[Any]] = pa.Table.from_batches(rows, HEADERS).to_pydict()


def parse(content: bytes, *, first_offset: int = 0) -> Headers:
    return Headers(segments.parse(content, first_offset=first_offset))


def spans(found: Headers) -> list[tuple[int, int]]:
    columns = found.columns
    return list(zip(columns["base_offset"], columns["last_offset"], strict=True))


def problems(found: Headers) -> list[str]:
    return [problem for problem in found.columns["problem"] if problem]


def damaged(content: bytes, at: int) -> bytes:
    """Return the bytes with one bit of one of them changed."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_batches_of_the_present_format_are_told_by_their_headers() -> None:
    content = v2(0, VALUES) + v2(5, VALUES[:2], epoch=3, codec=GZIP)

    found = parse(content)

    assert spans(found) == [(0, 4), (5, 6)]
    assert found.columns["leader_epoch"] == [0, 3]
    assert found.columns["magic"] == [2, 2]
    assert sum(found.columns["size"]) == len(content)
    assert found.columns["intact"] == [True, True]
    assert found.columns["jump"] == [None, 0]


@pytest.mark.parametrize("magic", [0, 1])
def test_each_message_of_an_old_format_is_a_row(magic: int) -> None:
    found = parse(old(10, [value_of(1, n) for n in range(200)], magic=magic), first_offset=10)

    assert spans(found) == [(n, n) for n in range(10, 210)]
    assert set(found.columns["magic"]) == {magic}
    assert found.columns["leader_epoch"] == [None] * 200
    assert len(set(found.columns["crc"])) == 200
    assert all(found.columns["intact"])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_set_is_one_row_with_all_its_offsets(magic: int) -> None:
    content = old(0, VALUES[:1], magic=magic) + old(1, VALUES, magic=magic, codec=GZIP)

    assert spans(parse(content)) == [(0, 0), (1, 5)]


def test_formats_may_follow_each_other_in_one_segment() -> None:
    content = old(0, VALUES, magic=0) + old(5, VALUES, magic=1) + v2(10, VALUES, epoch=7)

    found = parse(content)

    assert found.columns["magic"] == [0] * 5 + [1] * 5 + [2]
    assert spans(found)[-1] == (10, 14)
    assert all(found.columns["intact"])
    assert problems(found) == []


def test_an_empty_segment_has_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()

    assert list(read_headers(path)) == []


def test_a_segment_longer_than_what_is_decoded_at_once_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "00000000000000000007.log"
    path.write_bytes(b"".join(v2(7 + n, VALUES[:1]) for n in range(10)) + b"\xff" * 80)
    monkeypatch.setattr(segments, "_MOST_AT_ONCE", 4)

    found = Headers(read_headers(path))

    assert spans(found)[:10] == [(n, n) for n in range(7, 17)]
    assert found.columns["jump"] == [None, *[0] * 9, None]
    assert problems(found) == ["magic"]


def test_zeros_up_to_the_end_are_what_was_preallocated() -> None:
    found = parse(v2(0, VALUES) + bytes(4096))

    assert spans(found) == [(0, 4)]
    assert problems(found) == []


@pytest.mark.parametrize("lacking", [1, 20, 100])
def test_half_a_batch_at_the_end_is_a_row_of_its_own(lacking: int) -> None:
    content = v2(0, VALUES) + v2(5, VALUES)

    found = parse(content[:-lacking])

    assert problems(found) == ["truncated"]
    assert found.columns["position"][-1] == len(v2(0, VALUES))


def test_garbage_behind_a_batch_is_a_row_of_its_own() -> None:
    found = parse(v2(0, VALUES) + b"\xff" * 200)

    assert spans(found)[0] == (0, 4)
    assert problems(found) == ["magic"]


def test_offsets_that_fall_in_a_batch_that_is_damaged_end_the_reading() -> None:
    new = v2(5, VALUES) + damaged(v2(2, VALUES), 80)

    assert problems(parse(new)) == ["offsets"]
    assert problems(parse(old(5, VALUES) + damaged(old(2, VALUES), 30))) == ["offsets"]


def test_offsets_that_fall_in_a_batch_that_is_whole_are_told() -> None:
    found = parse(v2(5, VALUES) + v2(2, VALUES) + v2(9, VALUES))

    assert spans(found) == [(5, 9), (2, 6), (9, 13)]
    assert found.columns["jump"] == [None, -8, 2]
    assert parse(old(5, VALUES) + old(2, VALUES)).columns["jump"] == [
        None,
        0,
        0,
        0,
        0,
        -8,
        0,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_format_is_held_against_its_checksum(magic: int, codec: int) -> None:
    def made(base: int) -> bytes:
        if magic == 2:
            return v2(base, VALUES, codec=codec)
        return old(base, VALUES, magic=magic, codec=codec)

    first = made(0)
    found = parse(damaged(first, len(first) - 1) + made(5))

    assert problems(found) == []
    assert found.columns["intact"].count(False) == 1
    assert found.columns["intact"][-1] is True


def test_a_batch_that_claims_too_many_records_is_garbage() -> None:
    content = bytearray(v2(0, VALUES))
    struct.pack_into(">i", content, 23, 2_000_000_000)

    assert problems(parse(bytes(content))) == ["offsets"]


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_values_come_back_from_every_format(magic: int, codec: int) -> None:
    content = (
        v2(40, VALUES, codec=codec) if magic == 2 else old(40, VALUES, magic=magic, codec=codec)
    )
    columns = parse(content, first_offset=40).columns
    found = []
    for position, size in zip(columns["position"], columns["size"], strict=True):
        found += values_in(content[position : position + size])

    assert [value for _, value in found] == VALUES
    if not (magic == 0 and codec):  # inner offsets of v0 are the producer's until a broker has them
        assert [offset for offset, _ in found] == list(range(40, 45))


def test_a_damaged_body_gives_what_can_be_read() -> None:
    content = v2(0, VALUES, codec=GZIP)

    assert values_in(content[:70] + b"\0" * (len(content) - 70)) == []


@given(st.binary(max_size=600))
def test_no_bytes_make_the_parser_fail(content: bytes) -> None:
    found = parse(content)

    assert {len(column) for column in found.columns.values()} == {len(found.columns["position"])}
    assert set(found.columns) == set(HEADERS.names)


@given(st.integers(0, 5), st.data())
def test_no_damage_makes_the_parser_or_the_decoder_fail(kind: int, data: st.DataObject) -> None:
    whole = [
        v2(0, VALUES) + v2(5, VALUES, epoch=1),
        v2(0, VALUES, codec=GZIP),
        old(0, VALUES),
        old(0, VALUES, magic=0),
        old(0, VALUES, codec=GZIP),
        old(0, VALUES) + v2(5, VALUES),
    ][kind]
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    columns = parse(bytes(content)).columns

    for position, size, problem in zip(
        columns["position"], columns["size"], columns["problem"], strict=True
    ):
        assert position + size <= len(content)
        if problem is None:
            values_in(bytes(content[position : position + size]))
