"""What a claim may expect of a run: each function returns a test for an `Expectation`."""

from harness.lab.expectations import all_of as all_of
from harness.lab.expectations import appends_in_doubt as appends_in_doubt
from harness.lab.expectations import finds as finds
from harness.lab.expectations import finds_no as finds_no
from harness.lab.expectations import follows as follows
from harness.lab.expectations import keeps_all as keeps_all
from harness.lab.expectations import keeps_order as keeps_order
from harness.lab.expectations import loses as loses
from harness.lab.expectations import loses_some as loses_some
from harness.lab.expectations import refuses as refuses
from harness.lab.expectations import reorders as reorders
from harness.lab.expectations import repeats as repeats
from harness.lab.expectations import repeats_only as repeats_only
from harness.lab.expectations import sees as sees
