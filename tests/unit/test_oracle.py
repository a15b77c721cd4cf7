"""What the oracle permits, contract by contract."""

from typing import Any

import pytest

from harness.core.contract import Contract
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.table import rule

SAFE: dict[str, Any] = {"acks": "all", "min_isr": 2}
LONELY: dict[str, Any] = {"acks": "all", "min_isr": 1}
UNCLEAN: dict[str, Any] = {**SAFE, "unclean_election": True}
ONE: dict[str, Any] = {"acks": "1"}
NONE: dict[str, Any] = {"acks": "0"}
PLAIN: dict[str, Any] = {**SAFE, "idempotence": False}


def permitted(anomaly: str, kind: str | None, contract: dict[str, Any], **at: Any) -> bool:
    circumstances = Circumstances(
        contract=Contract(**contract),
        kafka=at.get("kafka", "4.3.1"),
        destroyed=at.get("destroyed", False),
        copies_destroyed=at.get("copies_destroyed", False),
    )
    return rule(anomaly, kind, circumstances).permitted


@pytest.mark.parametrize(
    ("anomaly", "kind", "contract", "expected"),
    [
        ("lost-write", None, NONE, True),
        ("lost-write", None, ONE, True),
        ("lost-write", None, SAFE, False),
        ("lost-write", None, LONELY, False),
        ("lost-write", None, UNCLEAN, True),
        ("lost-write", "divergent", ONE, False),
        ("lost-write", "divergent", SAFE, False),
        ("lost-write", "divergent", UNCLEAN, True),
        ("lost-write", "unexplained", UNCLEAN, False),
        ("torn-transaction", "divergent", SAFE, False),
        ("unseen", None, SAFE, True),
        ("inconsistent-offsets", "acks", NONE, True),
        ("inconsistent-offsets", "acks", ONE, True),
        ("inconsistent-offsets", "acks", SAFE, False),
        ("inconsistent-offsets", "reads", ONE, False),
        ("inconsistent-offsets", "reads", UNCLEAN, True),
        ("dirty-read", None, NONE, False),
        ("dirty-read", None, ONE, False),
        ("dirty-read", None, SAFE, False),
        ("dirty-read", None, UNCLEAN, True),
        ("duplicate", "log", SAFE, False),
        ("duplicate", "log", ONE, True),
        ("duplicate", "log", PLAIN, True),
        ("duplicate", "log", {**PLAIN, "retries": 0}, False),
        ("duplicate", "log", UNCLEAN, False),
        ("duplicate", "moved", UNCLEAN, True),
        ("nonmonotonic-send", "order", SAFE, False),
        ("nonmonotonic-send", "order", PLAIN, True),
        ("nonmonotonic-send", "order", {**PLAIN, "max_in_flight": 1}, False),
        ("nonmonotonic-send", "order", {**PLAIN, "retries": 0}, False),
        ("nonmonotonic-send", "duplicate", {**PLAIN, "max_in_flight": 1}, True),
        ("nonmonotonic-send", "lost", {**ONE, "max_in_flight": 1}, True),
        ("nonmonotonic-send", "lost", {**PLAIN, "max_in_flight": 1}, False),
        ("consume-repeat", "before-processing", SAFE, False),
        ("consume-repeat", "before-processing", UNCLEAN, True),
        ("nonmonotonic-poll", "subscribe", SAFE, True),
        ("nonmonotonic-poll", "assign", SAFE, False),
        ("nonmonotonic-poll", "assign", UNCLEAN, True),
        ("poll-skip", "subscribe", SAFE, True),
        ("poll-skip", "assign", ONE, False),
        ("int-poll-skip", "lost", SAFE, False),
        ("int-poll-skip", "lost", UNCLEAN, True),
        ("int-nonmonotonic-poll", "lost", SAFE, False),
        ("int-nonmonotonic-poll", "lost", UNCLEAN, True),
        ("consume-skip", "auto-delivered", SAFE, True),
        ("consume-skip", "before-processing", SAFE, True),
        ("consume-skip", "auto-stored", SAFE, False),
        ("consume-skip", "after-processing", ONE, False),
        ("consume-skip", "lost", SAFE, False),
        ("consume-skip", "lost", UNCLEAN, True),
        ("consume-repeat", "uncommitted", SAFE, True),
        ("consume-repeat", "committed", SAFE, False),
        ("consume-repeat", "committed", NONE, False),
        ("client-gave-up", "timed-out", SAFE, True),
        ("client-gave-up", "unbegun", SAFE, True),
        ("client-gave-up", "sequence", SAFE, False),
        ("client-gave-up", "sequence", UNCLEAN, True),
        ("client-gave-up", "fenced", UNCLEAN, False),
        ("client-gave-up", "destroyed", UNCLEAN, False),
        ("group-stuck", "stalled", NONE, False),
        ("unexplained-answer", "record", NONE, False),
        ("lost-commit", "in-sync", NONE, False),
        ("lost-commit", "in-sync", UNCLEAN, True),
    ],
)
def test_the_table_rules_by_contract(
    anomaly: str, kind: str | None, contract: dict[str, Any], expected: bool
) -> None:
    assert permitted(anomaly, kind, contract) is expected


@pytest.mark.parametrize(
    "anomaly",
    ["G1a", "phantom", "corrupt-record", "int-nonmonotonic-poll", "int-poll-skip", "unheard-of"],
)
@pytest.mark.parametrize("contract", [NONE, ONE, SAFE, UNCLEAN])
def test_some_things_no_contract_permits(anomaly: str, contract: dict[str, Any]) -> None:
    assert not permitted(anomaly, None, contract)


def test_a_power_cut_may_take_what_lay_on_one_broker_only() -> None:
    gone = {"destroyed": True, "copies_destroyed": True}
    assert permitted("lost-write", "destroyed", LONELY, **gone)
    assert permitted("lost-write", "destroyed", SAFE, **gone)
    assert permitted("dirty-read", None, LONELY, **gone)
    assert not permitted("dirty-read", None, LONELY, destroyed=True)


def test_a_record_that_others_had_is_not_excused_by_copies_that_were_destroyed() -> None:
    gone = {"destroyed": True, "copies_destroyed": True}

    assert not permitted("lost-write", "explained", LONELY, **gone)
    assert not permitted("lost-write", None, SAFE, **gone)


@pytest.mark.parametrize(("kafka", "is_known"), [("1.1.1", True), ("2.0.1", False)])
def test_who_held_others_in_the_isr_is_known_up_to_1_1(kafka: str, is_known: bool) -> None:
    at = Circumstances(contract=Contract(**SAFE), kafka=kafka)

    for anomaly in ("lost-write", "torn-transaction"):
        why = str(rule(anomaly, "divergent", at).why)

        assert ("Kafka 0.11 to 1.1 is known for it" in why) is is_known


@pytest.mark.parametrize("kafka", ["0.10.2.2", "0.9.0.1"])
def test_old_brokers_break_the_contract_in_a_known_way(kafka: str) -> None:
    at = Circumstances(contract=Contract(**SAFE), kafka=kafka)

    ruling = rule("lost-write", None, at)

    assert not ruling.permitted
    assert "KIP-101" in str(ruling.why)


def test_newer_brokers_have_no_such_excuse() -> None:
    at = Circumstances(contract=Contract(**SAFE), kafka="0.11.0.3")

    assert "KIP-101" not in str(rule("lost-write", None, at).why)


@pytest.mark.parametrize(
    ("kafka", "clients_renew_epochs", "expected"),
    [("3.9.1", True, True), ("4.3.1", True, False), ("4.3.1", False, True)],
)
def test_a_late_request_is_suspected_where_transactions_share_an_epoch(
    kafka: str, clients_renew_epochs: bool, expected: bool
) -> None:
    at = Circumstances(
        contract=Contract(**SAFE), kafka=kafka, clients_renew_epochs=clients_renew_epochs
    )

    ruling = rule("G1a", "read_committed", at)

    assert not ruling.permitted
    assert ("KAFKA-17754" in str(ruling.why)) is expected


def test_every_ruling_gives_a_reason_in_a_sentence() -> None:
    at = Circumstances(contract=Contract(**SAFE), kafka="4.3.1")

    for anomaly in ("lost-write", "duplicate", "dirty-read", "phantom", "unheard-of"):
        assert str(rule(anomaly, None, at).why).endswith((".", ")."))


@pytest.mark.parametrize(
    ("anomaly", "kind", "contract", "permits"),
    [
        ("lost-write", None, ONE, "acks=1"),
        ("inconsistent-offsets", "acks", NONE, "acks=0"),
        ("dirty-read", None, UNCLEAN, "unclean election"),
        ("nonmonotonic-send", "lost", ONE, "the loss itself"),
        ("nonmonotonic-poll", "subscribe", SAFE, "subscribing in a group"),
        ("lost-write", None, SAFE, ""),
    ],
)
def test_a_ruling_names_what_of_the_contract_permits_it(
    anomaly: str, kind: str | None, contract: dict[str, Any], permits: str
) -> None:
    at = Circumstances(contract=Contract(**contract), kafka="4.3.1")

    assert rule(anomaly, kind, at).permits == permits


@pytest.mark.parametrize(
    ("anomaly", "kind", "expected"),
    [
        ("group-stuck", "nobody", True),
        ("group-stuck", "slow", True),
        ("group-stuck", "stalled", False),
        ("client-gave-up", "own", True),
        ("client-gave-up", "killed", True),
        ("client-gave-up", "crashed", False),
        ("client-gave-up", "timed-out", False),
        ("unexplained-answer", "server", True),
        ("unexplained-answer", "server-at-rest", False),
        ("unexplained-answer", "storage", True),
    ],
)
def test_what_nobody_can_tell_is_undecided(anomaly: str, kind: str, expected: bool) -> None:
    at = Circumstances(contract=Contract(**SAFE), kafka="4.3.1")

    assert rule(anomaly, kind, at).undecided is expected
