"""From nothing to the first topic: ratios of clusters of three, images at hand.

With class-data archive and flags against without; with ZooKeeper against KRaft; and how long a
Kafka version takes of which there is no image yet, while another's is there. The kinds of each
comparison take turns, so that a noisy machine hits both.
"""

import argparse
import re
import statistics
import tempfile
import time
from pathlib import Path

from harness.cluster.launch import launch
from harness.core.cache import cache_folder
from harness.core.cluster import ClusterSpec
from harness.machine.images import broker_image, ensure_broker_image, image_exists
from harness.machine.programs import run
from tests.bench._goals import Goal, exit_code

TUNED_WANTED = 0.6
ZOOKEEPER_WANTED = 1.5
SECOND_VERSION_WANTED_S = 30.0

_BOTH_MODES = "3.9.1"
_KINDS = {
    "tuned": ClusterSpec(tuned=True),
    "plain": ClusterSpec(tuned=False),
    "zookeeper": ClusterSpec(kafka=_BOTH_MODES, metadata="zookeeper"),
    "kraft": ClusterSpec(kafka=_BOTH_MODES, metadata="kraft"),
}
_REGISTRY = re.compile(r"Total time: +([\d.:]+) (min|s)")


def main(arguments: list[str]) -> int:
    """Print each start and the ratios of the medians; return 1 if one is above its bound."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench start-up")
    parser.add_argument("--pairs", type=int, default=3, help="starts of each kind")
    parser.add_argument("--second-version", default="2.8.1", help="a version to be built anew")
    options = parser.parse_args(arguments)
    for spec in _KINDS.values():
        ensure_broker_image(spec.kafka, say=lambda _: None)
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for number in range(options.pairs):
        for kind, spec in _KINDS.items():
            seconds[kind].append(_start(spec, number=number))
            print(f"{kind}: {seconds[kind][-1]:6.2f} s to the first topic", flush=True)  # noqa: T201
    medians = {kind: statistics.median(each) for kind, each in seconds.items()}
    goals = []
    for kind, other, wanted in (
        ("tuned", "plain", TUNED_WANTED),
        ("zookeeper", "kraft", ZOOKEEPER_WANTED),
    ):
        ratio = medians[kind] / medians[other]
        goals.append(Goal(name=f"{kind} by {other}", measured=ratio, at_most=wanted))
        print(  # noqa: T201
            f"start-up: {medians[kind]:.2f} s {kind}, {medians[other]:.2f} s {other} (medians of "
            f"{options.pairs}); ratio {ratio:.2f} (wanted: at most {wanted})"
        )
    goals.append(_second_version(options.second_version))
    return exit_code(goals)


def _second_version(kafka: str) -> Goal:
    """Build the image of a version anew and start its cluster; what Maven fetched is told apart."""
    tag = broker_image(kafka)
    if image_exists(tag):
        run(["docker", "rmi", "--force", tag], timeout_s=60)
    begin = time.monotonic()
    ensure_broker_image(kafka, say=lambda _: None)
    image_s = time.monotonic() - begin
    start_s = _start(ClusterSpec(kafka=kafka), number=0)
    log = cache_folder() / f"build-{tag.rpartition('/')[2].replace(':', '-')}.log"
    found = _REGISTRY.findall(log.read_text(encoding="utf-8", errors="replace"))
    fetched_s = _seconds(*found[-1]) if found else 0.0
    ours_s = image_s - fetched_s + start_s
    print(  # noqa: T201
        f"second version {kafka}: image {image_s:.1f} s, of which {fetched_s:.1f} s Maven, and "
        f"{start_s:.1f} s to the first topic: {ours_s:.1f} s without the "
        f"registry (wanted: at most {SECOND_VERSION_WANTED_S:g})"
    )
    return Goal(
        name=f"the first start of {kafka} without the registry, s",
        measured=ours_s,
        at_most=SECOND_VERSION_WANTED_S,
    )


def _seconds(amount: str, unit: str) -> float:
    """Return Maven's own measure of its time: "12.3 s" or "01:05 min"."""
    if unit == "s":
        return float(amount)
    minutes, _, rest = amount.partition(":")
    return 60.0 * int(minutes) + float(rest)


def _start(spec: ClusterSpec, *, number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        cluster = launch(spec, run=f"bench-start-{number}", folder=Path(folder), say=lambda _: None)
        try:
            return time.monotonic() - begin
        finally:
            cluster.shut_down()
