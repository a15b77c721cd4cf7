"""Short histories written by hand, by what they are about."""

from tests.spark.stories import (
    clean,
    clients,
    cluster,
    differences,
    disks,
    groups,
    order,
    timeline,
    transactions,
    values,
)

STORIES = (
    *clean.STORIES,
    *values.STORIES,
    *order.STORIES,
    *groups.STORIES,
    *transactions.STORIES,
    *timeline.STORIES,
    *clients.STORIES,
    *differences.STORIES,
    *disks.STORIES,
    *cluster.STORIES,
)
