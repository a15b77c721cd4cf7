"""Chaos around your own code: what a test with kafka-chaos looks like.

Run it with `pytest examples/`. The plug-in comes with the package; nothing needs to be set up.
"""

import pytest
from confluent_kafka import Producer

from kafka_chaos import LeaderOf, Partition, TopicSpec


@pytest.mark.chaos(brokers=3)
def test_orders_are_kept_while_their_leader_dies(kafka_cluster, chaos):
    kafka_cluster.admin.create_topic(
        TopicSpec(
            name="orders",
            partitions=1,
            replication_factor=3,
            config=(("min.insync.replicas", "2"),),
        )
    )
    kafka_cluster.await_full_isr(["orders"], timeout_s=60)
    refused = []
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap, "acks": "all", "enable.idempotence": True}
    )

    with chaos("broker_kill", LeaderOf("orders", 0), hold_s=20) as victims:
        for number in range(100):
            producer.produce(
                "orders",
                f"order {number}".encode(),
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
        assert producer.flush(60) == 0, "not everything was acknowledged"

    assert len(victims) == 1
    assert refused == []


@pytest.mark.chaos(brokers=3)
def test_a_cut_off_leader_is_noticed(kafka_cluster, chaos):
    kafka_cluster.admin.create_topic(TopicSpec(name="orders", partitions=1, replication_factor=3))
    kafka_cluster.await_full_isr(["orders"], timeout_s=60)

    with chaos(Partition(), LeaderOf("orders", 0)):
        pass

    injected, healed = chaos.evidence
    assert injected.details["dropped_packets"] > 0
    assert healed.observed
