"""The examples that are projects of their own, run as their readers would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

ORDERS = Path(__file__).parents[2] / "examples" / "orders"


@pytest.mark.parametrize("acks", ["all", "1"])
def test_the_shop_loses_orders_with_acks_1_alone_and_says_which(acks: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-p", "no:cacheprovider"],
        cwd=ORDERS, capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "CI": "1", "SHOP_ACKS": acks},
    )  # fmt: skip

    told = re.search(r"(\d+) accepted orders are gone, among them (.*)", done.stdout)
    if acks == "all":
        assert done.returncode == 0, done.stdout
        return
    assert done.returncode == 1, done.stdout
    assert told, done.stdout
    assert int(told[1]) == 50
    gone = {int(order) for order in re.findall(r"order (\d+)", told[2])}
    assert gone
    assert gone <= set(range(10, 60))
