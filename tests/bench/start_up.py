"""From nothing to the first topic: with class-data archive and flags, against without.

Three brokers, images at hand; the two kinds take turns, so that a noisy machine hits both.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from harness.core.cluster import ClusterSpec
from harness.docker_cluster import DockerCluster

WANTED = 0.6


def main(arguments: list[str]) -> int:
    """Print the seconds of each start and the ratio of the medians; return 0."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench start-up")
    parser.add_argument("--pairs", type=int, default=3, help="starts of each kind")
    options = parser.parse_args(arguments)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(options.pairs):
        for tuned in (True, False):
            seconds[tuned].append(_start(tuned=tuned, number=number))
            name = "tuned" if tuned else "plain"
            print(f"{name}: {seconds[tuned][-1]:6.2f} s to the first topic", flush=True)  # noqa: T201
    tuned_s, plain_s = (statistics.median(seconds[kind]) for kind in (True, False))
    print(  # noqa: T201
        f"start-up: {tuned_s:.2f} s tuned, {plain_s:.2f} s plain (medians of {options.pairs}); "
        f"ratio {tuned_s / plain_s:.2f} (wanted: at most {WANTED})"
    )
    return 0


def _start(*, tuned: bool, number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        cluster = DockerCluster.launch(
            ClusterSpec(tuned=tuned),
            run=f"bench-start-{number}",
            folder=Path(folder),
            say=lambda _: None,
        )
        try:
            return time.monotonic() - begin
        finally:
            cluster.shut_down()
