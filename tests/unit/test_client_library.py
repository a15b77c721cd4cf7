"""Another client library: how it is named, how it comes here, and that it is the one that runs."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from harness.campaigns.configure import Overrides, configure
from harness.campaigns.nights import Night
from harness.cluster.docker_cluster import DockerCluster
from harness.core.access import Access
from harness.core.client_library import ClientLibrary, ClientRuntime
from harness.core.cluster import ClusterSpec
from harness.core.errors import EnvironmentBroken, UsageError
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.workload import ClientSpec
from harness.machine import client_packages
from harness.machine.versions import reject_unknown_versions
from harness.run.context import Phases, RunContext
from workloads.control import loaded_library

LIBRARY = ClientLibrary(version="2.13.0")
LOADED = {"confluent-kafka": "2.13.0", "librdkafka": "2.13.0"}

# -- how it is named -------------------------------------------------------------------------------


def test_a_library_is_written_as_it_is_read() -> None:
    assert ClientLibrary.parse("librdkafka:2.13.0") == LIBRARY
    assert str(LIBRARY) == "librdkafka:2.13.0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("librdkafka:2.13.0", False), ("java:3.9.1", False), ("java:4.0.0", True),
        ("java:4.3.1", True), ("command:mine --new", False),
    ],
)  # fmt: skip
def test_the_java_client_renews_the_epoch_of_each_transaction_since_4_0(
    text: str, expected: bool
) -> None:
    assert ClientLibrary.parse(text).renews_epochs is expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("librdkafka", "'librdkafka' has no version: write it as in librdkafka:2.13.0"),
        ("librdkafka:", "has no version"),
        ("librdkafka:latest", "'latest' is no released version"),
        ("librdkafka:2.13.0rc1", "'2.13.0rc1' is no released version"),
        ("librdkafka:2.13.0; rm", "no released version"),
        ("java:2.4.1", "The Java client 2.4.1 lacks what workloads ask of it: 2.5 or later"),
        ("java:newest", "'newest' is no released version of java"),
        ("command:", "has no version"),
        ("command:'a", "No closing quotation"),
        ("2.13.0", "There is no client '2.13.0'"),
        ("sarama:1.46.0", "There is no client 'sarama:1.46.0'"),
    ],
)
def test_what_names_no_library_is_refused_with_how_one_is_written(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        configure("mixed", Overrides(client=text))


def test_every_run_of_a_night_has_the_client_that_was_asked_for() -> None:
    cells = Night(seed=7, client="librdkafka:2.13.0").cells()

    assert [next(cells).run.client for _ in range(3)] == [LIBRARY] * 3


# -- how it comes here -----------------------------------------------------------------------------

PIP = """
import sys
from pathlib import Path

calls = Path(__file__).with_name("calls")
with calls.open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
if Path(__file__).with_name("broken").exists():
    sys.exit("ERROR: the network is gone")
if sys.argv[1] == "index":
    print("confluent-kafka (2.16.1)\\nAvailable versions: 2.16.1, 2.13.2, 2.13.0")
else:
    folder = Path(sys.argv[sys.argv.index("--target") + 1])
    folder.mkdir()
    (folder / "confluent_kafka.py").write_text(sys.argv[-1])
"""


class Index:
    """A pip that fetches nothing, and remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pip.py").write_text(PIP)

    def command(self, name: str) -> list[str]:
        return [sys.executable, str(self._folder / "pip.py"), name]

    def break_down(self) -> None:
        (self._folder / "broken").touch()

    @property
    def calls(self) -> list[str]:
        """The commands that it was called with."""
        file = self._folder / "calls"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    made = Index(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(client_packages, "_pip", made.command)
    client_packages.published_versions.cache_clear()
    return made


def ensure(library: ClientLibrary = LIBRARY) -> Path:
    return client_packages.ensure_client_package(library, say=print)


def test_a_library_is_fetched_once_into_a_folder_of_its_own(index: Index) -> None:
    first, again = ensure(), ensure()
    other = ensure(ClientLibrary(version="2.13.2"))

    assert first == again
    assert first.name == f"librdkafka-2.13.0-{sys.implementation.cache_tag}"
    assert (first / "confluent_kafka.py").read_text() == "confluent-kafka==2.13.0"
    assert (other / "confluent_kafka.py").read_text() == "confluent-kafka==2.13.2"
    assert index.calls == ["index", "install", "install"]


def test_another_python_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = client_packages.package_folder(LIBRARY)
    monkeypatch.setattr(
        client_packages,
        "sys",
        SimpleNamespace(implementation=SimpleNamespace(cache_tag="cpython-399")),
    )

    assert client_packages.package_folder(LIBRARY) != ours


def test_what_a_killed_process_left_of_it_is_not_taken_for_it(index: Index) -> None:
    folder = client_packages.package_folder(LIBRARY)
    draft = folder.with_name(folder.name + ".draft")
    draft.mkdir(parents=True)
    (draft / "half").touch()

    assert [path.name for path in ensure().iterdir()] == ["confluent_kafka.py"]
    assert not draft.exists()


def test_a_version_that_is_not_published_is_answered_with_those_that_are(index: Index) -> None:
    unknown = ClientLibrary(version="2.13.1")

    with pytest.raises(UsageError, match=r"no confluent-kafka 2\.13\.1 .*2\.16\.1, 2\.13\.2, 2\.1"):
        reject_unknown_versions(ClusterSpec(image="mine"), unknown, say=print)
    assert index.calls == ["index"]


def test_an_index_that_does_not_answer_is_not_taken_for_an_empty_one(index: Index) -> None:
    index.break_down()

    with pytest.raises(EnvironmentBroken, match=r"Could not ask the package index.*network is go"):
        ensure()


def test_what_could_not_be_fetched_leaves_no_folder_and_names_its_log(index: Index) -> None:
    client_packages.published_versions(print)
    index.break_down()

    with pytest.raises(EnvironmentBroken, match=r"build-librdkafka-2\.13\.0.*\.log(\n|.)*network"):
        ensure()
    assert not client_packages.package_folder(LIBRARY).exists()


# -- that it is the one that runs ------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RunContext]:
    """The context of a run without a cluster whose clients are to run `LIBRARY`."""
    run_dir = RunDir.create(tmp_path, scenario="short", seed=7)
    progress = Progress()
    made = RunContext(
        cluster=cast(DockerCluster, SimpleNamespace(access=Access("nowhere"))),
        run_dir=run_dir, run_id="0" * 16, seed=7, topics=(), progress=progress,
        phase=Phases(run_dir, progress), stop=threading.Event(),
        client=LIBRARY, runtime=ClientRuntime(packages=tmp_path / "packages"),
    )  # fmt: skip
    yield made
    for client in made.clients:
        client.kill()


def speaking(process: int, *lines: dict[str, Any], stays: bool = True) -> ClientSpec:
    return ClientSpec(
        process=process, role="producer", module="tests.unit.speaking_client",
        settings={"lines": lines, "stays": stays},
    )  # fmt: skip


def test_clients_find_the_library_first_and_what_they_run_is_written_down(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))

    (client,) = context.start_clients([speaking(1, {"library": LOADED})])
    context.abandon_clients()

    assert client.counts == {"path": str(context.runtime.packages)}
    assert [line["library"] for line in context.run_dir.lines("clients.jsonl")] == [LOADED]
    assert context.run_dir.meta()["client_versions"] == LOADED


def test_clients_of_the_harness_s_own_library_say_it_too(context: RunContext) -> None:
    context.client, context.runtime = None, ClientRuntime()

    context.start_clients([speaking(1, {"library": {"confluent-kafka": "2.16.1"}})])
    context.abandon_clients()

    assert context.run_dir.meta()["client_versions"] == {"confluent-kafka": "2.16.1"}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            speaking(3, {"library": LOADED | {"confluent-kafka": "2.13.2"}}),
            r"Client 3 \(producer\) runs confluent-kafka 2\.13\.2, and librdkafka:2\.13\.0 was",
        ),
        (speaking(4, stays=False), r"Client 4 \(producer\) ended before it said .*process-4\.log"),
    ],
)
def test_a_client_that_runs_another_library_ends_the_run(
    context: RunContext, spec: ClientSpec, sentence: str
) -> None:
    with pytest.raises(EnvironmentBroken, match=sentence):
        context.start_clients([speaking(1, {"library": LOADED}), spec])
    context.abandon_clients()

    assert [client.is_running for client in context.clients] == [False, False]


@pytest.mark.parametrize("version", ["2.0.2", ("2.0.2", 33554944)])
def test_a_client_says_the_versions_of_what_it_has_loaded(
    monkeypatch: pytest.MonkeyPatch, version: object
) -> None:
    def told() -> object:
        return version

    module = cast(Any, ModuleType("confluent_kafka"))
    module.version = told
    module.libversion = cast(Callable[[], object], lambda: ("2.0.2", 33554687))
    monkeypatch.setitem(sys.modules, "confluent_kafka", module)

    assert loaded_library() == {"confluent-kafka": "2.0.2", "librdkafka": "2.0.2"}


def test_a_client_that_has_loaded_no_library_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "confluent_kafka", raising=False)

    assert loaded_library() == {}
