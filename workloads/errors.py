"""An error of the client library as a history tells it."""

from confluent_kafka import KafkaError


def words_of(error: KafkaError) -> str:
    """Return an error as events tell it: its name in `confluent_kafka.KafkaError`, and its words.

    Verifiers read the name (`verifiers.frames.answers`).
    """
    return f"{error.name()}: {error.str()}"
