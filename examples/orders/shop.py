"""An order service, as small as one can be: it accepts orders, and keeps them in Kafka."""

import os

from confluent_kafka import Producer

TOPIC = "orders"


def settings(bootstrap: str) -> dict[str, str]:
    """Return the settings of the service's producer; SHOP_ACKS is what it waits for."""
    return {"bootstrap.servers": bootstrap, "acks": os.environ.get("SHOP_ACKS", "all")}


class Shop:
    """Tells a customer that an order was accepted as soon as Kafka has acknowledged it."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.accepted: list[str] = []

    def order(self, name: str) -> None:
        """Take an order; it is accepted when Kafka says so."""

        def answered(error: object, _: object) -> None:
            if error is None:
                self.accepted.append(name)

        self._producer.produce(TOPIC, name.encode(), partition=0, on_delivery=answered)
        self._producer.poll(0)

    def wait(self, seconds: float) -> int:
        """Wait until all orders are answered; return how many are not."""
        return self._producer.flush(seconds)
