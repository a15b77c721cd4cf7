"""Images are named by their recipe, and a wrong wish ends before anything is built."""

from pathlib import Path

import pytest

from harness.core.errors import EnvironmentBroken, UsageError
from harness.machine import images
from harness.machine.programs import run, run_logged


def _recipe(folder: Path) -> Path:
    recipe = folder / "recipe"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text("FROM scratch\n")
    return recipe


def test_a_recipe_has_the_same_hash_twice(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)

    assert images.hash_folder(recipe) == images.hash_folder(recipe)


def test_a_changed_file_changes_the_hash(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    before = images.hash_folder(recipe)

    (recipe / "Dockerfile").write_text("FROM other\n")

    assert images.hash_folder(recipe) != before


def test_a_renamed_file_changes_the_hash(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    before = images.hash_folder(recipe)

    (recipe / "Dockerfile").rename(recipe / "dockerfile")

    assert images.hash_folder(recipe) != before


def test_a_wheel_that_keeps_no_modes_makes_the_same_image(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    program = recipe / "supervisor"
    program.write_text("#!/bin/bash\n")
    program.chmod(0o755)
    before = images.hash_folder(recipe)
    program.chmod(0o644)
    (recipe / "Dockerfile").chmod(0o755)

    images.copy_recipe(recipe, tmp_path / "context")

    assert images.hash_folder(recipe) == before
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "context").iterdir()}
    assert modes == {"supervisor": 0o755, "Dockerfile": 0o644}


def test_a_document_or_a_compiled_file_is_no_part_of_a_recipe(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    before = images.hash_folder(recipe)

    (recipe / "README.md").write_text("words")
    (recipe / "__pycache__").mkdir()
    (recipe / "__pycache__" / "a.pyc").write_bytes(b"\0")

    assert images.hash_folder(recipe) == before


def test_the_tag_of_a_broker_image_names_version_and_recipe() -> None:
    tag = images.broker_image("4.3.1")

    assert tag == f"kafka-chaos/broker:4.3.1-{images.recipe_hash('broker')}"


def test_both_recipes_are_found_in_the_checkout() -> None:
    folder = images.compose_folder()

    assert (folder / "broker" / "Dockerfile").is_file()
    assert (folder / "agent" / "Dockerfile").is_file()


def test_a_version_that_is_not_published_is_answered_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "image_exists", lambda tag: False)
    monkeypatch.setattr(images, "kafka_versions", lambda say: ["4.2.1", "4.3.1"])

    with pytest.raises(UsageError, match=r"no Kafka 4\.99 .*4\.2\.1, 4\.3\.1"):
        images.reject_unknown_kafka("4.99", say=print)


@pytest.mark.parametrize("version", ["", "latest", "4", "4.3.1; rm", "v4.3.1", "4.3.1-rc0"])
def test_what_is_no_version_is_refused_before_the_engine_is_asked(version: str) -> None:
    with pytest.raises(UsageError, match="no Kafka version"):
        images.ensure_broker_image(version, say=print)


def test_versions_before_two_listeners_or_without_tools_cannot_be_started() -> None:
    published = ["0.10.1.1", "0.10.2.0", "2.8.2", "3.10.0", "3.3.0", "3.9.1", "4.4.0"]

    usable = images.usable_versions(published, with_tools=["3.9.1", "3.10.0"])

    assert usable == ["0.10.2.0", "2.8.2", "3.3.0", "3.9.1", "3.10.0"]


def test_a_command_that_fails_shows_its_last_words_and_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"

    with pytest.raises(EnvironmentBroken) as caught:
        run_logged(
            ["sh", "-c", "echo out of cheese; exit 3"],
            log=log,
            timeout_s=30,
            what="a sandwich",
            say=lambda _: None,
        )

    assert "exit code 3" in str(caught.value)
    assert "out of cheese" in str(caught.value)
    assert str(log) in str(caught.value)


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBroken, match="longer than"):
        run_logged(
            ["sh", "-c", "exec tail -f /dev/null"],
            log=tmp_path / "build.log",
            timeout_s=0.05,
            what="nothing",
            say=lambda _: None,
        )


def test_a_program_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(EnvironmentBroken, match="kafka-chaos-no-such-program"):
        run(["kafka-chaos-no-such-program"], timeout_s=5)
