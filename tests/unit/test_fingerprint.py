"""A fingerprint: what is the same of one finding in every run, and of no other finding."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.fingerprint import Fingerprint, contract_class, fingerprints
from harness.campaigns.shrink import suspects
from harness.campaigns.trials import Finding
from harness.core.contract import Contract
from harness.core.verdict import Verdict
from tests.unit.event_story import Story
from verifiers.run_folder.result import (
    AnomalyFinding,
    Counts,
    JudgedFault,
    OffenceExample,
    Report,
)
from verifiers.situations.loss_causes import kind_of_cause, loss_causes

S = 1_000_000_000
ORIGIN_NS = 5_000 * S


def offence(at_s: float | None = 12.0, *, kind: str | None = None, **detail: str) -> OffenceExample:
    time_ns = None if at_s is None else ORIGIN_NS + round(at_s * S)
    return OffenceExample(
        topic="night-3", partition=1, offset=77, value=5, process=2, time_ns=time_ns, kind=kind,
        detail=detail,
    )  # fmt: skip


def fault(name: str, from_s: float, to_s: float, *, destroys_data: bool = False) -> JudgedFault:
    return JudgedFault(
        id=name, name=name, target="leader_of(night-3,1)", victims=(2,), injected_at_s=from_s,
        healed_at_s=to_s, proven=True, destroys_data=destroys_data,
    )  # fmt: skip


def report(
    *examples: OffenceExample,
    anomaly: str = "duplicate",
    faults: tuple[JudgedFault, ...] = (),
    kinds: tuple[str, ...] = ("",),
    **more: Any,
) -> Report:
    found = AnomalyFinding(
        count=len(examples), permitted=False, why="", kinds=dict.fromkeys(kinds, 1),
        forbidden_kinds=kinds, examples=examples,
    )  # fmt: skip
    return Report(
        run="r", scenario="mixed", seed=1, kafka="4.3.1", verdict=Verdict.INVALID, reasons=(),
        anomalies={anomaly: found}, counts=Counts(), faults=faults, checkers={},
        timing_s={}, **more,
    )  # fmt: skip


def of(report: Report, contract: Contract | None = None, **more: Any) -> tuple[Fingerprint, ...]:
    return fingerprints(
        report, contract=contract or Contract(), workload="send_poll", origin_ns=ORIGIN_NS, **more
    )


KILLED = fault("broker_kill", 10, 20)
LOST_BY = (
    "broker {} lost the lead of orders-{} to broker 2 at {} s, whose log went on at offset 7, "
    "under {} of broker 1 (4)"
)


def test_two_runs_that_show_one_thing_share_it() -> None:
    first = report(offence(12), faults=(KILLED,))
    second = replace(
        report(
            offence(40), offence(41),
            faults=(fault("partition", 1, 3), fault("broker_kill", 39, 50)),
        ),
        seed=99, kafka="3.9.1", run="another",
    )  # fmt: skip

    assert of(first) == of(second)
    (found,) = of(first)
    assert found.text == (
        "duplicate · send_poll · acks=all, several must be in sync, idempotent · broker_kill"
    )
    assert found.id == "duplicate-" + found.id[-8:]


@pytest.mark.parametrize(
    "other",
    [
        of(report(offence(12), anomaly="phantom", faults=(KILLED,))),
        of(report(offence(12, kind="moved"), kinds=("moved",), faults=(KILLED,))),
        of(report(offence(12), faults=(KILLED,)), Contract(acks="1")),
        of(report(offence(12), faults=(KILLED,)), Contract(min_isr=1)),
        of(report(offence(12), faults=(KILLED,)), control="leader_cut_and_kill"),
        of(report(offence(12), faults=(fault("partition", 10, 20),))),
    ],
    ids=["anomaly", "kind", "acks", "min ISR", "control", "fault"],
)
def test_two_things_that_differ_do_not_share_it(other: tuple[Fingerprint, ...]) -> None:
    (one,), (another,) = of(report(offence(12), faults=(KILLED,))), other

    assert one.id != another.id
    assert one.text != another.text


def test_lost_records_are_told_apart_by_what_lost_them() -> None:
    causes = [
        LOST_BY.format(1, 0, "14.3", "broker_kill"),
        LOST_BY.format(3, 2, "99.0", "broker_kill"),
        LOST_BY.format(3, 2, "99.0", "power_loss"),
    ]
    examples = [offence(kind="explained", lost_by=cause) for cause in causes]

    found = of(report(*examples, anomaly="lost-write", kinds=("explained",), faults=(KILLED,)))

    assert [each.explained_by for each in found] == [
        "change of leader under broker_kill", "change of leader under power_loss",
    ]  # fmt: skip


def test_what_nothing_explains_is_laid_to_no_fault_that_happens_to_be_there() -> None:
    (found,) = of(report(offence(kind="unexplained"), kinds=("unexplained",), faults=(KILLED,)))

    assert found.explained_by == "nothing known"


def test_an_offence_without_a_time_is_laid_to_what_lost_records_in_the_run() -> None:
    located = {"located": {"causes": {
        LOST_BY.format(1, 0, "1.0", "gc_pause"): 3, LOST_BY.format(1, 0, "2.0", "power_loss"): 2,
        LOST_BY.format(2, 0, "3.0", "power_loss"): 2,
    }}}  # fmt: skip
    told = report(offence(None), faults=(KILLED,), replicas=located)
    destroyed = report(
        offence(None), faults=(KILLED, fault("power_loss", 1, 2, destroys_data=True))
    )
    several = report(offence(None), faults=(KILLED, fault("partition", 1, 2)))

    assert [of(each)[0].explained_by for each in (told, destroyed, several)] == [
        "change of leader under power_loss", "power_loss", "one of several faults",
    ]  # fmt: skip
    assert of(report(offence(None)))[0].explained_by == "nothing known"


def test_what_the_contract_permits_leaves_no_fingerprint() -> None:
    judged = report(offence(), kinds=("a", "b"))
    finding = judged.anomalies["duplicate"]
    permitted = replace(judged, anomalies={"duplicate": replace(finding, permitted=True)})
    in_part = replace(judged, anomalies={"duplicate": replace(finding, forbidden_kinds=("b",))})

    assert of(permitted) == ()
    assert [each.kind for each in of(in_part)] == ["b"]


def test_a_contract_class_leaves_out_figures_that_decide_nothing() -> None:
    assert contract_class(Contract(linger_ms=9, retries=3)) == contract_class(
        Contract(replication_factor=5, min_isr=3)
    )
    assert contract_class(Contract(acks="1", min_isr=1)) == "acks=1, not idempotent"


@pytest.mark.parametrize("acks", ["0", "all"])
def test_the_words_of_every_cause_are_read_as_a_kind_without_figures(
    tmp_path: Path, acks: str
) -> None:
    story = (
        Story(path=tmp_path, acks=acks)
        .state(0, 1, (1, 2, 3))
        .fault(10, 20, 1, by="crash")
        .state(12, 2, (2, 3))
        .state(80, 3, (2, 3))
        .log(81, 1, "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 7")
        .state(90, None, (), elr=(2,))
        .state(92, 3, (3,))
    )

    kinds = {kind_of_cause(str(row["words"])) for row in loss_causes(story.events(), [])}

    assert kinds == {
        "change of leader under made_up", "change of leader", "log cut by its broker",
        "last known leader",
        *(["made_up"] if acks == "0" else []),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("power_loss of broker 2 cut orders-0 to offset 1,077 at 3.1 s", "log cut by power_loss"),
        ("broker 2 cut orders-0 to offset 1,077 at 3.1 s", "log cut by its broker"),
    ],
)
def test_a_cut_log_is_told_by_who_cut_it(words: str, kind: str) -> None:
    assert kind_of_cause(words) == kind


@pytest.mark.parametrize(
    ("at_s", "cause", "found"),
    [
        (None, LOST_BY.format(3, 1, 25.0, "broker_kill"), {"stop", "4"}),
        (None, "power_loss of broker 2 cut orders-1 to offset 7 at 42.5 s", {"4", "pause"}),
        (26.0, "", {"stop"}),
        (None, "", set()),
    ],
    ids=["named", "when it happened", "when it was seen", "nothing is known"],
)
def test_the_faults_behind_a_finding_are_those_of_its_cause_and_of_its_time(
    at_s: float | None, cause: str, found: set[str]
) -> None:
    faults = (
        fault("stop", 20, 27), fault("4", 41, 44), fault("pause", 40, 50), fault("late", 60, 61),
    )  # fmt: skip
    lost = report(
        offence(at_s, kind="explained", lost_by=cause),
        anomaly="lost-write", faults=faults, kinds=("explained",),
    )  # fmt: skip
    finding = Finding(anomaly="lost-write", kinds=frozenset({"explained"}))

    assert suspects(lost, finding, ORIGIN_NS) == found


# -- findings of searches on real versions ---------------------------------------------------------


def of_search(name: str, anomaly: str) -> set[str]:
    """Return the fingerprints of an anomaly in a run of a search, whose report is kept here.

    The files have the workload, the contract and the origin of a run, and of its report what is
    read for fingerprints; of each kind of an anomaly three examples.
    """
    path = Path(__file__).with_name("findings") / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    found = fingerprints(
        Report.read(kept["report"]), contract=Contract(**kept["contract"]),
        workload=kept["workload"], origin_ns=kept["origin_ns"],
    )  # fmt: skip
    return {each.id for each in found if each.anomaly == anomaly}


@pytest.mark.parametrize(
    ("one", "other", "anomaly"),
    [
        pytest.param("kip101-first", "kip101-second", "lost-write", id="KIP-101, two seeds"),
        pytest.param("kip279-first", "kip279-second", "epoch-disorder", id="KIP-279, two seeds"),
        pytest.param(
            "lead-kept-without-log-1.1.1", "lead-kept-without-log-2.0.1", "epoch-disorder",
            id="a leader without its log, two versions",
        ),
    ],
)  # fmt: skip
def test_one_defect_of_kafka_has_one_fingerprint(one: str, other: str, anomaly: str) -> None:
    assert of_search(one, anomaly) == of_search(other, anomaly) != set()


@pytest.mark.parametrize(
    ("one", "other", "anomaly"),
    [
        pytest.param(
            "kip279-first", "lead-kept-without-log-1.1.1", "epoch-disorder",
            id="KIP-279 and a leader without its log, one version",
        ),
        pytest.param("kip101-first", "kip966", "lost-write", id="KIP-101 and KIP-966"),
        pytest.param("kip966", "kafka5600", "lost-write", id="KIP-966 of records and of commits"),
    ],
)  # fmt: skip
def test_two_defects_of_kafka_have_two_fingerprints(one: str, other: str, anomaly: str) -> None:
    first, second = of_search(one, anomaly), of_search(other, anomaly)

    assert first
    assert second
    assert not first & second


def test_a_commit_lost_by_the_coordinator_is_told_from_one_lost_with_its_disk() -> None:
    """KAFKA-5600 and a loss of power, in one run of 0.11.0.0."""
    assert len(of_search("kafka5600", "lost-commit")) == 2
