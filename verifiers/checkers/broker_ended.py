"""Processes of brokers, controllers and ZooKeeper that ended though no fault ended them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "broker-ended",
    severity=Severity.DELAYED,
    one="process of a node ended though no fault ended it",
    many="processes of nodes ended though no fault ended them",
)
def broker_ended(processes: DataFrame) -> DataFrame:
    """Return the ends of nodes' processes that no fault of the journal explains.

    A fault explains one end of each of its victims, from its decision until it was healed, if it
    stops processes. Counted is from the moment at which the clients were started.

    Returns:
        One row per end, by kind: `exited` by itself, with any status; `crashed` by a signal such as
        SIGSEGV or SIGABRT; `killed` by SIGKILL; `terminated` by SIGTERM, SIGINT or SIGHUP;
        `no-space` if it ended by itself after it logged that the disk is full; `container` if the
        whole container ended. time_ns is the latest moment at which it can have ended; `node`,
        `service` and `status` say who and how, `said` what it complained of before.

    Source: the supervisor's record of exit statuses; KIP-112.
    """
    return offences(
        processes.where(F.col("kind").isNotNull()),
        time_ns="to_ns",
        detail=columns("node", "service", "status", "said"),
    )
