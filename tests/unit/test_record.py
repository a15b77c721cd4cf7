import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.op import value_of
from workloads.record import HEADER_BYTES, block_encoder, decoder, encoder

RUN = "00112233445566ff"

values = st.builds(
    value_of, st.integers(min_value=0, max_value=999), st.integers(min_value=0, max_value=2**40 - 1)
)


@given(value=values, size=st.integers(min_value=HEADER_BYTES, max_value=400))
def test_a_record_says_its_value_and_has_its_size(value: int, size: int) -> None:
    record = encoder(run_id=RUN, topic="orders", size_bytes=size)(value)

    assert len(record) == size
    assert decoder(run_id=RUN)(record, "orders") == (value, None)


@given(value=values, place=st.integers(min_value=0, max_value=99), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(value: int, place: int, bit: int) -> None:
    record = bytearray(encoder(run_id=RUN, topic="orders", size_bytes=100)(value))
    record[place] ^= 1 << bit

    decoded, problem = decoder(run_id=RUN)(bytes(record), "orders")

    assert decoded is None
    assert problem == ("format" if 4 <= place < 8 else "checksum")


@given(
    producer=st.integers(min_value=0, max_value=999),
    sequence=st.integers(min_value=0, max_value=2**40 - 600),
    count=st.integers(min_value=0, max_value=600),
    size=st.integers(min_value=HEADER_BYTES, max_value=200),
)
def test_records_made_many_at_once_are_the_same_as_one_by_one(
    producer: int, sequence: int, count: int, size: int
) -> None:
    first = value_of(producer, sequence)
    values = range(first, first + count)
    encode = encoder(run_id=RUN, topic="orders", size_bytes=size)

    block = block_encoder(run_id=RUN, topic="orders", size_bytes=size)(values)

    assert block == [encode(value) for value in values]


def test_a_record_of_another_run_is_none_of_ours() -> None:
    record = encoder(run_id="ff" * 8, topic="orders", size_bytes=100)(7)

    assert decoder(run_id=RUN)(record, "orders") == (None, "run")


def test_a_record_in_the_wrong_topic_is_known_by_its_value() -> None:
    record = encoder(run_id=RUN, topic="orders", size_bytes=100)(7)

    assert decoder(run_id=RUN)(record, "invoices") == (7, "topic")


@pytest.mark.parametrize("payload", [None, b"", b"short", bytes(100)])
def test_what_is_no_record_has_a_wrong_format(payload: bytes | None) -> None:
    assert decoder(run_id=RUN)(payload, "orders") == (None, "format")


def test_a_record_too_small_for_its_own_description_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 28"):
        encoder(run_id=RUN, topic="orders", size_bytes=HEADER_BYTES - 1)


@pytest.mark.parametrize("run_id", ["", "0011", "not hexadecimal!"])
def test_a_run_id_of_another_form_is_refused(run_id: str) -> None:
    with pytest.raises(UsageError, match="16 hexadecimal digits"):
        encoder(run_id=run_id, topic="orders", size_bytes=100)
