"""What a ClusterSpec and a user's Compose file become before anything is started."""

import copy
import uuid
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.agent import Jvm
from harness.cluster.topology import Topology, _cluster_id, render
from harness.cluster.user_compose import (
    ComposeFile,
    controller_port,
    data_folders,
    find_nodes,
    listeners,
    properties_of,
    read_compose_file,
    replication_port,
)
from harness.cluster.user_topology import (
    ADDED_GC_LOG,
    arrange,
    complete,
    explain_collision,
    gc_log_of,
    kafka_version,
)
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken, UsageError
from harness.machine.templates import read_yaml

LABELS = {"kafka-chaos": "1", "kafka-chaos.run": "r", "kafka-chaos.owner": "o"}
IMAGE = {"Entrypoint": ["/start"], "Cmd": ["serve", "$HOME"], "Env": ["KAFKA_OPTS=-Da=$b"]}

Document = dict[str, Any]


def rendered(**wanted: Any) -> tuple[Topology, Document]:
    topology = render(
        ClusterSpec(**wanted), run="r", owner="o", image="broker-image", agent_image="agent-image"
    )
    document: Document = read_yaml(topology.compose)
    return topology, document


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


# --- our own clusters


@pytest.mark.parametrize("brokers", range(1, 10))
@pytest.mark.parametrize("controllers", [0, 1, 3])
def test_every_size_has_its_nodes_ports_and_labels(brokers: int, controllers: int) -> None:
    topology, document = rendered(brokers=brokers, controllers=controllers)

    services = document["services"]
    ports = [node.port for node in topology.nodes if node.port]
    assert len(topology.nodes) == brokers + controllers
    assert len(set(ports)) == brokers
    assert set(services) == {node.service for node in topology.nodes} | {"agent"}
    assert set(document["volumes"]) == {node.service for node in topology.nodes}
    for made in (*services.values(), *document["networks"].values(), *document["volumes"].values()):
        assert made["labels"]["kafka-chaos.run"] == "r"
    assert all(service["restart"] == "no" for service in services.values())


@pytest.mark.parametrize(
    ("brokers", "controllers", "voters"),
    [(1, 0, [1]), (2, 0, [1]), (3, 0, [1, 2, 3]), (9, 0, [1, 2, 3]), (2, 3, [101, 102, 103])],
)
def test_the_voters_are_an_odd_number_of_nodes(
    brokers: int, controllers: int, voters: list[int]
) -> None:
    topology, _ = rendered(brokers=brokers, controllers=controllers)

    settings = [properties(node.properties) for node in topology.nodes]
    quorums = {each["controller.quorum.voters"] for each in settings}
    assert len(quorums) == 1
    assert [int(v.split("@")[0]) for v in quorums.pop().split(",")] == voters
    having_role = [int(e["node.id"]) for e in settings if "controller" in e["process.roles"]]
    assert having_role == voters
    assert [node.node_id for node in topology.nodes if node.controller_port] == voters


def test_no_internal_topic_wants_more_replicas_than_there_are_brokers() -> None:
    for brokers in range(1, 10):
        topology, _ = rendered(brokers=brokers)
        for node in topology.nodes:
            settings = properties(node.properties)
            assert int(settings["offsets.topic.replication.factor"]) <= brokers
            assert int(settings["transaction.state.log.min.isr"]) <= brokers


def test_a_dollar_sign_in_a_property_reaches_the_broker() -> None:
    _, document = rendered(config=(("super.users", "User:$root"),))

    assert "super.users=User:$$root" in document["configs"]["broker-1"]["content"]


def test_the_listener_that_is_cut_has_a_port_or_an_error() -> None:
    topology, _ = rendered(brokers=2, controllers=1)
    one, two = topology.nodes[:2]

    assert topology.ports_between(one, two, "all") is None
    assert topology.ports_between(one, two, "replication") == (9092,)
    assert topology.ports_between(one, two, "controller") == (9093,)
    nobody = Topology(project="p", compose="", nodes=(), agent="a")
    with pytest.raises(ClusterBroken, match=r"kafka-chaos\.replication-port"):
        nobody.ports_between(one, two, "replication")


# --- a user's own file


def service(number: int, **more: Any) -> Document:
    return {
        "image": "theirs",
        "environment": {
            "KAFKA_NODE_ID": str(number),
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:19093,HOST://:9092",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://k{number}:19092,HOST://localhost:{number}9092",
            "KAFKA_LOG_DIRS": "/data/kafka",
        },
        "ports": [{"target": 9092, "published": f"{number}9092", "protocol": "tcp"}],
        **more,
    }


def document(**services: Document) -> Document:
    return {
        "name": "theirs",
        "services": {name.replace("_", "-"): each for name, each in services.items()},
        "networks": {"default": {"name": "theirs_default"}},
        "volumes": {"data": {"name": "theirs_data"}},
    }


def arranged(found: Document) -> tuple[Topology, Document, list[str]]:
    before = copy.deepcopy(found)
    file = ComposeFile(path=Path("mine.yaml"), document=found, nodes=find_nodes(found, "mine.yaml"))
    images = {node.service: IMAGE for node in file.nodes}
    notes: list[str] = []
    done = arrange(file, images, labels=LABELS, agent_image="agent-image", say=notes.append)
    assert found == before, "what was read stays as it is"
    changed: Document = read_yaml(done.compose)
    return done, changed, notes


@pytest.mark.parametrize("name", ["kafka-1", "kafka1", "kafka_1", "broker1", "broker-1"])
def test_brokers_are_found_by_the_usual_names(name: str) -> None:
    found = {"services": {name: service(1), "kafka-ui": {"image": "ui"}, "zookeeper": {}}}

    (node,) = find_nodes(found, "mine.yaml")

    assert (node.node_id, node.service, node.port) == (1, name, 19092)


def test_labels_come_before_names() -> None:
    found = document(
        kafka_1=service(1), east=service(2, labels={"kafka-chaos.broker": "7"}),
        quorum=service(3, labels={"kafka-chaos.controller": "100"}),
    )  # fmt: skip

    nodes = find_nodes(found, "mine.yaml")

    assert [(n.node_id, n.service, n.port) for n in nodes] == [
        (7, "east", 29092),
        (100, "quorum", None),
    ]


def old(number: int, **more: Any) -> Document:
    return {
        "image": "theirs",
        "environment": {
            "KAFKA_BROKER_ID": str(number),
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2182/kafka",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://k{number}:9091,HOST://localhost:{number}9092",
        },
        "ports": [{"target": 9092, "published": f"{number}9092", "protocol": "tcp"}],
        **more,
    }


def keeper(**more: Any) -> Document:
    return {"image": "zk", "environment": {"ZOOKEEPER_CLIENT_PORT": "2182"}, **more}


def test_a_zookeeper_gets_a_port_and_an_id_and_the_brokers_tell_its_chroot() -> None:
    topology, changed, _ = arranged(document(kafka_1=old(1), kafka_2=old(2), zookeeper=keeper()))

    *brokers, zookeeper = topology.nodes
    assert [node.kind for node in brokers] == ["broker", "broker"]
    assert (zookeeper.kind, zookeeper.node_id, zookeeper.service) == ("zookeeper", 201, "zookeeper")
    (port,) = changed["services"]["zookeeper"]["ports"]
    assert (port["target"], port["host_ip"], port["published"]) == (
        2182,
        "127.0.0.1",
        str(zookeeper.port),
    )
    assert topology.zookeeper == f"127.0.0.1:{zookeeper.port}/kafka"
    assert topology.bootstrap == "127.0.0.1:19092,127.0.0.1:29092"
    one, two = brokers
    assert topology.ports_between(one, zookeeper, "controller") == (2182,)
    assert topology.ports_between(one, two, "controller") == ()


def test_an_ensemble_is_asked_by_the_ports_that_it_publishes() -> None:
    ports = [{"target": 2181, "published": "12181"}]
    found = document(
        kafka_1=old(1), zoo1={"image": "zk", "ports": ports}, zk_2=keeper(),
        one=keeper(labels={"kafka-chaos.zookeeper": "", "kafka-chaos.client-port": "2190"}),
    )  # fmt: skip
    labelled = find_nodes(found, "mine.yaml")
    del found["services"]["one"]

    named = find_nodes(found, "mine.yaml")

    assert [(n.service, n.inner_port) for n in labelled[1:]] == [("one", 2190)]
    assert [(n.node_id, n.service, n.port, n.inner_port) for n in named[1:]] == [
        (201, "zk-2", None, 2182),
        (202, "zoo1", 12181, 2181),
    ]


def test_a_service_whose_only_role_is_controller_needs_no_port() -> None:
    voter = service(2, ports=[])
    voter["environment"]["KAFKA_PROCESS_ROLES"] = "controller"

    nodes = find_nodes(document(kafka_1=service(1), kafka_2=voter), "mine.yaml")

    assert [(node.node_id, node.port) for node in nodes] == [(1, 19092), (2, None)]


def test_of_several_ports_the_one_that_is_advertised_here_is_for_clients() -> None:
    ports = [{"target": 9999, "published": "9999"}, {"target": 9092, "published": "19092"}]

    (node,) = find_nodes(document(kafka_1=service(1, ports=ports)), "mine.yaml")

    assert node.port == 19092


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({}, "has no brokers"),
        (document(database={"image": "x"}), "has no brokers"),
        (document(kafka_1=service(1, ports=[])), "publishes no port"),
        (document(kafka_1=service(1, ports=[{"target": 9092}])), "publishes no port"),
        (document(kafka_1=service(1), kafka_2=service(1)), "both have the node id 1"),
        (document(kafka_1=service(1, network_mode="host")), "no network of its own"),
        (document(kafka_1=service(1, scale=3)), "scaled to 3"),
        (document(kafka={"ports": [{"target": 1, "published": "1"}]}), "is not known"),
        (document(k=service(1, labels={"kafka-chaos.broker": "one"})), "is no number"),
        (
            document(kafka_1=service(1, labels={"kafka-chaos.client-port": "1234"})),
            "labelled kafka-chaos.client-port=1234",
        ),
        (
            document(kafka_1=service(1, ports=[
                {"target": 9999, "published": "9999"}, {"target": 9998, "published": "9998"},
            ])),
            "publishes several ports",
        ),
        (document(**{f"kafka_{n}": service(n) for n in range(1, 11)}), "at most 9"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    found: Document, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        find_nodes(found, "mine.yaml")


def test_a_file_that_is_not_there_is_refused_before_any_program_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Compose file"):
        read_compose_file(tmp_path / "nowhere.yaml")


def test_the_nodes_own_command_runs_below_our_supervisor() -> None:
    _, changed, _ = arranged(document(kafka_1=service(1, restart="always")))

    node = changed["services"]["kafka-1"]
    assert node["entrypoint"][1:] == ["/opt/kafka-chaos/supervisor", "/start", "serve", "$$HOME"]
    assert node["command"] == []
    assert node["restart"] == "no"
    assert "/run/kafka-chaos:mode=0777" in node["tmpfs"]
    (bound,) = node["volumes"]
    assert bound["read_only"] is True


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": ["other"]}, ["/start", "other"]),
        ({"entrypoint": ["/mine"]}, ["/mine"]),
        ({"entrypoint": ["/mine"], "command": ["x"]}, ["/mine", "x"]),
        ({"entrypoint": None, "command": None}, ["/start", "serve", "$$HOME"]),
    ],
)
def test_what_the_service_says_counts_as_it_does_for_docker(
    given: Document, words: list[str]
) -> None:
    _, changed, _ = arranged(document(kafka_1=service(1, **given)))

    assert changed["services"]["kafka-1"]["entrypoint"][2:] == words


def test_flags_are_added_to_what_image_and_service_say_already() -> None:
    given = service(1)
    given["environment"]["JDK_JAVA_OPTIONS"] = "-Dx=y"

    _, changed, notes = arranged(document(kafka_1=given))

    environment = changed["services"]["kafka-1"]["environment"]
    assert environment["JDK_JAVA_OPTIONS"].startswith("-Dx=y -Xlog:gc*:file=/tmp/kafka-chaos-gc-%p")
    assert environment["KAFKA_OPTS"] == "-Da=$$b -XX:-ExplicitGCInvokesConcurrent"
    assert "GC log" in notes[0]


def test_the_project_never_shares_anything_with_the_users_own() -> None:
    found = document(
        kafka_1=service(1, container_name="fixed", volumes=[
            {"type": "bind", "source": "/home/me/data", "target": "/data"},
            {"type": "volume", "source": "data", "target": "/else"},
        ]),
        kafka_2=service(2, volumes=[{"type": "volume", "source": "kept", "target": "/data/kafka"}]),
        ui={"image": "ui", "volumes": [{"type": "bind", "source": "/a", "target": "/data"}]},
    )  # fmt: skip
    found["volumes"]["kept"] = {"name": "kept", "external": True}
    found["networks"]["outside"] = {"name": "outside", "external": True}

    done, changed, notes = arranged(found)

    assert changed["name"] == done.project != "theirs"
    for made in (*changed["networks"].values(), changed["volumes"]["data"]):
        assert "name" not in made
        assert "external" not in made
        assert made["labels"] == LABELS
    first, second = (changed["services"][name]["volumes"] for name in ("kafka-1", "kafka-2"))
    assert first[0] == {"type": "volume", "source": "kafka-1-data-0", "target": "/data"}
    assert second[0]["source"] == "kafka-2-data-0"
    assert changed["volumes"]["kept"] == {"name": "kept", "external": True}
    assert changed["services"]["ui"]["volumes"][0]["source"] == "/a"
    assert [node.container for node in done.nodes] == [
        "fixed",
        f"{done.project}-kafka-2",
    ]
    assert all(s["labels"].items() >= LABELS.items() for s in changed["services"].values())
    assert len(notes) == 4


def test_what_a_node_does_not_say_is_learned_from_the_running_broker() -> None:
    given = service(1)
    given["environment"] = {"KAFKA_NODE_ID": "1"}
    done, _, _ = arranged(document(kafka_1=given))
    (node,) = done.nodes
    assert (node.replication_port, node.controller_port, node.data) == (None, None, None)
    settings = {
        "listeners": "A://:1000,B://:2000,C://[::]:3000",
        "inter.broker.listener.name": "B",
        "controller.listener.names": "C",
        "log.dirs": "/one,/two",
    }

    known = complete(node, settings, None, has_added_log=True)

    assert (known.replication_port, known.controller_port, known.data) == (2000, 3000, "/one")
    assert known.gc_log == ADDED_GC_LOG


def test_without_the_added_gc_log_the_jvms_own_counts_or_none() -> None:
    (node,) = arranged(document(kafka_1=service(1)))[0].nodes
    old = Jvm(pid_inside=7, words=("java", "-Xloggc:/var/log/gc.log"), jars=())
    none = Jvm(pid_inside=7, words=("java",), jars=())

    assert complete(node, {}, old, has_added_log=False).gc_log == "/var/log/gc.log"
    assert complete(node, {}, none, has_added_log=False).gc_log is None
    assert complete(node, {}, None, has_added_log=False).gc_log is None


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("-Xlog:gc*:file=/var/log/gc.log:time,tags:filecount=10,filesize=100M", "/var/log/gc.log"),
        ("-Xlog:gc*,safepoint:file=/a/b.log:uptimemillis", "/a/b.log"),
        ("-Xlog:gc:/plain.log", "/plain.log"),
        ("-Xlog:gc*:file=/a-%p.log", "/a-%p.log"),
        ("-Xlog:gc*:file=/a-%t.log", None),
        ("-Xlog:gc*:stdout", None),
        ("-Xlog:safepoint:file=/safe.log", None),
        ("-Xlog:gc*", None),
        ("-Xmx1G", None),
    ],
)
def test_the_gc_log_is_read_off_the_command_line(word: str, path: str | None) -> None:
    assert gc_log_of(("java", word, "kafka.Kafka")) == path


def test_the_version_is_the_one_in_the_jars_names() -> None:
    by_file = Jvm(pid_inside=1, words=("java",), jars=("/libs/kafka-server-common-4.3.1.jar",))
    by_words = Jvm(pid_inside=1, words=("-cp", "/l/kafka-clients-7.6.0-ccs.jar:/x.jar"), jars=())

    assert kafka_version([by_file, None]) == "4.3.1"
    assert kafka_version([by_words]) == "7.6.0-ccs"
    assert kafka_version([by_file, by_words]) == "4.3.1 and 7.6.0-ccs"
    assert kafka_version([None]) == "unknown"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ('Conflict. The container name "/kafka-1" is already in use by container "ab"', "kafka-1"),
        ("Bind for 127.0.0.1:29092 failed: port is already allocated", "29092"),
        ("listen tcp4 127.0.0.1:29092: bind: address already in use", "29092"),
        ("Pool overlaps with other one on this address space", "range of addresses"),
    ],
)
def test_a_collision_is_told_by_what_is_taken(words: str, what: str) -> None:
    sentence = explain_collision(f"Error response from daemon: {words}")

    assert sentence is not None
    assert what in sentence
    assert explain_collision("no such image") is None


def test_environment_variables_become_properties_by_the_images_rule() -> None:
    found = properties_of(
        {"KAFKA_LOG_DIRS": "/a$$b", "KAFKA_CFG_NODE_ID": "3", "PATH": "/", "KAFKA_A__B___C": "x",
         "KAFKA_NONE": None}
    )  # fmt: skip

    assert found == {"log.dirs": "/a$b", "node.id": "3", "a_b-c": "x"}


@pytest.mark.parametrize(
    ("settings", "folders"),
    [({"log.dirs": "/a, /b/"}, ["/a", "/b"]), ({"log.dir": "/a"}, ["/a"]), ({}, [])],
)
def test_the_folders_of_a_broker_are_those_of_its_settings(
    settings: dict[str, str], folders: list[str]
) -> None:
    assert data_folders(settings) == folders


def test_ports_are_told_by_the_listeners_names() -> None:
    text = "PLAINTEXT://0.0.0.0:9092, CONTROLLER://:9093"

    assert listeners(text) == {"PLAINTEXT": ("0.0.0.0", 9092), "CONTROLLER": ("", 9093)}  # noqa: S104
    assert replication_port({"listeners": text}) == 9092
    assert controller_port({"listeners": text}) is None
    only = {"listeners": "SASL://:1,C://:2", "controller.listener.names": "C"}
    assert (replication_port(only), controller_port(only)) == (1, 2)


def test_a_cluster_id_never_looks_like_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kafka's storage tool refused one cluster in sixty-four: its id began with a dash.
    drawn = iter([uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(bytes=bytes(16))])
    monkeypatch.setattr("harness.cluster.topology.uuid.uuid4", lambda: next(drawn))

    assert _cluster_id() == "A" * 22
