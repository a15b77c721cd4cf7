"""Cuts that no broker tells of."""

from verifiers.replicas.cuts import cuts_by_faults


def test_what_a_lost_power_took_is_a_cut_with_its_cause() -> None:
    log = {"recovery_point": 0, "end_before": 10, "end_after": 5, "bytes": 600}
    evidence = {"phase": "inject", "observed": True, "details": {"cut": {"1": {"a-b-0": log}}}}
    killed = {"phase": "inject", "observed": True, "details": {"listener": {"1": "refused"}}}
    lines: list[dict[str, object]] = [
        {"id": "1", "event": "decided", "time_ns": 5, "fault": "disk_thief"},
        {"id": "1", "event": "injected", "time_ns": 7, "evidence": evidence},
        {"id": "2", "event": "decided", "time_ns": 8, "fault": "broker_kill"},
        {"id": "2", "event": "injected", "time_ns": 9, "evidence": killed},
        {"id": "2", "event": "failed", "error": "no such log"},
    ]

    (cut,) = cuts_by_faults(lines)

    assert (cut.broker, cut.topic, cut.partition, cut.to) == (1, "a-b", 0, 5)
    assert cut.who == "1 (disk_thief)"
    assert (cut.at_ns, cut.at_utc) == (7, "")
