"""A client under test, as small as one can be: docs/client-protocol.md, by way of confluent-kafka.

kafka-chaos run --client-cmd "python examples/clients/reference.py"
"""

import base64
import json
import os
import queue
import sys
import threading

import confluent_kafka as kafka

TAKEN = ("acks", "bootstrap.servers", "delivery.timeout.ms", "enable.idempotence", "group.id")
asked, client = queue.Queue(), None


def say(number, **answer):
    os.write(1, json.dumps({"id": number, **answer}).encode() + b"\n")


def listen():
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)  # killed: not a word to the cluster


def produce(number, request):
    def told(error, message):
        if error:
            problem = {"name": error.name(), "code": error.code(), "message": error.str()}
            return say(number, error=problem)
        return say(number, partition=message.partition(), offset=message.offset())

    value = base64.b64decode(request["value"])
    client.produce(
        request["topic"], value, partition=request.get("partition", -1), on_delivery=told
    )


def moved(event):
    def tell(_, places):
        say(polled, event=event, partitions=[[place.topic, place.partition] for place in places])
        while asked.get()["op"] != "resume":
            pass

    return tell


def poll(request):
    read = [
        m for m in client.consume(request["max"], request["timeout_ms"] / 1000) if not m.error()
    ]
    return [
        [m.topic(), m.partition(), m.offset(), None, base64.b64encode(m.value()).decode()]
        for m in read
    ]


threading.Thread(target=listen, daemon=True).start()
while True:
    try:
        request = asked.get(timeout=0.01)
    except queue.Empty:
        if isinstance(client, kafka.Producer):
            client.poll(0)
        continue
    number, op = request["id"], request["op"]
    if op == "open":
        config = {name: value for name, value in request["config"].items() if name in TAKEN}
        if request["kind"] == "producer":
            client = kafka.Producer(config)
        elif request["kind"] == "consumer":
            client = kafka.Consumer({**config, "auto.offset.reset": "earliest"})
        say(number, client="reference", version=kafka.libversion()[0])
    elif op == "produce":
        produce(number, request)
        client.poll(0)
    elif op == "assign":
        begin = kafka.OFFSET_BEGINNING
        client.assign([kafka.TopicPartition(t, p, begin) for t, p, _ in request["partitions"]])
        say(number)
    elif op == "subscribe":
        client.subscribe(request["topics"], on_assign=moved("assigned"), on_revoke=moved("revoked"))
        say(number)
    elif op == "poll":
        polled = number
        say(number, records=poll(request))
    elif op == "close":
        client.close() if isinstance(client, kafka.Consumer) else client.flush(10)
        say(number)
    else:
        say(number, error={"name": "_NOT_IMPLEMENTED", "message": op})
