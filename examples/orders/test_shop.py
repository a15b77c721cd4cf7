"""The shop loses no order that it accepted, whatever happens to a broker.

cd examples/orders && pytest                  # acks=all: it passes
cd examples/orders && SHOP_ACKS=1 pytest      # acks=1: it fails, and says which orders are gone
"""

import pytest
from confluent_kafka import Consumer, Producer
from shop import TOPIC, Shop, settings

from kafka_chaos import Contract, LeaderOf, Partition, Recorder, TopicSpec, Verdict

BEFORE, CUT_OFF, HEALED = range(10), range(10, 60), range(60, 120)


@pytest.mark.chaos(brokers=3, config={"replica.lag.time.max.ms": "60000"})
def test_what_was_accepted_is_there_when_the_leader_dies_cut_off(kafka_cluster, chaos, tmp_path):
    kafka_cluster.admin.create_topic(
        TopicSpec(
            name=TOPIC,
            partitions=1,
            replication_factor=3,
            config=(("min.insync.replicas", "2"),),
        )
    )
    kafka_cluster.await_full_isr([TOPIC], timeout_s=60)
    config = settings(kafka_cluster.bootstrap)
    with Recorder(tmp_path / "orders.jsonl", identify=lambda _, __, value: value.decode()) as seen:
        shop = Shop(seen.producer(Producer(config)))
        for number in BEFORE:
            shop.order(f"order {number}")
        assert shop.wait(60) == 0
        # A consumer is given what all replicas of the ISR have.
        kitchen = seen.consumer(
            Consumer(
                {
                    "bootstrap.servers": kafka_cluster.bootstrap,
                    "group.id": "kitchen",
                    "auto.offset.reset": "earliest",
                }
            )
        )
        kitchen.subscribe([TOPIC])
        assert len(kitchen.consume(len(BEFORE), 60)) == len(BEFORE)
        kitchen.close()

        # Its followers hear nothing from it, and nobody notices yet.
        leads = LeaderOf(TOPIC, 0)
        with chaos(Partition(listener="replication"), leads, hold_s=90) as (leader,):
            for number in CUT_OFF:
                shop.order(f"order {number}")
            shop.wait(3)
            with chaos("broker_kill", leader, hold_s=60):
                assert shop.wait(60) == 0, "some orders were never answered"

        # As many are read in the places of the lost ones: the log went on without those.
        for number in HEALED:
            shop.order(f"order {number}")
        assert shop.wait(60) == 0
        seen.read_all({"bootstrap.servers": kafka_cluster.bootstrap}, TOPIC)
        verdict = seen.verify(contract=Contract(acks="all", min_isr=2))

    lost = verdict.anomalies.get("lost-write")
    gone = [example.detail["record"] for example in lost.examples] if lost else []
    assert not gone, f"{lost.count} accepted orders are gone, among them {', '.join(gone)}"
    assert verdict.verdict is Verdict.VALID, verdict.reasons
    assert len(shop.accepted) == len(BEFORE) + len(CUT_OFF) + len(HEALED)
