"""Kafka's Java client: made once for each version, and anew when our part of it changes."""

from pathlib import Path

import pytest

from harness.machine import java_client
from harness.machine.java_client import java_command


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The images that clients were made from, in a cache and a checkout of the test's own."""
    source = tmp_path / "compose" / "clients" / "java" / "KafkaChaosClient.java"
    source.parent.mkdir(parents=True)
    source.write_text("class KafkaChaosClient {}")
    monkeypatch.setattr(java_client, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(java_client, "compose_folder", lambda: tmp_path / "compose")
    monkeypatch.setattr(java_client, "ensure_agent_image", lambda **_: "agent")
    monkeypatch.setattr(java_client, "ensure_broker_image", lambda kafka, **_: f"broker:{kafka}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    images: list[str] = []

    def make(folder: Path, source: Path, *, image: str, **_: object) -> None:
        images.append(image)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / source.name).write_bytes(source.read_bytes())

    monkeypatch.setattr(java_client, "_make", make)
    return images


def test_a_client_is_made_once_a_version(made: list[str], tmp_path: Path) -> None:
    first = java_command("3.9.1", say=print)
    assert java_command("3.9.1", say=print) == first
    java_command("4.3.1", say=print)

    assert made == ["broker:3.9.1", "broker:4.3.1"]
    assert first[0] == "java"
    assert f"{tmp_path}/cache/clients/java-3.9.1/libs/*" in first[-2]


def test_a_client_is_made_anew_when_our_part_has_changed(made: list[str], tmp_path: Path) -> None:
    java_command("3.9.1", say=print)
    source = tmp_path / "compose" / "clients" / "java" / "KafkaChaosClient.java"
    source.write_text("class KafkaChaosClient { int more; }")

    java_command("3.9.1", say=print)

    assert made == ["broker:3.9.1"] * 2
