"""Plants that take evidence away: each must break the rule of adequacy that asks for it."""

import json
from typing import Any

import numpy as np

from harness.history.seal import INVENTORY
from verifiers.planting.plant import Planted, plant, planted
from verifiers.planting.run_contents import NONE, NothingToPlant, Numbers, RunContents, first_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.journal import FaultSpan
from verifiers.situations.events import RunEvents

_EARLY = 0.1
"""A consumer that gets nothing for the rest of the run gets so much of its records."""


@plant(rule="files-complete", kind="a reader's file")
def a_file_is_gone(copy: RunCopy) -> Planted:
    """Remove the file of a final reader."""
    file = _some_file(copy, "final")
    (copy.path / file).unlink()
    return planted(f"{file} is gone")


@plant(rule="files-complete", kind="rows")
def a_file_is_shorter(copy: RunCopy) -> Planted:
    """Cut the last poll off a file, after it was sealed."""
    file = _some_file(copy, "poll")
    copy.cut_last_row(file)
    return planted(f"{file} lacks its last row")


@plant(rule="files-complete", kind="a client")
def a_client_left_nothing(copy: RunCopy) -> Planted:
    """Let run.json name a producer that nobody ever heard of."""
    process = copy.contents.new_process
    client = {"process": process, "role": "producer", "mode": None, "isolation": None}
    copy.edit_run(clients=[*copy.contents.run.meta["clients"], client])
    return planted(f"run.json names client {process}, who left no history")


@plant(rule="log-read-whole", kind="a partition")
def a_partition_was_not_read(copy: RunCopy) -> Planted:
    """Let the cluster have had a partition that nobody knew of."""
    topic, _ = copy.contents.some_partition
    number = max(p for t, p in copy.contents.topic_partitions if t == topic) + 1

    known = copy.contents.run.meta.get("partitions_at_end", {})
    copy.edit_run(partitions_at_end={**known, topic: {**known.get(topic, {}), number: 7}})
    return planted(f"the cluster had a partition {topic}-{number} at the end")


@plant(rule="log-read-whole", kind="rows")
def the_final_read_has_a_hole(copy: RunCopy) -> Planted:
    """Leave a record in the middle of a log out of the final read."""
    record = copy.contents.some_plain
    copy.drop("final", copy.contents.of_value("final", [record.value]))
    return planted(f"{record.name} is not in the final read, and its end is unchanged")


@plant(rule="log-read-whole", kind="the final read")
def nothing_was_read_at_last(copy: RunCopy) -> Planted:
    """Let no final reader have told how far it got."""
    copy.write("history/ends.json", b"[]\n")
    return planted("no final reader told how far it got")


@plant(rule="load-met-damage", kind="after the first fault")
def nothing_is_acknowledged_under_faults(copy: RunCopy) -> Planted:
    """Let every producer end when the first fault is decided."""
    first = _faults(copy.contents)[0]
    sends = copy.contents.rows("send")
    copy.drop("send", sends.numbers("complete_ns") >= first.decided_ns)
    return planted("nothing was sent once the first fault was decided")


@plant(rule="load-met-damage", kind="while a fault was in force")
def nothing_is_sent_during_a_fault(copy: RunCopy) -> Planted:
    """Let no send have been under way while the last fault was in force."""
    last = max(_faults(copy.contents), key=lambda fault: fault.end_ns)
    sends = copy.contents.rows("send")
    invoked, completed = sends.numbers("invoke_ns"), sends.numbers("complete_ns")
    under_way = (invoked <= last.end_ns) & (completed >= last.decided_ns) & (invoked != NONE)
    if not under_way.any() or under_way.all():
        raise NothingToPlant("no fault had some of the sends, and not all")
    copy.drop("send", under_way)
    return planted(f"nothing was sent while {last.name} ({last.id}) was in force")


@plant(rule="load-met-damage", kind="after the last healing")
def nothing_is_acknowledged_at_last(copy: RunCopy) -> Planted:
    """Let nothing have been acknowledged after the last fault was healed."""
    healed_ns = max(fault.end_ns for fault in _faults(copy.contents))
    sends = copy.contents.rows("send")
    late = sends.among("type", "ok") & (sends.numbers("complete_ns") > healed_ns)
    copy.drop("send", late)
    return planted("nothing was acknowledged after the last healing")


@plant(rule="readers-read", kind="no polls")
def consumers_are_given_nothing(copy: RunCopy) -> Planted:
    """Let no consumer have been given anything."""
    copy.drop("poll", np.ones(len(_poll_times(copy.contents)), dtype=np.bool_))
    return planted("no consumer was given any record")


@plant(rule="readers-read", kind="the end")
def consumers_stop_early(copy: RunCopy) -> Planted:
    """Let consumers have been given nothing after the first tenth of the time."""
    times = _poll_times(copy.contents)
    copy.drop("poll", times > _tenth_ns(times))
    return planted("consumers were given nothing after the first tenth of the time")


@plant(rule="readers-read", kind="the beginning")
def consumers_begin_late(copy: RunCopy) -> Planted:
    """Let consumers have been given nothing in the first tenth of the time."""
    times = _poll_times(copy.contents)
    copy.drop("poll", times < _tenth_ns(times))
    return planted("consumers were given nothing in the first tenth of the time")


@plant(rule="checkers-ran", kind="samples")
def no_high_watermark_was_sampled(copy: RunCopy) -> Planted:
    """Let nobody have sampled a high watermark."""
    copy.keep_lines("samples.jsonl", lambda line: line.get("sample") != "high-watermark")
    return planted("no high watermark was sampled")


@plant(rule="timeline-witnessed", kind="leaders")
def nobody_watched_a_partition(copy: RunCopy) -> Planted:
    """Let nobody have watched who led one of the partitions."""
    topic, number = tp = copy.contents.some_partition
    copy.keep_lines("timeline.jsonl", lambda line: (line["topic"], line["partition"]) != tp)
    return planted(f"nobody watched who led {topic}-{number}")


@plant(rule="timeline-witnessed", kind="the end")
def samples_end_early(copy: RunCopy) -> Planted:
    """Let the samples end when the first fault is decided."""
    first = _faults(copy.contents)[0]
    copy.keep_lines("samples.jsonl", lambda line: int(line["asked_ns"]) < first.decided_ns)
    return planted("samples were taken before the first fault only")


@plant(rule="losses-explained", kind="on every disk")
def a_loss_that_no_damage_explains(copy: RunCopy) -> Planted:
    """Leave a record out of the final read that every disk holds, where acks=1 permits losses."""
    if not copy.contents.has_disks:
        raise NothingToPlant("the brokers' logs were not copied")
    record = copy.contents.some_plain
    copy.drop("final", copy.contents.of_value("final", [record.value]))
    contract = copy.contents.run.meta["contract"]
    copy.edit_run(contract={**contract, "acks": "1", "idempotence": False})
    return planted(f"{record.name} was not read at last under acks=1, and every disk has it")


@plant(rule="one-value-one-fate")
def a_value_is_acknowledged_twice(copy: RunCopy) -> Planted:
    """Let a second producer have been acknowledged the record of another."""
    record = copy.contents.some_plain
    sends = copy.contents.rows("send")
    row = int(np.flatnonzero(copy.contents.of_value("send", [record.value]))[0])
    copy.add("send", **{**sends.row(row), "process": copy.contents.new_process})
    return planted(f"{record.name} was acknowledged to a second producer as well")


@plant(rule="one-clock")
def a_client_has_another_clock(copy: RunCopy) -> Planted:
    """Let a client have read its times from the clock of another machine."""

    def elsewhere(entries: dict[str, Any]) -> dict[str, Any]:
        entries[min(entries)]["clock"] = "another machine"
        return entries

    if "clock" not in json.loads((copy.path / "run.json").read_text()):
        raise NothingToPlant("the run was recorded before clocks were named")
    copy.edit_json(f"history/{INVENTORY}", elsewhere)
    return planted("a client read its times from another clock")


def _some_file(copy: RunCopy, dataset: str) -> str:
    files = sorted((copy.path / "history" / dataset).glob("*.parquet"))
    file = first_of(files, f"the run has no file of the dataset {dataset}")
    return str(file.relative_to(copy.path))


def _tenth_ns(times: Numbers) -> float:
    """Return when the first tenth of the time between these moments was over."""
    return float(times.min() + _EARLY * (times.max() - times.min()))


def _poll_times(contents: RunContents) -> Numbers:
    if not any(client.get("role") == "consumer" for client in contents.run.meta["clients"]):
        raise NothingToPlant("the run has no consumers")
    return contents.rows("poll").numbers("time_ns")


def _faults(contents: RunContents) -> tuple[FaultSpan, ...]:
    """Return the faults that had victims, in the order of their decisions."""
    faults = RunEvents(run=contents.run, timeline=contents.timeline).faults
    if not faults:
        raise NothingToPlant("no fault was injected")
    return faults
