"""A configuration that did not take effect is an error, and one that did is not."""

import pytest

from harness.cluster.admin import reject_ignored_config, takes_effect
from harness.core.errors import ClusterBroken

SEEN = {"min.insync.replicas": "2", "cleanup.policy": "compact,delete", "ratio": "0.50"}


@pytest.mark.parametrize(
    "wanted",
    [
        {"min.insync.replicas": "2"},
        {"cleanup.policy": "delete, compact"},
        {"ratio": "0.5"},
        {},
    ],
)
def test_the_same_value_in_other_words_is_the_same(wanted: dict[str, str]) -> None:
    reject_ignored_config("Broker 1", wanted, SEEN)


def test_a_misspelled_property_is_found() -> None:
    with pytest.raises(ClusterBroken, match=r"does not know the property 'min\.insync\.replica'"):
        reject_ignored_config("Broker 1", {"min.insync.replica": "2"}, SEEN)


def test_another_value_is_found() -> None:
    with pytest.raises(ClusterBroken, match=r"runs with min\.insync\.replicas=2, though 3"):
        reject_ignored_config("Broker 1", {"min.insync.replicas": "3"}, SEEN)


@pytest.mark.parametrize(
    ("wanted", "effective"),
    [
        ({}, True),
        ({"cleanup.policy": "delete, compact", "ratio": ".5"}, True),
        ({"min.insync.replicas": "3"}, False),
        ({"min.insync.replicas": "2", "retention.ms": "-1"}, False),
    ],
)
def test_a_change_has_taken_effect_once_all_of_it_has(
    wanted: dict[str, str], *, effective: bool
) -> None:
    assert takes_effect(wanted, SEEN) is effective
