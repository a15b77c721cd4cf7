"""Copying replicas out of containers, with an agent whose answers are real tar streams."""

import io
import json
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cluster.agent import Agent
from harness.cluster.disks import Source, copy_metadata, copy_replicas, copy_transactions
from harness.core.errors import ClusterBroken

FILES: Mapping[str, bytes] = {
    "meta.properties": b"node.id=1\n",
    "replication-offset-checkpoint": b"0\n0\n",
    "orders-0/00000000000000000000.log": b"x" * 5000,
    "orders-0/00000000000000000000.index": b"i" * 100,
    "orders-0/leader-epoch-checkpoint": b"0\n0\n",
    "orders-0/00000000000000000007.log.deleted": b"gone",
    "__consumer_offsets-0/00000000000000000000.log": b"y" * 5000,
}
TOPICS = {"orders": 1}


class TarAgent:
    """Lists and packs files as `find` and `tar` do; loses what it is told to lose."""

    def __init__(self, files: Mapping[str, bytes] = FILES, *, cut: Sequence[int] = ()) -> None:
        self.files = files
        self.cuts = list(cut)
        self.asked: list[str] = []

    def stream(
        self, command: Sequence[str], *, may_end_in: Collection[int] = (0,)
    ) -> Iterator[bytes]:
        self.asked.append(command[0])
        if command[0] == "sh":
            lines = [f"{len(c)} {len(c) // 512 + 1} {name}\n" for name, c in self.files.items()]
            content = "".join([*lines, "listed\n"]).encode()
        else:
            content = self._packed(command[command.index("--") + 1 :])
        if self.cuts and (keep := self.cuts.pop(0)) >= 0:
            content = content[:keep]
        yield from (content[at : at + 700] for at in range(0, len(content), 700))

    def _packed(self, names: Sequence[str]) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.size = len(self.files[name])
                archive.addfile(entry, io.BytesIO(self.files[name]))
        return packed.getvalue()


class BrokenAgent(TarAgent):
    def stream(
        self, command: Sequence[str], *, may_end_in: Collection[int] = (0,)
    ) -> Iterator[bytes]:
        raise ClusterBroken("sh ended in 2: no such folder.")


def copied(tmp_path: Path, agent: TarAgent, **changes: Any) -> dict[str, Any]:
    """Copy one broker's replicas and return the manifest."""
    limit_bytes = changes.pop("limit_bytes", 1 << 30)
    known: dict[str, Any] = {
        "node_id": 1, "service": "broker-1", "container_pid": 7, "log_dirs": ("/data",),
    }  # fmt: skip
    source = Source(**{**known, **changes})
    copy_replicas(cast("Agent", agent), [source], TOPICS, tmp_path, limit_bytes=limit_bytes)
    return dict(json.loads((tmp_path / "replicas.json").read_text()))


def names(tmp_path: Path) -> list[str]:
    root = tmp_path / "broker-1"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


WANTED = [
    "data/meta.properties",
    "data/orders-0/00000000000000000000.log",
    "data/orders-0/leader-epoch-checkpoint",
    "data/replication-offset-checkpoint",
]


def test_segments_and_checkpoints_of_the_topics_are_copied_and_nothing_else(
    tmp_path: Path,
) -> None:
    manifest = copied(tmp_path, TarAgent())

    assert names(tmp_path) == WANTED
    assert (
        tmp_path / "broker-1/data/orders-0/00000000000000000000.log"
    ).read_bytes() == b"x" * 5000
    broker = manifest["brokers"]["1"]
    assert (broker["copied"], broker["why"], broker["partitions"]) == (True, None, ["orders-0"])


@pytest.mark.parametrize("cut", [(0,), (-1, 0), (-1, 700), (-1, 3000), (20,)])
def test_what_the_engine_loses_is_asked_for_again(tmp_path: Path, cut: Sequence[int]) -> None:
    agent = TarAgent(cut=cut)

    assert copied(tmp_path, agent)["brokers"]["1"]["copied"] is True
    assert names(tmp_path) == WANTED
    assert len(agent.asked) == 3


def test_what_is_lost_again_and_again_is_not_called_copied(tmp_path: Path) -> None:
    broker = copied(tmp_path, TarAgent(cut=(-1, 900, 900, 900)))["brokers"]["1"]

    assert broker["copied"] is False
    assert broker["why"] == "4 of 4 files got lost on the way, meta.properties first"
    assert names(tmp_path) == []


def test_more_than_the_limit_is_not_copied_at_all(tmp_path: Path) -> None:
    manifest = copied(tmp_path, TarAgent(), limit_bytes=4999)

    assert "--replica-limit-mib" in manifest["reasons"][0]
    assert manifest["brokers"]["1"]["copied"] is False
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("agent", "changes", "why"),
    [
        (BrokenAgent(), {}, "no such folder"),
        (TarAgent(), {"log_dirs": ()}, "where its logs lie is not known"),
    ],
)
def test_what_cannot_be_had_is_said(
    tmp_path: Path, agent: TarAgent, changes: dict[str, Any], why: str
) -> None:
    broker = copied(tmp_path, agent, **changes)["brokers"]["1"]

    assert broker["copied"] is False
    assert why in broker["why"]


def test_a_broker_without_a_replica_has_been_copied_all_the_same(tmp_path: Path) -> None:
    broker = copied(tmp_path, TarAgent({"meta.properties": b"node.id=1\n"}))["brokers"]["1"]

    assert (broker["copied"], broker["partitions"]) == (True, [])


# --- the metadata log

NODE = Source(node_id=1, service="broker-1", container_pid=7, log_dirs=("/data",))


def test_the_metadata_log_is_copied_and_nothing_beside_it(tmp_path: Path) -> None:
    files = {
        **FILES,
        "__cluster_metadata-0/00000000000000000000.log": b"m" * 3000,
        "__cluster_metadata-0/leader-epoch-checkpoint": b"0\n0\n",
        "__cluster_metadata-0/quorum-state": b"{}",
    }
    copy_metadata(cast("Agent", TarAgent(files)), [NODE], tmp_path)

    found = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {Path("broker-1/metadata/__cluster_metadata-0/00000000000000000000.log")}


def test_a_node_without_a_metadata_log_has_none_copied(tmp_path: Path) -> None:
    copy_metadata(cast("Agent", TarAgent()), [NODE], tmp_path)

    assert list(tmp_path.rglob("*")) == []


def test_a_metadata_log_that_gets_lost_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {"__cluster_metadata-0/00000000000000000000.log": b"m" * 3000}
    lossy = TarAgent(files, cut=[-1, 600, 600, 600])

    copy_metadata(cast("Agent", lossy), [NODE], tmp_path)

    assert "The metadata log of broker-1 is not kept" in caplog.text
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


COORDINATORS: Mapping[str, bytes] = {
    **FILES,
    "__transaction_state-0/00000000000000000000.log": b"t" * 900,
    "__transaction_state-0/00000000000000000000.index": b"i" * 100,
    "__transaction_state-0/leader-epoch-checkpoint": b"0\n0\n",
    "__transaction_state-1/00000000000000000000.log": b"",
}


def copied_transactions(tmp_path: Path, agent: TarAgent) -> dict[str, Any]:
    source = Source(node_id=1, service="broker-1", container_pid=7, log_dirs=("/a", "/b"))
    return copy_transactions(cast("Agent", agent), [source], tmp_path)


def test_the_logs_of_transaction_coordinators_are_copied_from_every_disk(tmp_path: Path) -> None:
    told = copied_transactions(tmp_path, TarAgent(COORDINATORS))

    assert told["why"] is None
    log = "__transaction_state-0/00000000000000000000.log"
    assert [name for name in names(tmp_path) if (tmp_path / "broker-1" / name).stat().st_size] == [
        f"transactions-2/{log}",
        f"transactions/{log}",
    ]


def test_a_broker_without_transactions_has_none_to_copy(tmp_path: Path) -> None:
    assert copied_transactions(tmp_path, TarAgent())["why"] is None
    assert names(tmp_path) == []


def test_whose_transactions_could_not_be_copied_is_told(tmp_path: Path) -> None:
    told = copied_transactions(tmp_path, BrokenAgent())

    assert told["why"] == "broker-1: sh ended in 2: no such folder"


def test_the_manifest_says_when_the_transactions_were_copied(tmp_path: Path) -> None:
    source = Source(node_id=1, service="broker-1", container_pid=7, log_dirs=("/data",))
    agent = cast("Agent", TarAgent(COORDINATORS))

    told = copy_transactions(agent, [source], tmp_path)
    copy_replicas(agent, [source], TOPICS, tmp_path, transactions=told)

    manifest = json.loads((tmp_path / "replicas.json").read_text())
    assert manifest["transactions"] == told
    assert told["asked_ns"] <= manifest["from_ns"]
